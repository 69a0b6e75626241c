/* SPDX-License-Identifier: Apache-2.0
 * The commands of the native program. The module for Node has wasm/program/commands.c instead of
 * this file. */
#include "cli/command_rows.h"

const struct named_command program_commands[] = {
    ROW_EMBED,    ROW_SIMILARITY, ROW_RERANK,  ROW_CLASSIFY, ROW_INDEX,     ROW_SEARCH,
    ROW_GENERATE, ROW_TOKENIZE,   ROW_CONVERT, ROW_QUANTIZE, ROW_CALIBRATE, ROW_INSPECT,
    ROW_EVAL,     ROW_SERVE,      ROW_PULL,    ROW_LIST,     ROW_DOCTOR,    {0}};

/* SPDX-License-Identifier: Apache-2.0
 * The commands of the module for Node. JavaScript has its own embed, convert, pull and list, which
 * fetch models. */
#include "cli/command_rows.h"

const struct named_command program_commands[] = {
    ROW_SIMILARITY, ROW_RERANK,    ROW_INDEX,   ROW_SEARCH, ROW_GENERATE, ROW_TOKENIZE,
    ROW_QUANTIZE,   ROW_CALIBRATE, ROW_INSPECT, ROW_EVAL,   {0}};

/* SPDX-License-Identifier: Apache-2.0
 * The commands of the native program. The module for Node has wasm/program/commands.c instead of
 * this file. */
#include "cli/cli.h"

const struct named_command program_commands[] = {
    {"embed", command_embed},       {"similarity", command_similarity},
    {"rerank", command_rerank},     {"index", command_index},
    {"search", command_search},     {"generate", command_generate},
    {"tokenize", command_tokenize}, {"convert", command_convert},
    {"quantize", command_quantize}, {"calibrate", command_calibrate},
    {"inspect", command_inspect},   {"eval", command_eval},
    {"serve", command_serve},       {0}};

/* SPDX-License-Identifier: Apache-2.0
 * The commands of the module for Node. JavaScript has its own embed and convert, which fetch
 * models. */
#include "cli/cli.h"

const struct named_command program_commands[] = {
    {"tokenize", command_tokenize},   {"quantize", command_quantize},
    {"calibrate", command_calibrate}, {"inspect", command_inspect},
    {"eval", command_eval},           {0}};

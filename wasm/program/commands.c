/* SPDX-License-Identifier: Apache-2.0
 * The commands of the module for Node. JavaScript has its own embed and convert, which fetch
 * models. */
#include "cli/cli.h"

const struct named_command program_commands[] = {
    {"quantize", command_quantize}, {"calibrate", command_calibrate}, {0}};

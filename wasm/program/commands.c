/* SPDX-License-Identifier: Apache-2.0
 * The commands of the module for Node. JavaScript has its own embed and convert, which fetch
 * models. */
#include "cli/command_rows.h"

const struct named_command program_commands[] = {ROW_TOKENIZE, ROW_QUANTIZE, ROW_CALIBRATE,
                                                 ROW_INSPECT,  ROW_EVAL,     {0}};

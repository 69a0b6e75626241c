/* SPDX-License-Identifier: Apache-2.0
 * The commands of the module for Node. JavaScript has its own embed and convert, which fetch
 * models. */
#include "cli/cli.h"

const struct named_command program_commands[] = {
    {"tokenize", command_tokenize, "write the token ids of texts, or the text of ids"},
    {"quantize", command_quantize,
     "quantise a model as llama.cpp does, or measure what that loses"},
    {"calibrate", command_calibrate,
     "make a model sparse: let it compute only the neurons that matter"},
    {"inspect", command_inspect, "list the metadata and tensors of a model"},
    {"eval", command_eval, "measure the quality of a model on your data"},
    {0}};

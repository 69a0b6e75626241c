/* SPDX-License-Identifier: Apache-2.0
 * The commands of the native program. The module for Node has wasm/program/commands.c instead of
 * this file. */
#include "cli/cli.h"

const struct named_command program_commands[] = {
    {"embed", command_embed, "write the embeddings of texts as text, JSON, NPY or raw floats"},
    {"similarity", command_similarity,
     "find the lines nearest in meaning to a query, or score pairs of texts"},
    {"rerank", command_rerank, "find the lines that answer a query best, with a cross-encoder"},
    {"index", command_index, "make an index of texts, add to it and remove from it"},
    {"search", command_search, "find the entries of an index nearest in meaning to queries"},
    {"generate", command_generate, "continue a text, or talk"},
    {"tokenize", command_tokenize, "write the token ids of texts, or the text of ids"},
    {"convert", command_convert, "convert a model to GGUF"},
    {"quantize", command_quantize,
     "quantise a model as llama.cpp does, or measure what that loses"},
    {"calibrate", command_calibrate,
     "make a model sparse: let it compute only the neurons that matter"},
    {"inspect", command_inspect, "list the metadata and tensors of a model"},
    {"eval", command_eval, "measure the quality of a model on your data"},
    {"serve", command_serve, "answer requests over HTTP"},
    {0}};

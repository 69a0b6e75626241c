/* SPDX-License-Identifier: Apache-2.0
 * Rows of program_commands, of which each build of the program has its own. */
#ifndef WISP_CLI_COMMAND_ROWS_H
#define WISP_CLI_COMMAND_ROWS_H

#include "cli/cli.h"

#define ROW_EMBED                                                                                  \
    {"embed", command_embed, "write the embeddings of texts as text, JSON, NPY or raw floats"}
#define ROW_SIMILARITY                                                                             \
    {"similarity", command_similarity,                                                             \
     "find the lines nearest in meaning to a query, or score pairs of texts"}
#define ROW_RERANK                                                                                 \
    {"rerank", command_rerank, "find the lines that answer a query best, with a cross-encoder"}
#define ROW_CLASSIFY {"classify", command_classify, "score the labels of texts with a classifier"}
#define ROW_INDEX {"index", command_index, "make an index of texts, add to it and remove from it"}
#define ROW_SEARCH                                                                                 \
    {"search", command_search, "find the entries of an index nearest in meaning to queries"}
#define ROW_GENERATE {"generate", command_generate, "continue a text, or talk"}
#define ROW_TOKENIZE                                                                               \
    {"tokenize", command_tokenize, "write the token ids of texts, or the text of ids"}
#define ROW_CONVERT {"convert", command_convert, "convert a model to GGUF"}
#define ROW_QUANTIZE                                                                               \
    {"quantize", command_quantize, "quantise a model as llama.cpp does, or measure what that loses"}
#define ROW_CALIBRATE                                                                              \
    {"calibrate", command_calibrate,                                                               \
     "make a model sparse: let it compute only the neurons that matter"}
#define ROW_INSPECT {"inspect", command_inspect, "list the metadata and tensors of a model"}
#define ROW_EVAL {"eval", command_eval, "measure the quality of a model on your data"}
#define ROW_PULL                                                                                   \
    {"pull", command_pull, "fetch models of the Hugging Face Hub, or by their addresses"}
#define ROW_LIST {"list", command_list, "list the models that were fetched, or remove some"}
#define ROW_DOCTOR {"doctor", command_doctor, "look at this machine: what makes wisp slow here"}
#define ROW_SERVE {"serve", command_serve, "answer requests over HTTP"}

#endif

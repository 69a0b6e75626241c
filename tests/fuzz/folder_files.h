/* SPDX-License-Identifier: Apache-2.0
 * The files of a folder that fuzz_folder.c replaces; the input's first byte is an index. */
#ifndef TESTS_FUZZ_FOLDER_FILES_H
#define TESTS_FUZZ_FOLDER_FILES_H

enum { FOLDER_FILES = 11 };

static const char *const folder_files[FOLDER_FILES] = {"config.json",
                                                       "tokenizer.json",
                                                       "tokenizer_config.json",
                                                       "special_tokens_map.json",
                                                       "modules.json",
                                                       "1_Pooling/config.json",
                                                       "sentence_bert_config.json",
                                                       "config_sentence_transformers.json",
                                                       "model.safetensors.index.json",
                                                       "model.safetensors",
                                                       "vocab.txt"};

#endif

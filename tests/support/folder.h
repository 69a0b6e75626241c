/* SPDX-License-Identifier: Apache-2.0
 * Builds Hugging Face folders in memory for tests: the tiny BERT model of builder.h as
 * sentence-transformers would save it, in which a test changes one thing. */
#ifndef TESTS_FOLDER_H
#define TESTS_FOLDER_H

#include <stdbool.h>

#include "support/builder.h"

enum { FOLDER_MAX_FILES = 24 };

struct folder_file {
    char name[96];
    struct bytes bytes;
};

struct folder {
    struct folder_file files[FOLDER_MAX_FILES];
    size_t n;
};

/* config.json, model.safetensors, tokenizer.json, tokenizer_config.json, vocab.txt, modules.json,
 * 1_Pooling/config.json, sentence_bert_config.json and config_sentence_transformers.json. */
void folder_make(struct folder *folder, const struct tiny_shape *shape);
void folder_release(struct folder *folder);

/* Reads a folder of tests/data/models. */
void folder_read_model(struct folder *folder, const char *model);

/* Returns the file's bytes. Aborts if there is none. */
struct bytes *folder_file(struct folder *folder, const char *name);

/* Sets the bytes of a file, which is added if it is absent. */
void folder_put(struct folder *folder, const char *name, const void *data, size_t size);
void folder_put_text(struct folder *folder, const char *name, const char *text);
void folder_drop(struct folder *folder, const char *name);

/* Replaces the first `old`, which must exist. In a safetensors file it searches the header and
 * corrects its length. */
void folder_replace(struct folder *folder, const char *name, const char *old, const char *with);

/* Divides model.safetensors into a.safetensors, b.safetensors and their index. */
void folder_shard(struct folder *folder, const struct tiny_shape *shape);

/* Appends a safetensors file with this header and data. */
void safetensors_put(struct bytes *out, const char *header, size_t length, const void *data,
                     size_t size);

/* Writes all files into the folder at `path`, which is created, or emptied first. */
void folder_write(const struct folder *folder, const char *path);

/* Removes a folder with its contents, if it exists. */
void folder_remove(const char *path);

/* Returns the bytes of all files together. */
size_t folder_size(const struct folder *folder);

#endif

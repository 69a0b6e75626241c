/* SPDX-License-Identifier: Apache-2.0
 * Hugging Face folders in memory for tests: the tiny BERT model of builder.h as
 * sentence-transformers would save it, of which a test alters any one thing. */
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

/* The file's bytes; aborts where there is none. */
struct bytes *folder_file(struct folder *folder, const char *name);

/* The file becomes these bytes, and is added where there is none. */
void folder_put(struct folder *folder, const char *name, const void *data, size_t size);
void folder_put_text(struct folder *folder, const char *name, const char *text);
void folder_drop(struct folder *folder, const char *name);

/* Replaces the first `old`, which must be there. In a safetensors file it is the header that is
 * searched, and its length is made to fit. */
void folder_replace(struct folder *folder, const char *name, const char *old, const char *with);

/* model.safetensors becomes a.safetensors, b.safetensors and their index. */
void folder_shard(struct folder *folder, const struct tiny_shape *shape);

/* Appends a safetensors file of this header and data. */
void safetensors_put(struct bytes *out, const char *header, size_t length, const void *data,
                     size_t size);

/* Writes all files into the folder at `path`, which is made, or emptied first. */
void folder_write(const struct folder *folder, const char *path);

/* Removes a folder with all that is in it, if it is there. */
void folder_remove(const char *path);

/* Bytes of all files. */
size_t folder_size(const struct folder *folder);

#endif

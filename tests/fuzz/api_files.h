/* SPDX-License-Identifier: Apache-2.0
 * The models of fuzz_api.c: as files, in memory, and as sources that fail or lie. */
#ifndef TESTS_FUZZ_API_FILES_H
#define TESTS_FUZZ_API_FILES_H

#include <stdatomic.h>

#include "fuzz_file.h"
#include "support/builder_llama.h"
#include "support/sparse_models.h"

enum { FILES = 8, DECODERS = 2 };

/* ---- files ---------------------------------------------------------------------------------- */

static struct bytes files[FILES];
static const char *const file_names[FILES] = {"0.gguf", "1.gguf", "2.gguf", "3.gguf",
                                              "4.gguf", "5.gguf", "6.gguf", "7.gguf"};

static inline void make_file(unsigned number, struct gguf *file) {
    gguf_write_bytes(file, &files[number]);
    gguf_release(file);
    fuzz_file(file_names[number], files[number].data, files[number].size);
}

/* Makes the files once. Together they have all that models and sparse layers may have. */
static inline void make_files(void) {
    static const struct tiny_shape *const shapes[] = {&tiny_shape, &tiny_shape_q8_0, &tiny_rows,
                                                      &tiny_nomic_rows_q8_0};
    struct gguf file;
    if (files[0].size > 0)
        return;
    for (unsigned i = 0; i < 4; i++) {
        gguf_make(&file, shapes[i]);
        make_file(i, &file);
    }
    for (unsigned gated = 0; gated < 2; gated++) {
        const char *activation = gated ? "silu" : "gelu";
        const struct predicting p = {.shape = tiny_shape_of(activation),
                                     .activation = activation,
                                     .rank = 32,
                                     .type = gated ? BLOCK_Q8_0 : BLOCK_F32,
                                     .compensated = true,
                                     .shared = gated != 0,
                                     .by_text = gated == 0};
        make_predicting(&file, &p);
        make_file(4 + gated, &file);
    }
    for (unsigned i = 0; i < DECODERS; i++) {
        llama_make(&file, &llama_shapes[2 * i]);
        make_file(FILES - DECODERS + i, &file);
    }
}

/* ---- sources -------------------------------------------------------------------------------- */

/* A source of one of the files. It fails from read `fails_at` on, or once, and changes a byte in
 * every read from `lies_at` on. Reads are counted from 1; 0 is never. */
struct source {
    const struct bytes *file;
    unsigned char *copy; /* of the file, used in place */
    uint64_t size;       /* as stated; less or more than the file has */
    atomic_uint_least64_t reads;
    uint64_t fails_at, lies_at;
    bool fails_on;
    atomic_int closed;
};

static inline int read_source(void *context, uint64_t offset, void *buffer, size_t length) {
    struct source *source = context;
    const uint64_t number = atomic_fetch_add(&source->reads, 1) + 1;
    if (source->closed || offset > source->size || length > source->size - offset)
        abort();
    memset(buffer, 0, length);
    const uint64_t end =
        offset + length < source->file->size ? offset + length : source->file->size;
    const bool fails = source->fails_at &&
                       (source->fails_on ? number >= source->fails_at : number == source->fails_at);
    if (offset < end)
        memcpy(buffer, source->file->data + offset, (size_t)(end - offset) / (fails ? 2 : 1));
    if (source->lies_at && number >= source->lies_at && length > 0)
        ((unsigned char *)buffer)[number * 2654435761u % length] ^= (unsigned char)(number | 1);
    return fails ? -1 : 0;
}

static inline void close_source(void *context) {
    struct source *source = context;
    source->closed++;
}

#endif

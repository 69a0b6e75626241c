/* SPDX-License-Identifier: Apache-2.0
 * Builds GGUF files of tiny models that generate, for tests that change one thing (builder.h). */
#ifndef TESTS_BUILDER_LLAMA_H
#define TESTS_BUILDER_LLAMA_H

#include "support/builder.h"

enum { LLAMA_HIDDEN = 8, LLAMA_WIDE = 16, LLAMA_LAYERS = 2, LLAMA_POSITIONS = 64 };

/* A tiny decoder: its architecture says which tensors it has. */
struct llama_shape {
    const char *architecture; /* "llama", "qwen2" or "qwen3" */
    bool byte_level; /* byte-level BPE with ChatML's tokens and template; else SentencePiece
                        with those of Llama 2 */
    bool unigram;    /* SentencePiece's unigram model instead of its BPE */
    bool tied;       /* logits come from the token embeddings */
};

extern const struct llama_shape llama_shapes[];
enum { LLAMA_SHAPES = 4 };

/* Returns the number of tokens. */
size_t llama_tokens(const struct llama_shape *shape);

/* Makes the file. It is released once, with gguf_release. */
void llama_make(struct gguf *file, const struct llama_shape *shape);

/* Calls the function for each tensor, as tiny_each_tensor does. */
void llama_each_tensor(const struct llama_shape *shape,
                       void (*visit)(void *context, const char *name, uint64_t dim0, uint64_t dim1),
                       void *context);

/* Set a key to an array of floats. */
void gguf_set_f32s(struct gguf *file, const char *name, const float *values, size_t count);

#endif

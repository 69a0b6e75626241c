/* SPDX-License-Identifier: Apache-2.0
 * Writes GGUF files. Source: the GGUF specification (ggml-org/ggml). */
#ifndef WISP_CONVERT_GGUF_WRITE_H
#define WISP_CONVERT_GGUF_WRITE_H

#include "convert/row_converter.h"
#include "host/file.h"

struct gguf_plan {
    /* [n_tensors], with room for one more if write_model is called: the format in which each
     * tensor is written. It is the tensor's own, or another one that has `quantise` and whose block
     * divides the row or crosses rows; then the tensor's own must have `dequantise`. A tensor that
     * bitnet_made keeps its bytes if the file stores it in this format. */
    const struct block_format **formats;
    /* The bytes of the chunks whose SHA-256 the file gets (formats/chunks.h); 0 if it gets none.
     * write_model sets it. */
    uint32_t chunk_bytes;
    uint64_t hot_tokens; /* whose embeddings write_model puts first (convert/hot_tokens.h) */
    bool as_reference;   /* quantise as ggml's reference does (row_converter.h) */
    const struct t158_options *ternary; /* options of BITNET_T158; NULL: t158_defaults */
    /* Runs after each tensor with its index and, if it was quantised as_reference, what that
     * lost. May be NULL. */
    void (*written)(void *context, size_t index, const struct conversion_loss *loss);
    void *written_context;
    /* Runs after each tensor, and in between while a long one is written, with the number of
     * tensors that are done; returns false to cancel. May be NULL. */
    bool (*progress)(void *context, size_t done, size_t total);
    void *progress_context;
};

/* Writes the directory's metadata and its tensors, in their order, as GGUF version 3. If the
 * file gets a table of chunks, its keys are added to the directory, which must not have them. Fails
 * if a tensor cannot be read, a value exceeds the range of its new format, the file cannot be
 * written, or `progress` cancels (WISP_ERROR_CANCELLED). */
wisp_status gguf_write(struct file_writer *file, struct directory *dir,
                       const struct gguf_plan *plan, wisp_error *error);

/* Returns the bytes of the file that gguf_write would write without a table of chunks. */
uint64_t gguf_file_bytes(const struct directory *dir, const struct gguf_plan *plan);

/* Returns the bytes that a tensor takes in a file in this format, including the padding up to the
 * next tensor. */
uint64_t gguf_tensor_bytes(const struct tensor *tensor, const struct block_format *format);

#endif

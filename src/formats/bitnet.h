/* SPDX-License-Identifier: Apache-2.0
 * Tensors of two ternary types that are not ggml's: BITNET_T158 (quant/t158.h), which the metadata
 * tells from BF16, and I2_S (quant/i2_s.h). */
#ifndef WISP_FORMATS_BITNET_H
#define WISP_FORMATS_BITNET_H

#include "formats/directory.h"

/* Sets *ternary: tensors of type 30 are BITNET_T158 in a file with KEY_BITNET_VERSION, and BF16 in
 * others. Fails if the file is of another version or block size than wisp knows. */
wisp_status bitnet_read_keys(const struct directory *dir, bool *ternary, wisp_error *error);

/* Makes the floats of a type whose rows depend on bytes outside the row. */
struct bitnet_maker {
    uint32_t type;
    bool keeps_format; /* the format of the file says which values a tensor has */
    wisp_status (*make)(const struct directory *dir, const struct tensor *tensor, uint64_t first,
                        uint64_t rows, struct tensor_cache *cache, void *buffer, const void **bytes,
                        wisp_error *error);
};

extern const struct bitnet_maker bitnet_t158, bitnet_i2_s;

/* Those of this product (src/products); NULL ends the list. */
extern const struct bitnet_maker *const bitnet_makers[];

/* Replaces tensors whose rows depend on bytes outside of the row by F32 tensors made from them, so
 * that readers of the directory can read any row. dir->stored then lists the tensors of the
 * file. */
wisp_status bitnet_make_rows(struct directory *dir, wisp_error *error);

/* Makes `tensor`, whose format is BITNET_T158 and whose blocks cross rows, an F32 tensor. `stored`
 * has the same fields, and lives as long as the directory. Native only. */
wisp_status bitnet_make_tensor(const struct directory *dir, struct tensor *tensor,
                               const struct tensor *stored, wisp_error *error);

/* Returns the format that says which values a tensor has: that of the file for a tensor of I2_S,
 * whose rows are floats, and tensor->format for others. */
const struct block_format *bitnet_format(const struct tensor *tensor);

/* Returns whether bitnet_make_rows or bitnet_make_tensor made this tensor. Its maker is then the
 * struct tensor as the file stores it. */
bool bitnet_made(const struct tensor *tensor);

#endif

/* SPDX-License-Identifier: Apache-2.0
 * Matrices that files stack in one tensor. */
#ifndef WISP_FORMATS_STACKED_H
#define WISP_FORMATS_STACKED_H

#include "formats/directory.h"

/* Replaces tensor `at`, whose name ends with `ending`, by `parts` tensors of its rows. Part i has
 * rows[i] rows, and its name ends with names[i] in the place of `ending`. A tensor of another
 * number of rows is a format error. directory_finish must follow. */
wisp_status stacked_divide(struct directory *dir, size_t at, const char *ending,
                           const char *const *names, const uint64_t *rows, size_t parts,
                           wisp_error *error);

/* Divides each ffn_up into two tensors of as many rows, whose names end with names[0] and names[1].
 * directory_finish must follow. */
wisp_status stacked_divide_halves(struct directory *dir, const char *const *names,
                                  wisp_error *error);

/* Divides each ffn_up that holds W_gate above W_up into ffn_gate and ffn_up, as ModernBERT has
 * them. directory_finish must follow. */
wisp_status stacked_divide_gates(struct directory *dir, wisp_error *error);

/* Does so, and divides each attn_qkv into attn_q, attn_k and attn_v by the sizes that the keys of
 * the file's architecture say. Every layer must have both. */
wisp_status stacked_divide_qkv(struct directory *dir, wisp_error *error);

/* An architecture whose GGUF files stack matrices that wisp has apart, and what divides them. */
struct stacking {
    const char *architecture;
    wisp_status (*divide)(struct directory *dir, wisp_error *error);
};

/* Those of this product (src/products), each from the header of the architecture. A NULL name ends
 * the list. */
extern const struct stacking stackings[];

/* Divides the tensors of a GGUF file of such an architecture, and finishes the directory.
 * dir->stored then lists the tensors of the file. Does nothing to other files, and to those that
 * have ffn_gate, as wisp writes them. */
wisp_status stacked_divide_file(struct directory *dir, wisp_error *error);

#endif

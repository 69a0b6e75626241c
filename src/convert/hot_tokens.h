/* SPDX-License-Identifier: Apache-2.0
 * Splits token embeddings for writing (formats/token_split.h). */
#ifndef WISP_CONVERT_HOT_TOKENS_H
#define WISP_CONVERT_HOT_TOKENS_H

#include "formats/directory.h"

/* Replaces token_embd.weight in the directory by the rows of the first `hot` tokens of the order,
 * and by those of all others at the end. If `hot` is 0 or all tokens, it does nothing. `formats`
 * [dir->n_tensors + 1] are those in which the tensors are to be written; that of the new tensor is
 * added. Fails with WISP_ERROR_NOT_FOUND if the file has no order or no token embedding. */
wisp_status hot_tokens_arrange(struct directory *dir, const struct block_format **formats,
                               uint64_t hot, wisp_error *error);

/* Returns how many tokens are hot in the file that was read; 0 if its embeddings are plain. */
uint64_t hot_tokens_of(const struct directory *dir);

#endif

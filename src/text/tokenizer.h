/* SPDX-License-Identifier: Apache-2.0
 * Text to token ids, identical to Hugging Face tokenizers: BERT WordPiece. */
#ifndef WISP_TEXT_TOKENIZER_H
#define WISP_TEXT_TOKENIZER_H

#include "formats/directory.h"

struct tokenizer;

/* Builds the tokenizer from a directory's tokenizer.ggml.* and wisp.tokenizer.* metadata, of which
 * nothing is needed afterwards. */
wisp_status tokenizer_open(const struct directory *dir, struct tokenizer **opened,
                           wisp_error *error);

void tokenizer_close(struct tokenizer *tokenizer);

uint32_t tokenizer_vocabulary_size(const struct tokenizer *tokenizer);

size_t tokenizer_resident_bytes(const struct tokenizer *tokenizer);

/* Ids of `text`, [CLS] and [SEP] included, truncated to `max_tokens` (at least 2) as HF truncates:
 * the first max_tokens - 2 pieces stay. Writes them to `ids`, which holds max_tokens, and returns
 * how many; *truncated (may be NULL) says whether any were left out. Takes time linear in the
 * text, allocates nothing and cannot fail: any bytes are a text. Any number of threads may call it
 * with the same tokenizer. */
size_t tokenizer_encode(const struct tokenizer *tokenizer, wisp_text text, size_t max_tokens,
                        int32_t *ids, bool *truncated);

#endif

/* SPDX-License-Identifier: Apache-2.0
 * Text to token ids, identical to Hugging Face tokenizers: BERT WordPiece. */
#ifndef WISP_TOKENIZERS_BERT_TOKENIZER_H
#define WISP_TOKENIZERS_BERT_TOKENIZER_H

#include "formats/directory.h"

struct bert_tokenizer;

/* Builds the tokenizer from a directory's tokenizer.ggml.* and wisp.tokenizer.* metadata. The
 * tokenizer does not refer to the directory afterwards. */
wisp_status bert_tokenizer_open(const struct directory *dir, struct bert_tokenizer **opened,
                                wisp_error *error);

void bert_tokenizer_close(struct bert_tokenizer *tokenizer);

uint32_t bert_tokenizer_vocabulary_size(const struct bert_tokenizer *tokenizer);

size_t bert_tokenizer_resident_bytes(const struct bert_tokenizer *tokenizer);

/* Returns the text of token `id`, without "##". Sets *continues to whether it continues a word
 * rather than beginning one, and *special to whether it is not part of a text, such as [CLS], [SEP]
 * and [UNK]. */
wisp_text bert_tokenizer_piece(const struct bert_tokenizer *tokenizer, int32_t id, bool *continues,
                               bool *special);

/* Writes the ids of `text`, [CLS] and [SEP] included, to ids [max_tokens] and returns their number.
 * A longer text is truncated as Hugging Face does it: [CLS], the first max_tokens - 2 pieces,
 * [SEP]. max_tokens is at least 2. *truncated (may be NULL) says whether pieces were left out.
 * If `ids` is NULL, the ids are only counted.
 *
 * Takes time linear in the text, allocates nothing and cannot fail: any bytes are a text. Any
 * number of threads may call it with the same tokenizer. */
size_t bert_tokenizer_encode(const struct bert_tokenizer *tokenizer, wisp_text text,
                             size_t max_tokens, int32_t *ids, bool *truncated);

#endif

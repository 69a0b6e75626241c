/* SPDX-License-Identifier: Apache-2.0
 * A codec converts text to token ids and back, for models that generate text. Each kind of codec is
 * a file in this folder and a line in the table of codec.c.
 * Source of the metadata keys: the GGUF specification. */
#ifndef WISP_TOKENIZERS_CODEC_H
#define WISP_TOKENIZERS_CODEC_H

#include "formats/directory.h"
#include "tokenizers/token_list.h"

struct codec;

/* Builds the codec from the metadata tokenizer.ggml.*. It does not refer to the directory
 * afterwards. Fails if a key is missing or malformed, or the kind of the codec is unknown. */
wisp_status codec_open(const struct directory *dir, struct codec **opened, wisp_error *error);

void codec_close(struct codec *codec);

size_t codec_vocabulary_size(const struct codec *codec);
size_t codec_resident_bytes(const struct codec *codec);

/* Appends the ids of `text`. If the text begins a sequence, the model's first token comes before
 * them if it has one. Malformed UTF-8 becomes U+FFFD. Takes time n log n. Fails if memory is
 * short; the list then keeps its ids. */
wisp_status codec_encode(const struct codec *codec, wisp_text text, bool begins,
                         struct token_list *list, wisp_error *error);

/* Returns the token that codec_encode puts before a text that begins a sequence; -1: none. */
int32_t codec_first_token(const struct codec *codec);

/* Returns the token that a model which embeds has after a text; -1: none. */
int32_t codec_last_token(const struct codec *codec);

/* Returns the tokens that each text that is embedded is filled up to, and sets *padding to the
 * token that fills it; 0: it is not. Native only. */
uint32_t codec_fills(const struct codec *codec, int32_t *padding);

/* Returns the bytes that token `id`, which is below the vocabulary's size, stands for in a text.
 * They may be a part of a character. Control tokens stand for none. */
wisp_text codec_decode(const struct codec *codec, int32_t id);

/* Returns whether a text is encoded with a space before it. */
bool codec_adds_space(const struct codec *codec);

/* Returns whether the model ends its text with this token. */
bool codec_is_end(const struct codec *codec, int32_t id);

#endif

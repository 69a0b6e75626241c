/* SPDX-License-Identifier: Apache-2.0
 * The parts that both kinds of SentencePiece's codecs have: settings, tokens, and how a text is
 * normalised, spelled with U+2581 for spaces, and cut into words.
 * Source: Kudo and Richardson, SentencePiece (2018). */
#ifndef WISP_TOKENIZERS_SENTENCEPIECE_H
#define WISP_TOKENIZERS_SENTENCEPIECE_H

#include <string.h>

#include "tokenizers/codec_parts.h"

/* Reads the scores and the settings of spaces. Decodes the spellings of all tokens, finds the token
 * of each byte, and collects the user-defined tokens. */
wisp_status sentencepiece_open(struct codec *codec, const struct directory *dir, wisp_error *error);

/* Appends the ids of a word, which is spelled as tokens are and not empty. */
typedef wisp_status (*sentencepiece_word)(void *context, wisp_text word, wisp_error *error);

/* Appends the ids of added tokens in a text, and calls `encode` with the words between. */
wisp_status sentencepiece_encode(const struct codec *codec, wisp_text text, bool begins,
                                 struct token_list *list, sentencepiece_word encode, void *context,
                                 wisp_error *error);

/* Writes the ids of the bytes of a character, at most 4, and returns their number; 0 if not all
 * have tokens. */
size_t sentencepiece_bytes(const struct codec *codec, const char *bytes, size_t length,
                           int32_t *ids);

/* Appends the ids of a character that is not a token: those of its bytes or, if a byte has no
 * token, the unknown token. Neighbours that become unknown make one such token; *unknown says
 * whether the last id is one. */
wisp_status sentencepiece_add_unknown(const struct codec *codec, const char *bytes, size_t length,
                                      bool *unknown, struct token_list *list, wisp_error *error);

#endif

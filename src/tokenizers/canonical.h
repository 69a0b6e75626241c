/* SPDX-License-Identifier: Apache-2.0
 * What tokenizers of SigLIP do to a text before SentencePiece sees it. */
#ifndef WISP_TOKENIZERS_CANONICAL_H
#define WISP_TOKENIZERS_CANONICAL_H

#include "tokenizers/codec_parts.h"

/* Returns whether the codec's texts are changed by canonical_text. */
static inline bool codec_canonicalizes(const struct codec *codec) {
    return codec->lowers || codec->drops_punctuation;
}

/* Writes to *copy, as the codec's flags say: a text of well-formed UTF-8 in lower case, without the
 * punctuation of ASCII, with one space in place of white space, behind U+2581. The caller frees
 * *copy. Fails if memory is short. */
wisp_status canonical_text(const struct codec *codec, wisp_text text, char **copy,
                           wisp_text *canonical, wisp_error *error);

#endif

/* SPDX-License-Identifier: Apache-2.0
 * BERT's normalisation: cleaning, spaces around Chinese characters, accents off, lower case. */
#ifndef WISP_TOKENIZERS_NORMALIZE_H
#define WISP_TOKENIZERS_NORMALIZE_H

#include "tokenizers/segment.h"

struct normalizer {
    bool clean_text;
    bool handle_chinese_chars;
    bool strip_accents;
    bool lowercase;
};

/* Receives normalised code points one by one. */
struct sink {
    void (*take)(void *context, uint32_t code_point);
    void *context;
};

/* Normalises `code_point`, which was just read from `text`, into `sink`. If it starts a run of
 * combining characters, which have to be put in canonical order, this reads the whole run. */
void normalize(const struct normalizer *normalizer, struct segment *text, uint32_t code_point,
               const struct sink *sink);

#endif

/* SPDX-License-Identifier: Apache-2.0
 * BERT's normalisation: cleaning, spaces around Chinese characters, accents off, lower case. */
#ifndef WISP_TEXT_NORMALIZE_H
#define WISP_TEXT_NORMALIZE_H

#include "text/segment.h"

struct normalizer {
    bool clean_text;
    bool handle_chinese_chars;
    bool strip_accents;
    bool lowercase;
};

/* Where normalised code points go. */
struct sink {
    void (*take)(void *context, uint32_t code_point);
    void *context;
};

/* Normalises `code_point`, which was just read from `text`. Where it is one of a run of combining
 * characters that must be put in order, reads on to the end of the run. */
void normalize(const struct normalizer *normalizer, struct segment *text, uint32_t code_point,
               const struct sink *sink);

#endif

/* SPDX-License-Identifier: Apache-2.0
 * Reads raw text in segments: the stretches between the added tokens that are matched before
 * normalisation. To look ahead, copy the segment. */
#ifndef WISP_TOKENIZERS_SEGMENT_H
#define WISP_TOKENIZERS_SEGMENT_H

#include "text/reader.h"
#include "tokenizers/added_tokens.h"

#define SEGMENT_MATCH 0xFFFFFFFEu /* no code point: an added token comes next */

struct segment {
    struct reader reader;
    const struct added_tokens *added;
    const struct added_token *match; /* after SEGMENT_MATCH */
    struct reader match_end;
    /* No token may start before this position, which is the end of a token that was rejected for
     * its neighbours. */
    size_t unmatched_until;
    /* White space before this position is known not to be stripped by a token after it. */
    size_t unstripped_until;
};

static inline struct segment segment_of(wisp_text text, const struct added_tokens *added) {
    return (struct segment){.reader = reader_of(text), .added = added};
}

/* Reads the next code point of the segment; SEGMENT_MATCH if the segment ends at an added token;
 * READER_NONE at the end of the text. */
uint32_t segment_next(struct segment *segment);

/* Moves to the start of the next segment, after the matched token. */
void segment_resume(struct segment *segment);

#endif

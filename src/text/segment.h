/* SPDX-License-Identifier: Apache-2.0
 * Raw text in segments: what lies between the added tokens that are matched before normalisation.
 * A segment is copied freely, to look ahead. */
#ifndef WISP_TEXT_SEGMENT_H
#define WISP_TEXT_SEGMENT_H

#include "text/added_tokens.h"
#include "text/reader.h"

#define SEGMENT_MATCH 0xFFFFFFFEu /* no code point: an added token comes next */

struct segment {
    struct reader reader;
    const struct added_tokens *added;
    const struct added_token *match; /* after SEGMENT_MATCH */
    struct reader match_end;
    size_t unmatched_until;  /* no token starts before this position: a rejected one took it */
    size_t unstripped_until; /* white space before this position precedes no token that strips it */
};

static inline struct segment segment_of(wisp_text text, const struct added_tokens *added) {
    return (struct segment){.reader = reader_of(text), .added = added};
}

/* The next code point of the segment; SEGMENT_MATCH where it ends before an added token;
 * READER_NONE at the end of the text. */
uint32_t segment_next(struct segment *segment);

/* Starts the segment after the match. */
void segment_resume(struct segment *segment);

#endif

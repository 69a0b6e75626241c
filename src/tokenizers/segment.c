/* SPDX-License-Identifier: Apache-2.0
 * Compiled for size in WebAssembly. */
#include "tokenizers/segment.h"

#include "text/unicode.h"

/* Returns whether an added token starts at the reader, and sets match and match_end to it. If a
 * token is rejected for its neighbours, no other token may start inside its text. */
static bool find_match(struct segment *segment) {
    const struct added_tokens *added = segment->added;
    const struct reader *start = &segment->reader;
    /* A cheap test first, which most positions fail. */
    if (added->count == 0 || reader_at_end(start))
        return false;
    const unsigned char first = (unsigned char)*start->at;
    if (!(first < 0x80 ? added->starts[first] : added->starts_non_ascii) ||
        reader_position(start) < segment->unmatched_until)
        return false;
    struct added_walk walk = added_walk_start(added);
    struct reader ahead = *start;
    segment->match = NULL;
    while (!reader_at_end(&ahead) && added_walk_step(added, &walk, reader_next(&ahead))) {
        const struct added_token *token = added_walk_token(added, &walk);
        if (!token)
            continue;
        segment->match = token;
        segment->match_end = ahead;
    }
    if (!segment->match)
        return false;
    ahead = segment->match_end;
    if (!(segment->match->flags & ADDED_SINGLE_WORD) ||
        (!reader_is_word(reader_previous(start)) && !reader_is_word(reader_next(&ahead))))
        return true;
    segment->unmatched_until = reader_position(&segment->match_end);
    return false;
}

/* Moves past one code point if it is white space. */
static bool skip_space(struct reader *reader) {
    struct reader after = *reader;
    const uint32_t code_point = reader_next(&after);
    if (code_point == READER_NONE || !(unicode_flags(code_point) & UNICODE_SPACE))
        return false;
    *reader = after;
    return true;
}

/* Returns whether the white space at the reader ends at a token that strips it. If so, moves to
 * that token. */
static bool find_stripping_match(struct segment *segment) {
    if (reader_position(&segment->reader) < segment->unstripped_until)
        return false;
    struct segment ahead = *segment;
    while (skip_space(&ahead.reader)) {
        if (!find_match(&ahead))
            continue;
        if (ahead.match->flags & ADDED_STRIP_LEFT) {
            *segment = ahead;
            return true;
        }
        break;
    }
    segment->unstripped_until = reader_position(&ahead.reader);
    return false;
}

uint32_t segment_next(struct segment *segment) {
    if (find_match(segment) || (segment->added->strips_left && find_stripping_match(segment)))
        return SEGMENT_MATCH;
    return reader_next(&segment->reader);
}

void segment_resume(struct segment *segment) {
    segment->reader = segment->match_end;
    if (!(segment->match->flags & ADDED_STRIP_RIGHT))
        return;
    /* White space may contain the start of a token, which segment_next then finds again. */
    while (!find_match(segment) && skip_space(&segment->reader))
        continue;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "text/segment.h"

#include "text/unicode.h"

static bool is_word(uint32_t code_point) {
    return code_point != READER_NONE && unicode_is_word(code_point);
}

static bool stands_alone(const struct reader *start, const struct reader *end) {
    struct reader after = *end;
    return !is_word(reader_previous(start)) && !is_word(reader_next(&after));
}

/* A cheap test that most positions fail. */
static bool may_match(const struct segment *segment) {
    const struct reader *reader = &segment->reader;
    if (segment->added->count == 0 || reader_at_end(reader))
        return false;
    const unsigned char byte = (unsigned char)*reader->at;
    return byte >= 0x80 ? segment->added->starts_beyond : segment->added->starts[byte];
}

/* Whether an added token starts at the reader. One that is rejected for its neighbours still takes
 * its text: no other token may start inside it. */
static bool find_match(struct segment *segment) {
    if (!may_match(segment) || reader_position(&segment->reader) < segment->unmatched_until)
        return false;
    struct added_walk walk = added_walk_start(segment->added);
    struct reader ahead = segment->reader;
    segment->match = NULL;
    while (!reader_at_end(&ahead) && added_walk_step(segment->added, &walk, reader_next(&ahead))) {
        const struct added_token *token = added_walk_token(segment->added, &walk);
        if (!token)
            continue;
        segment->match = token;
        segment->match_end = ahead;
    }
    if (!segment->match)
        return false;
    if (!(segment->match->flags & ADDED_SINGLE_WORD) ||
        stands_alone(&segment->reader, &segment->match_end))
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

/* Whether white space at the reader runs up to a token that strips it; if so, moves there. */
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
    /* A token may start in white space too; segment_next finds it again. */
    while (!find_match(segment) && skip_space(&segment->reader))
        continue;
}

/* SPDX-License-Identifier: Apache-2.0
 * Raw text as code points, ill-formed UTF-8 as U+FFFD. A reader is small and copied freely, to look
 * ahead. */
#ifndef WISP_TEXT_READER_H
#define WISP_TEXT_READER_H

#include "wisp.h"

#define READER_NONE 0xFFFFFFFFu /* no code point: before the start, past the end */

struct reader {
    const char *begin, *end;
    const char *at;
};

static inline struct reader reader_of(wisp_text text) {
    const char *begin = text.length ? text.bytes : "";
    return (struct reader){begin, begin + text.length, begin};
}

static inline bool reader_at_end(const struct reader *reader) {
    return reader->at == reader->end;
}

/* Grows with every code point read. */
static inline size_t reader_position(const struct reader *reader) {
    return (size_t)(reader->at - reader->begin);
}

/* The code point at the reader, which it moves past; READER_NONE at the end. */
uint32_t reader_next(struct reader *reader);

/* The code point before the reader, or READER_NONE. */
uint32_t reader_previous(const struct reader *reader);

#endif

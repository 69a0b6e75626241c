/* SPDX-License-Identifier: Apache-2.0
 * The encoding of Protocol Buffers, read from a source without its long parts: a message of a
 * gigabyte is walked in a window of a few hundred bytes.
 * Source: the description of the encoding (protobuf.dev). */
#ifndef WISP_FORMATS_PROTOBUF_H
#define WISP_FORMATS_PROTOBUF_H

#include "base/status.h"

/* The bytes [at, end) of the source: a message, a string, or numbers. */
struct protobuf_part {
    uint64_t at, end;
};

enum protobuf_kind { PROTOBUF_VARINT = 0, PROTOBUF_64 = 1, PROTOBUF_PART = 2, PROTOBUF_32 = 5 };

struct protobuf_field {
    uint64_t number;
    enum protobuf_kind kind;
    uint64_t value;            /* a number, or the bits of a float; of a part its length */
    struct protobuf_part part; /* empty unless `kind` is PROTOBUF_PART */
};

/* A reader begins with its source, and zeros. One thread uses it. */
struct protobuf {
    const wisp_source *source;
    unsigned char window[512];
    uint64_t window_at;
    size_t window_bytes;
    const char *field;  /* what errors name; may be NULL */
    wisp_status status; /* WISP_OK as long as nothing failed */
    wisp_error *error;
};

/* Reads the next field of a message, and moves message->at behind it. Returns false at the end of
 * the message, and after a failure, which sets reader->status: the bytes could not be read, or are
 * not a field. A group, which no current file has, is not a field. */
bool protobuf_next(struct protobuf *reader, struct protobuf_part *message,
                   struct protobuf_field *field);

/* Reads the next varint of numbers that are packed in a part. Returns as protobuf_next. */
bool protobuf_next_packed(struct protobuf *reader, struct protobuf_part *numbers, uint64_t *value);

/* Copies the bytes of a part, which the caller has found to fit. */
wisp_status protobuf_copy(struct protobuf *reader, struct protobuf_part part, void *buffer);

static inline uint64_t protobuf_length(struct protobuf_part part) {
    return part.end - part.at;
}

#endif

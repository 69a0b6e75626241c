/* SPDX-License-Identifier: Apache-2.0 */
#include "formats/protobuf.h"

#include <string.h>

#include "base/byte_order.h"
#include "base/checked.h"
#include "formats/directory.h"

/* A varint has at most this many bytes. */
enum { VARINT_BYTES = 10 };

static bool malformed(struct protobuf *r, uint64_t at) {
    r->status =
        fail(r->error, WISP_ERROR_FORMAT, r->source->name, r->field,
             "a malformed message of Protocol Buffers at byte %llu", (unsigned long long)at);
    return false;
}

/* Points *bytes to those from `at` on, up to `end` and at least 16 if there are so many. Returns
 * their number; 0 if they cannot be read. */
static size_t look(struct protobuf *r, uint64_t at, uint64_t end, const unsigned char **bytes) {
    const uint64_t wanted = end - at < 16 ? end - at : 16;
    const bool known = at >= r->window_at && at + wanted <= r->window_at + r->window_bytes;
    if (!known) {
        const uint64_t left = r->source->size - at;
        r->window_at = at;
        r->window_bytes = left < sizeof r->window ? (size_t)left : sizeof r->window;
        r->status = source_read(r->source, r->field, at, r->window, r->window_bytes, r->error);
        if (r->status != WISP_OK) {
            r->window_bytes = 0;
            return 0;
        }
    }
    const size_t first = (size_t)(at - r->window_at), have = r->window_bytes - first;
    *bytes = r->window + first;
    return end - at < have ? (size_t)(end - at) : have;
}

static bool read_varint(struct protobuf *r, struct protobuf_part *m, uint64_t *value) {
    const unsigned char *bytes;
    const size_t have = look(r, m->at, m->end, &bytes);
    *value = 0;
    for (size_t i = 0; i < have && i < VARINT_BYTES; i++) {
        *value |= (uint64_t)(bytes[i] & 0x7f) << 7 * i;
        if (bytes[i] < 0x80) {
            m->at += i + 1;
            return true;
        }
    }
    return r->status == WISP_OK && malformed(r, m->at);
}

/* Reads the number of a field of 4 or 8 bytes. */
static bool read_fixed(struct protobuf *r, struct protobuf_part *m, size_t bytes, uint64_t *value) {
    const unsigned char *data;
    if (look(r, m->at, m->end, &data) < bytes)
        return r->status == WISP_OK && malformed(r, m->at);
    *value = bytes == 8 ? load_u64(data) : load_u32(data);
    m->at += bytes;
    return true;
}

bool protobuf_next(struct protobuf *r, struct protobuf_part *m, struct protobuf_field *f) {
    const uint64_t start = m->at;
    uint64_t key;
    *f = (struct protobuf_field){0};
    if (r->status != WISP_OK || m->at >= m->end || !read_varint(r, m, &key))
        return false;
    f->number = key >> 3;
    f->kind = (enum protobuf_kind)(key & 7);
    switch (f->kind) {
    case PROTOBUF_VARINT:
        return read_varint(r, m, &f->value);
    case PROTOBUF_64:
        return read_fixed(r, m, 8, &f->value);
    case PROTOBUF_32:
        return read_fixed(r, m, 4, &f->value);
    case PROTOBUF_PART:
        if (!read_varint(r, m, &f->value))
            return false;
        if (f->value > m->end - m->at)
            return malformed(r, start);
        f->part = (struct protobuf_part){m->at, m->at + f->value};
        m->at = f->part.end;
        return true;
    }
    return malformed(r, start);
}

bool protobuf_next_packed(struct protobuf *r, struct protobuf_part *numbers, uint64_t *value) {
    return r->status == WISP_OK && numbers->at < numbers->end && read_varint(r, numbers, value);
}

wisp_status protobuf_copy(struct protobuf *r, struct protobuf_part part, void *buffer) {
    const uint64_t length = protobuf_length(part);
    size_t bytes;
    if (!checked_size(length, &bytes))
        return fail_memory(r->error, length);
    if (r->status == WISP_OK && bytes > 0)
        r->status = source_read(r->source, r->field, part.at, buffer, bytes, r->error);
    return r->status;
}

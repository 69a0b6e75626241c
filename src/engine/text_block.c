/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/text_block.h"

#include <inttypes.h>
#include <string.h>

#include "base/byte_order.h"
#include "base/checked.h"
#include "base/checksum.h"

static const char magic[8] = {'W', 'I', 'S', 'P', 'T', 'E', 'X', 'T'};

enum { VERSION = 1, CHECKSUM_BYTES = 8, ID_BYTES = 4 };

/* Where the fields of the header begin. */
enum {
    AT_VERSION = 8,
    AT_CACHE_TYPE = 12,
    AT_BYTES = 16, /* of the whole block */
    AT_NAME = 24,
    AT_FIRST = AT_NAME + IDENTITY_BYTES,
    AT_TOKENS = AT_FIRST + 4,
    AT_LAYERS = AT_TOKENS + 4,
    AT_KV_HEADS = AT_LAYERS + 4,
    AT_HEAD_SIZE = AT_KV_HEADS + 4,
    AT_STATES = AT_HEAD_SIZE + 4, /* floats of short convolutions */
    AT_CHECKSUM = AT_STATES + 4
};

_Static_assert(AT_CHECKSUM + CHECKSUM_BYTES == TEXT_BLOCK_HEADER, "the header has no gaps");

struct text_name text_name_after(const struct text_name *before, const int32_t *ids, size_t n) {
    struct text_name name = {{0}};
    struct sha256 hash;
    sha256_start(&hash);
    sha256_add(&hash, before->digest, sizeof before->digest);
    for (size_t i = 0; i < n; i++) {
        unsigned char id[ID_BYTES];
        store_u32(id, (uint32_t)ids[i]);
        sha256_add(&hash, id, sizeof id);
    }
    sha256_finish(&hash, name.digest);
    return name;
}

/* Returns the floats of the state that a block which ends after `end` tokens has: that of all short
 * convolutions, where the sequence keeps one. */
static size_t state_floats(const struct sequence *sequence, size_t end) {
    return end % CONV_STATE_EVERY == 0 ? sequence->conv.layers * sequence->conv.values : 0;
}

static float *state_of(const struct sequence *sequence, size_t end) {
    return sequence->conv.kept[end / CONV_STATE_EVERY - 1];
}

size_t text_block_bytes(const struct sequence *sequence, size_t first, size_t n) {
    const struct kv_shape *shape = &sequence->cache.shape;
    return TEXT_BLOCK_HEADER + n * (ID_BYTES + shape->layers * kv_position_bytes(shape)) +
           state_floats(sequence, first + n) * sizeof(float) + CHECKSUM_BYTES;
}

/* ---- writing -------------------------------------------------------------------------------- */

static void write_header(const struct sequence *sequence, size_t first, size_t n,
                         const struct text_name *name, unsigned char *header) {
    const struct kv_shape *shape = &sequence->cache.shape;
    memcpy(header, magic, sizeof magic);
    store_u32(header + AT_VERSION, VERSION);
    store_u32(header + AT_CACHE_TYPE, (uint32_t)shape->type);
    store_u64(header + AT_BYTES, text_block_bytes(sequence, first, n));
    memcpy(header + AT_NAME, name->digest, sizeof name->digest);
    store_u32(header + AT_FIRST, (uint32_t)first);
    store_u32(header + AT_TOKENS, (uint32_t)n);
    store_u32(header + AT_LAYERS, (uint32_t)shape->layers);
    store_u32(header + AT_KV_HEADS, (uint32_t)shape->kv_heads);
    store_u32(header + AT_HEAD_SIZE, (uint32_t)shape->head_size);
    store_u32(header + AT_STATES, (uint32_t)state_floats(sequence, first + n));
    store_u64(header + AT_CHECKSUM, checksum(header, AT_CHECKSUM));
}

void text_block_write(const struct sequence *sequence, const int32_t *ids, size_t first, size_t n,
                      const struct text_name *name, unsigned char *bytes) {
    const struct kv_cache *cache = &sequence->cache;
    const size_t position = kv_position_bytes(&cache->shape);
    const size_t floats = state_floats(sequence, first + n);
    unsigned char *const contents = bytes + TEXT_BLOCK_HEADER, *to = contents;
    write_header(sequence, first, n, name, bytes);
    for (size_t i = 0; i < n; i++, to += ID_BYTES)
        store_u32(to, (uint32_t)ids[first + i]);
    for (size_t layer = 0; layer < cache->shape.layers; layer++)
        for (size_t i = 0; i < n; i++, to += position)
            kv_cache_export(cache, layer, first + i, to);
    if (floats > 0) {
        memcpy(to, state_of(sequence, first + n), floats * sizeof(float));
        swap_file_numbers(to, floats, sizeof(float));
        to += floats * sizeof(float);
    }
    store_u64(to, checksum(contents, (size_t)(to - contents)));
}

/* ---- reading -------------------------------------------------------------------------------- */

wisp_status text_block_read_header(const struct sequence *sequence,
                                   const struct text_block_reader *r, const unsigned char *bytes,
                                   size_t *n, wisp_error *error) {
    unsigned char own[TEXT_BLOCK_HEADER];
    struct text_name name;
    if (memcmp(bytes, magic, sizeof magic) != 0)
        return fail(error, WISP_ERROR_FORMAT, r->file, "block", "is not a block of a text");
    if (load_u64(bytes + AT_CHECKSUM) != checksum(bytes, AT_CHECKSUM))
        return fail(error, WISP_ERROR_FORMAT, r->file, "block",
                    "the checksum of its header is wrong: the file is damaged");
    if (load_u32(bytes + AT_VERSION) != VERSION)
        return fail(error, WISP_ERROR_UNSUPPORTED, r->file, "block version",
                    "%u, but this build reads %d", load_u32(bytes + AT_VERSION), VERSION);
    const uint32_t tokens = load_u32(bytes + AT_TOKENS);
    if (tokens < 1 || tokens > TEXT_BLOCK_TOKENS || tokens > r->most_tokens)
        return fail(error, WISP_ERROR_FORMAT, r->file, "tokens", "%u; 1 to %zu can follow", tokens,
                    smaller(TEXT_BLOCK_TOKENS, r->most_tokens));
    memcpy(name.digest, bytes + AT_NAME, sizeof name.digest);
    if (r->expected && memcmp(r->expected, &name, sizeof name) != 0)
        return fail(error, WISP_ERROR_FORMAT, r->file, "name", "is that of another text");
    write_header(sequence, r->first, tokens, &name, own);
    if (memcmp(own, bytes, TEXT_BLOCK_HEADER) != 0)
        return fail(error, WISP_ERROR_FORMAT, r->file, "block",
                    "its place in the text or its shape is another");
    *n = tokens;
    return WISP_OK;
}

/* Reads the ids, and compares the name that follows from them. */
static wisp_status read_ids(struct text_block_reader *r, const unsigned char *bytes, size_t n,
                            int32_t *ids, wisp_error *error) {
    for (size_t i = 0; i < n; i++) {
        const uint32_t id = load_u32(bytes + TEXT_BLOCK_HEADER + i * ID_BYTES);
        if (id >= r->vocabulary)
            return fail(error, WISP_ERROR_FORMAT, r->file, "ids",
                        "id %" PRIu32 ", but there are %zu tokens", id, r->vocabulary);
        ids[i] = (int32_t)id;
    }
    const struct text_name name = text_name_after(&r->before, ids, n);
    if (memcmp(name.digest, bytes + AT_NAME, sizeof name.digest) != 0)
        return fail(error, WISP_ERROR_FORMAT, r->file, "ids", "are not those of the block's name");
    r->before = name;
    return WISP_OK;
}

wisp_status text_block_read(struct sequence *sequence, struct text_block_reader *r,
                            unsigned char *bytes, size_t n, int32_t *ids, wisp_error *error) {
    const struct kv_cache *cache = &sequence->cache;
    const size_t position = kv_position_bytes(&cache->shape), end = r->first + n;
    const size_t floats = state_floats(sequence, end);
    unsigned char *at = bytes + TEXT_BLOCK_HEADER;
    const size_t length =
        text_block_bytes(sequence, r->first, n) - TEXT_BLOCK_HEADER - CHECKSUM_BYTES;
    if (load_u64(at + length) != checksum(at, length))
        return fail(error, WISP_ERROR_FORMAT, r->file, "keys and values",
                    "the checksum is wrong: the file is damaged");
    TRY(read_ids(r, bytes, n, ids, error));
    at += n * ID_BYTES;
    for (size_t layer = 0; layer < cache->shape.layers; layer++)
        for (size_t i = 0; i < n; i++, at += position)
            if (!kv_cache_import(cache, layer, r->first + i, at))
                return fail(error, WISP_ERROR_FORMAT, r->file, "keys and values",
                            "a number of position %zu is not finite", r->first + i);
    if (floats == 0)
        return WISP_OK;
    float *state = state_of(sequence, end);
    memcpy(state, at, floats * sizeof *state);
    swap_file_numbers(state, floats, sizeof *state);
    return all_finite(state, floats)
               ? WISP_OK
               : fail(error, WISP_ERROR_FORMAT, r->file, "convolutions",
                      "a number of the state after %zu tokens is not finite", end);
}

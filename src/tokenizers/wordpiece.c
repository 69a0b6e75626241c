/* SPDX-License-Identifier: Apache-2.0
 * Compiled for size in WebAssembly. */
#include "tokenizers/wordpiece.h"

#include <string.h>

/* A hostile file may hold pieces whose hashes collide. If a piece would be more than MAX_PROBES
 * slots away from its place, the table is filled again with another seed, so that building and
 * looking up take linear time. */
enum { MAX_PROBES = 64, MAX_SEEDS = 16 };

static const uint64_t MULTIPLIER = UINT64_C(0x9E3779B97F4A7C15);

static uint64_t hash_start(const struct wordpiece *vocabulary, enum piece_kind kind) {
    return vocabulary->seed + (uint64_t)kind;
}

static uint64_t hash_step(uint64_t hash, char byte) {
    return (hash ^ (unsigned char)byte) * MULTIPLIER;
}

/* Returns bits of a hash for the tag of a slot. The uppermost bits, which are mixed best, pick the
 * slot. */
static uint32_t hash_tag(uint64_t hash) {
    return (uint32_t)(hash >> 16);
}

/* Returns the slot of a piece, or the empty slot where it belongs if the table does not have it.
 * Returns NULL if that slot is more than MAX_PROBES away. */
static struct wordpiece_slot *find_slot(const struct wordpiece *vocabulary, enum piece_kind kind,
                                        const char *bytes, size_t length, uint64_t hash) {
    const uint32_t place = (uint32_t)(hash >> vocabulary->shift), tag = hash_tag(hash);
    for (uint32_t i = 0; i < MAX_PROBES; i++) {
        struct wordpiece_slot *slot = &vocabulary->slots[(place + i) & vocabulary->mask];
        if (slot->piece == 0)
            return slot;
        const uint32_t id = slot->piece - 1, start = vocabulary->starts[id];
        if (slot->tag == tag && vocabulary->kinds[id] == kind &&
            vocabulary->starts[id + 1] - start == length &&
            memcmp(vocabulary->bytes + start, bytes, length) == 0)
            return slot;
    }
    return NULL;
}

/* Copies the texts and kinds of the pieces into the arena. */
static wisp_status copy_pieces(struct wordpiece *vocabulary, struct arena *arena,
                               const struct piece *pieces, size_t count, const char *file,
                               const char *field, wisp_error *error) {
    uint64_t total = 0;
    for (size_t i = 0; i < count; i++)
        total += pieces[i].length;
    if (total > UINT32_MAX)
        return fail(error, WISP_ERROR_UNSUPPORTED, file, field, "%llu bytes of text",
                    (unsigned long long)total);
    char *bytes = arena_allocate(arena, (size_t)total);
    uint32_t *starts = arena_allocate(arena, (count + 1) * sizeof *starts);
    uint8_t *kinds = arena_allocate(arena, count);
    if (!bytes || !starts || !kinds)
        return fail_memory(error, total + count * 5);
    for (size_t i = 0; i < count; i++) {
        if (pieces[i].length)
            memcpy(bytes + starts[i], pieces[i].bytes, pieces[i].length);
        starts[i + 1] = starts[i] + (uint32_t)pieces[i].length;
        kinds[i] = (uint8_t)pieces[i].kind;
    }
    vocabulary->bytes = bytes;
    vocabulary->starts = starts;
    vocabulary->kinds = kinds;
    return WISP_OK;
}

enum fill_result { FILL_DONE, FILL_TOO_FAR, FILL_DUPLICATE };

/* Enters all pieces into the table; *id is the piece that failed. */
static enum fill_result fill(struct wordpiece *vocabulary, size_t count, uint32_t *id) {
    for (*id = 0; *id < count; ++*id) {
        const enum piece_kind kind = (enum piece_kind)vocabulary->kinds[*id];
        const char *bytes = vocabulary->bytes + vocabulary->starts[*id];
        const size_t length = vocabulary->starts[*id + 1] - vocabulary->starts[*id];
        if (kind == PIECE_UNUSED || length == 0)
            continue;
        uint64_t hash = hash_start(vocabulary, kind);
        for (size_t i = 0; i < length; i++)
            hash = hash_step(hash, bytes[i]);
        struct wordpiece_slot *slot = find_slot(vocabulary, kind, bytes, length, hash);
        if (!slot)
            return FILL_TOO_FAR;
        if (slot->piece)
            return FILL_DUPLICATE;
        *slot = (struct wordpiece_slot){hash_tag(hash), *id + 1};
        if (length > vocabulary->longest[kind])
            vocabulary->longest[kind] = length;
    }
    return FILL_DONE;
}

wisp_status wordpiece_build(struct wordpiece *vocabulary, struct arena *arena,
                            const struct piece *pieces, size_t count, const char *file,
                            const char *field, wisp_error *error) {
    uint32_t slots = 64, id = 0;
    vocabulary->shift = 64 - 6;
    for (size_t i = 0; i < count; i++)
        if (pieces[i].kind != PIECE_UNUSED && pieces[i].length > PIECE_MAX_BYTES)
            return fail(error, WISP_ERROR_UNSUPPORTED, file, field,
                        "piece %zu is longer than %d bytes", i, PIECE_MAX_BYTES);
    TRY(copy_pieces(vocabulary, arena, pieces, count, file, field, error));
    for (; slots / 2 < count && slots < 1u << 31; slots *= 2)
        vocabulary->shift--;
    vocabulary->mask = slots - 1;
    vocabulary->slots = arena_allocate(arena, (size_t)slots * sizeof *vocabulary->slots);
    if (!vocabulary->slots)
        return fail_memory(error, (uint64_t)slots * sizeof *vocabulary->slots);
    for (uint64_t seed = 1; seed <= MAX_SEEDS; seed++) {
        vocabulary->seed = seed * UINT64_C(0xD1B54A32D192ED03);
        const enum fill_result result = fill(vocabulary, count, &id);
        if (result == FILL_DONE)
            return WISP_OK;
        if (result == FILL_DUPLICATE)
            return fail(error, WISP_ERROR_FORMAT, file, field, "piece %lu appears twice",
                        (unsigned long)id);
        memset(vocabulary->slots, 0, (size_t)slots * sizeof *vocabulary->slots);
    }
    return fail(error, WISP_ERROR_UNSUPPORTED, file, field, "the pieces cannot be hashed");
}

/* Returns the id of the longest piece that `bytes` start with, and sets *taken to its length.
 * Returns -1 if there is none. */
static int32_t longest_piece(const struct wordpiece *vocabulary, enum piece_kind kind,
                             const char *bytes, size_t length, size_t *taken) {
    uint64_t hashes[PIECE_MAX_BYTES]; /* hashes[i]: of the first i + 1 bytes */
    uint64_t hash = hash_start(vocabulary, kind);
    size_t end = length < vocabulary->longest[kind] ? length : vocabulary->longest[kind];
    for (size_t i = 0; i < end; i++)
        hashes[i] = hash = hash_step(hash, bytes[i]);
    for (; end > 0; end--) {
        /* No piece ends inside a character. */
        if (end < length && (bytes[end] & 0xC0) == 0x80)
            continue;
        const struct wordpiece_slot *slot =
            find_slot(vocabulary, kind, bytes, end, hashes[end - 1]);
        if (slot && slot->piece) {
            *taken = end;
            return (int32_t)(slot->piece - 1);
        }
    }
    return -1;
}

size_t wordpiece_split(const struct wordpiece *vocabulary, const char *word, size_t length,
                       int32_t *ids, size_t room) {
    size_t count = 0, taken = 0;
    for (size_t at = 0; at < length; at += taken) {
        const enum piece_kind kind = at == 0 ? PIECE_INITIAL : PIECE_CONTINUATION;
        const int32_t id = longest_piece(vocabulary, kind, word + at, length - at, &taken);
        if (id < 0)
            return 0;
        if (count < room)
            ids[count] = id;
        count++;
    }
    return count;
}

int32_t wordpiece_find(const struct wordpiece *vocabulary, const char *bytes, size_t length) {
    uint64_t hash = hash_start(vocabulary, PIECE_INITIAL);
    if (length > vocabulary->longest[PIECE_INITIAL])
        return -1;
    for (size_t i = 0; i < length; i++)
        hash = hash_step(hash, bytes[i]);
    const struct wordpiece_slot *slot = find_slot(vocabulary, PIECE_INITIAL, bytes, length, hash);
    return slot && slot->piece ? (int32_t)(slot->piece - 1) : -1;
}

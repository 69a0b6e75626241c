/* SPDX-License-Identifier: Apache-2.0
 * Compiled for size in WebAssembly. */
#include "layers/token_embedding.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/checksum.h"
#include "base/memory.h"
#include "formats/schema.h"

enum {
    /* At most this many bytes of rows are in memory at a time while checksums are computed. */
    CHECKED_BYTES = 128 * 1024,
    /* A thread keeps rows of this many bytes. They are two thirds or more of the rows that it needs
     * for English text, with 4-bit rows of 384 values. */
    KEPT_BYTES = 256 * 1024
};

/* Bit of `uses`: a pass is about to read the row. */
enum { HELD = 0x80, MOST_USES = 0x7f };

/* The slot of an absent row that a pass waits for. */
static const uint32_t WANTED = UINT32_MAX;

/* Says which cold rows have been provided. They are in slots, in the order in which they came, or
 * stay in the source. */
struct cold_tokens {
    atomic_flag busy;        /* a lock of whoever provides rows */
    bool stay;               /* rows are read from the source, and there are no slots */
    atomic_uint_least32_t n; /* slots that have rows */
    uint32_t slots;          /* fewer than rows: a row takes the slot of one that is used seldom */
    uint32_t hand;           /* the slot that is looked at next, when one is needed */
    uint32_t *row;           /* [slots]: the row in a slot; NULL if there are slots for all */
    unsigned char
        *uses; /* [slots]: how often the row was held, halved when the hand passes; and HELD */
    atomic_uint_least32_t slot[]; /* [cold rows]: 1 + the slot of the row (1 if it stays), 0
                                     if it is absent, or WANTED */
};

static bool rows_stay(const struct cold_tokens *cold) {
    return SOURCES_READ_AGAIN && cold->stay;
}

static bool is_limited(const struct cold_tokens *cold) {
    return cold->row != NULL;
}

/* Returns the part that has the row of token `id`, and sets *row to its number there. */
static const struct token_part *find_row(const struct token_embedding *e, int32_t id,
                                         uint64_t *row) {
    *row = e->split ? e->split->place[id] : (uint64_t)id;
    if (*row < e->part[0].tensor->rows)
        return &e->part[0];
    *row -= e->part[0].tensor->rows;
    return &e->part[1];
}

/* Reads the rows of a part, which are those of the places from `place` on, and keeps their
 * checksums. */
static wisp_status sum_rows(struct token_embedding *e, const struct token_part *part, size_t place,
                            wisp_error *error) {
    const struct tensor *tensor = part->tensor;
    const uint64_t rows = tensor->rows;
    const size_t row_bytes = (size_t)tensor->row_bytes;
    const size_t step = larger(CHECKED_BYTES / row_bytes, 1);
    unsigned char *buffer = memory_allocate(step * row_bytes);
    wisp_status status = buffer ? WISP_OK : fail_memory(error, step * row_bytes);
    for (uint64_t first = 0; first < rows && status == WISP_OK; first += step) {
        const size_t here = rows - first < step ? (size_t)(rows - first) : step;
        const void *read;
        status = directory_rows(e->dir, tensor, first, here, NULL, buffer, &read, error);
        for (size_t i = 0; i < here && status == WISP_OK; i++) {
            const size_t at = place + (size_t)first + i;
            e->checksums[e->split ? e->split->token[at] : at] =
                checksum(buffer + i * row_bytes, row_bytes);
        }
    }
    memory_free(buffer);
    return status;
}

/* Makes the rows of the second part absent. */
static wisp_status open_cold(struct token_embedding *e, bool stay, wisp_error *error) {
    const size_t rows = (size_t)e->part[1].tensor->rows; /* fewer than the vocabulary has */
    const size_t bytes = sizeof *e->cold + rows * sizeof *e->cold->slot;
    e->cold = calloc(1, bytes);
    if (!e->cold)
        return fail_memory(error, bytes);
    atomic_flag_clear(&e->cold->busy);
    e->cold->stay = stay;
    e->bytes += bytes;
    return WISP_OK;
}

size_t token_embedding_cold(const struct token_embedding *e) {
    return e->cold ? (size_t)e->part[1].tensor->rows : 0;
}

wisp_status token_embedding_reserve(struct token_embedding *e, size_t rows, wisp_error *error) {
    struct cold_tokens *cold = e->cold;
    struct token_part *part = &e->part[1];
    uint64_t all;
    size_t bytes;
    if (rows_stay(cold))
        return WISP_OK;
    if (!checked_multiply(rows, e->tensor->row_bytes, &all) || !checked_size(all, &bytes))
        return fail_memory(error, part->tensor->bytes);
    /* Slots take no memory before they are written. */
    part->rows = part->copy = memory_allocate(bytes);
    cold->slots = (uint32_t)rows;
    if (part->copy && rows < part->tensor->rows) {
        cold->row = calloc(rows, sizeof *cold->row);
        cold->uses = calloc(rows, 1);
        e->bytes += rows * COLD_SLOT_BYTES;
    }
    if (!part->copy || (rows < part->tensor->rows && (!cold->row || !cold->uses)))
        return fail_memory(error, bytes);
    return WISP_OK;
}

static wisp_status load_part(struct token_embedding *e, struct token_part *part,
                             wisp_error *error) {
    const struct tensor *tensor = part->tensor;
    const wisp_source *source = &e->dir->sources[tensor->source];
    const bool cold = part == &e->part[1];
    const enum rows_place place = residency_rows(&e->dir->residency, source, cold);
    size_t bytes;
    if (place == ROWS_BROUGHT || place == ROWS_KEPT)
        return open_cold(e, place == ROWS_KEPT, error);
    if (tensor->make) {
        const void *made;
        if (!checked_size(tensor->bytes, &bytes) || !(part->copy = memory_allocate(bytes)))
            return fail_memory(error, tensor->bytes);
        e->bytes += bytes;
        TRY(directory_rows(e->dir, tensor, 0, tensor->rows, NULL, part->copy, &made, error));
        part->rows = made;
        return WISP_OK;
    }
    if (place == ROWS_IN_SOURCE) {
        part->rows = (const unsigned char *)source->data + tensor->offset;
        return WISP_OK;
    }
    if (place == ROWS_READ)
        return source->may_change
                   ? sum_rows(e, part, cold ? (size_t)e->part[0].tensor->rows : 0, error)
                   : WISP_OK;
    if (!checked_size(tensor->bytes, &bytes) || !(part->copy = memory_allocate(bytes)))
        return fail_memory(error, tensor->bytes);
    e->bytes += bytes;
    part->rows = part->copy;
    return source_read(source, tensor->name, tensor->offset, part->copy, bytes, error);
}

wisp_status token_embedding_load(struct token_embedding *e, const struct directory *dir,
                                 size_t vocabulary_size, size_t hidden_size, wisp_error *error) {
    *e = (struct token_embedding){.dir = dir};
    TRY(directory_require_tensor(dir, TENSOR_TOKENS, hidden_size, vocabulary_size, &e->tensor,
                                 error));
    const wisp_source *source = &dir->sources[e->tensor->source];
    e->split = token_split_of(e->tensor);
    e->part[0].tensor = e->split ? &e->split->hot : e->tensor;
    e->part[1].tensor = e->split ? &e->split->cold : NULL;
    const bool is_made = e->part[0].tensor->make; /* then its rows are kept in memory */
    const enum rows_place place = residency_rows(&dir->residency, source, false);
    if (place == ROWS_READ && source->may_change && !is_made) {
        const uint64_t rows = e->tensor->rows;
        uint64_t bytes;
        if (!checked_multiply(rows, sizeof *e->checksums, &bytes) ||
            !checked_size(bytes, &e->bytes) || !(e->checksums = memory_allocate(e->bytes)))
            return fail_memory(error, rows * sizeof *e->checksums);
    }
    TRY(load_part(e, &e->part[0], error));
    return e->split ? load_part(e, &e->part[1], error) : WISP_OK;
}

void token_embedding_release(struct token_embedding *e) {
    memory_free(e->part[0].copy);
    memory_free(e->part[1].copy);
    memory_free(e->checksums);
    if (e->cold) {
        free(e->cold->row);
        free(e->cold->uses);
    }
    free(e->cold);
    *e = (struct token_embedding){0};
}

/* ---- absent rows ---------------------------------------------------------------------------- */

/* Returns 1 + the slot of a row; 0 if it is absent. */
static uint32_t slot_of(const struct cold_tokens *cold, uint64_t row) {
    const uint32_t slot = atomic_load_explicit(&cold->slot[row], memory_order_acquire);
    return slot == WANTED ? 0 : slot;
}

size_t token_embedding_room(const struct token_embedding *e) {
    return e->cold && is_limited(e->cold) ? e->cold->slots : SIZE_MAX;
}

static size_t find_absent(const struct token_embedding *e, const int32_t *ids, size_t n, bool hold,
                          wisp_range *ranges) {
    const uint64_t row_bytes = e->tensor->row_bytes;
    size_t absent = 0;
    for (size_t i = 0; i < n && e->cold; i++) {
        uint64_t row;
        const struct token_part *part = find_row(e, ids[i], &row);
        if (part == &e->part[0])
            continue;
        const uint32_t slot = slot_of(e->cold, row);
        if (hold && slot == 0) {
            e->cold->slot[row] = WANTED;
        } else if (hold) {
            unsigned char *uses = &e->cold->uses[slot - 1];
            *uses =
                (unsigned char)(HELD | (*uses & HELD || *uses == MOST_USES ? *uses : *uses + 1));
        }
        if (slot > 0)
            continue;
        if (ranges)
            ranges[absent] = (wisp_range){part->tensor->offset + row * row_bytes, row_bytes};
        absent++;
    }
    return absent;
}

size_t token_embedding_absent(const struct token_embedding *e, const int32_t *ids, size_t n,
                              wisp_range *ranges) {
    return find_absent(e, ids, n, false, ranges);
}

size_t token_embedding_hold(const struct token_embedding *e, const int32_t *ids, size_t n,
                            wisp_range *ranges) {
    return find_absent(e, ids, n, e->cold && is_limited(e->cold), ranges);
}

void token_embedding_let_go(const struct token_embedding *e) {
    if (!e->cold || !is_limited(e->cold))
        return;
    for (size_t i = 0; i < e->cold->n; i++)
        e->cold->uses[i] &= MOST_USES;
    for (size_t row = 0; row < e->part[1].tensor->rows; row++)
        if (e->cold->slot[row] == WANTED)
            e->cold->slot[row] = 0;
}

/* Returns the slot for an absent row, or `slots` if there is none. */
static uint32_t take_slot(struct cold_tokens *cold, uint64_t row) {
    const uint32_t n = cold->n;
    if (n < cold->slots) {
        cold->n = n + 1;
        return n;
    }
    if (cold->slot[row] != WANTED)
        return n;
    /* Not all slots are held: there are as many as tokens that may be held, and one of these waits
     * for this row. */
    for (;; cold->hand = (cold->hand + 1) % cold->slots) {
        unsigned char *uses = &cold->uses[cold->hand];
        if (*uses == 0)
            break;
        if (!(*uses & HELD))
            *uses /= 2;
    }
    cold->slot[cold->row[cold->hand]] = 0;
    return cold->hand;
}

/* Keeps the checksum of a cold row that stays in the source. */
static void sum_provided(const struct token_embedding *e, uint64_t row,
                         const unsigned char *bytes) {
    const uint32_t id = e->split->token[e->part[0].tensor->rows + row];
    if (e->checksums)
        e->checksums[id] = checksum(bytes, (size_t)e->tensor->row_bytes);
}

void token_embedding_provide(const struct token_embedding *e, uint64_t offset, const void *bytes,
                             size_t length) {
    const struct token_part *part = &e->part[1];
    const uint64_t row_bytes = e->tensor->row_bytes, end = offset + length;
    if (!e->cold)
        return;
    const uint64_t start = part->tensor->offset;
    uint64_t row = offset > start ? (offset - start + row_bytes - 1) / row_bytes : 0;
    while (atomic_flag_test_and_set_explicit(&e->cold->busy, memory_order_acquire))
        continue;
    for (; row < part->tensor->rows && start + (row + 1) * row_bytes <= end; row++) {
        const unsigned char *from =
            (const unsigned char *)bytes + (start + row * row_bytes - offset);
        if (slot_of(e->cold, row) > 0)
            continue;
        uint32_t slot = 0;
        if (rows_stay(e->cold)) {
            sum_provided(e, row, from);
        } else if ((slot = take_slot(e->cold, row)) == e->cold->slots) {
            continue;
        } else {
            memcpy(part->copy + slot * row_bytes, from, (size_t)row_bytes);
        }
        if (is_limited(e->cold)) {
            e->cold->row[slot] = (uint32_t)row;
            e->cold->uses[slot] = e->cold->slot[row] == WANTED ? HELD | 1 : 0;
        }
        atomic_store_explicit(&e->cold->slot[row], slot + 1, memory_order_release);
    }
    atomic_flag_clear_explicit(&e->cold->busy, memory_order_release);
}

uint64_t token_embedding_provided(const struct token_embedding *e) {
    return e->cold ? e->cold->n : 0;
}

/* ---- rows ----------------------------------------------------------------------------------- */

wisp_status token_rows_open(struct token_rows *kept, const struct token_embedding *e,
                            wisp_error *error) {
    *kept = (struct token_rows){0};
    if (!e->checksums)
        return WISP_OK;
    const size_t row_bytes = (size_t)e->tensor->row_bytes;
    kept->slots = larger(KEPT_BYTES / row_bytes, 1);
    kept->bytes = kept->slots * (row_bytes + sizeof *kept->ids);
    kept->ids = memory_allocate(kept->slots * sizeof *kept->ids);
    kept->rows = memory_allocate(kept->slots * row_bytes);
    if (!kept->ids || !kept->rows)
        return fail_memory(error, kept->bytes);
    for (size_t i = 0; i < kept->slots; i++)
        kept->ids[i] = -1;
    return WISP_OK;
}

void token_rows_release(struct token_rows *kept) {
    memory_free(kept->ids);
    memory_free(kept->rows);
    *kept = (struct token_rows){0};
}

/* Reads the stored row of a token into `to`, and compares it with its checksum. */
static wisp_status read_row(const struct token_embedding *e, int32_t id, void *to,
                            wisp_error *error) {
    const size_t row_bytes = (size_t)e->tensor->row_bytes;
    uint64_t row;
    const struct tensor *tensor = find_row(e, id, &row)->tensor;
    const wisp_source *source = &e->dir->sources[tensor->source];
    TRY(source_read(source, tensor->name, tensor->offset + row * row_bytes, to, row_bytes, error));
    if (e->checksums && checksum(to, row_bytes) != e->checksums[id])
        return fail(error, WISP_ERROR_IO, source->name, tensor->name,
                    "the file changed after it was opened: the embedding of token %d differs",
                    (int)id);
    return WISP_OK;
}

wisp_status token_embedding_row(const struct token_embedding *e, int32_t id,
                                struct token_rows *kept, void *buffer, float *x,
                                wisp_error *error) {
    const size_t row_bytes = (size_t)e->tensor->row_bytes;
    const void *row = buffer;
    uint64_t at;
    const struct token_part *part = find_row(e, id, &at);
    if (part == &e->part[1] && e->cold && !rows_stay(e->cold)) {
        row = part->rows + (slot_of(e->cold, at) - 1) * row_bytes;
    } else if (part->rows) {
        row = part->rows + at * row_bytes;
    } else if (kept && kept->slots > 0) {
        const size_t slot = (size_t)id % kept->slots;
        row = kept->rows + slot * row_bytes;
        if (kept->ids[slot] != id) {
            kept->ids[slot] = -1;
            TRY(read_row(e, id, kept->rows + slot * row_bytes, error));
            kept->ids[slot] = id;
        }
    } else {
        TRY(read_row(e, id, buffer, error));
    }
    e->tensor->format->dequantise(row, (size_t)e->tensor->dims[0], x);
    return WISP_OK;
}

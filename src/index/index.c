/* SPDX-License-Identifier: Apache-2.0 */
#include "index/index.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "formats/directory.h"

const char *wisp_index_kind_name(size_t kind) {
    static const char *const names[] = {"int8", "f32"};
    return kind < sizeof names / sizeof *names ? names[kind] : NULL;
}

bool wisp_index_kind_find(const char *name, wisp_index_kind *kind) {
    const bool is_int8 = name && strcmp(name, wisp_index_kind_name(WISP_INDEX_INT8)) == 0;
    const bool is_f32 = name && strcmp(name, wisp_index_kind_name(WISP_INDEX_F32)) == 0;
    if (is_int8 || is_f32)
        *kind = is_f32 ? WISP_INDEX_F32 : WISP_INDEX_INT8;
    return is_int8 || is_f32;
}

size_t index_row_bytes(wisp_index_kind kind, size_t dimensions) {
    const size_t value = kind == WISP_INDEX_F32 ? sizeof(float) : 1;
    return round_up(dimensions * value, INDEX_ROW_ALIGNMENT);
}

wisp_status index_new(size_t dimensions, wisp_index_kind kind, wisp_index **index,
                      wisp_error *error) {
    wisp_index *made = calloc(1, sizeof *made);
    if (!made)
        return fail_memory(error, sizeof *made);
    made->kind = kind;
    made->dimensions = dimensions;
    made->row_bytes = index_row_bytes(kind, dimensions);
    made->model = arena_copy_text(&made->fixed, "", 0);
    if (!made->model) {
        free(made);
        return fail_memory(error, 1);
    }
    *index = made;
    return WISP_OK;
}

void wisp_index_close(wisp_index *index) {
    if (!index)
        return;
    pool_close(index->team);
    workspace_release(&index->space);
    arena_release(&index->fixed);
    arena_release(&index->texts);
    memory_free(index->vectors);
    free(index->scales);
    free(index->entries);
    free(index->places);
    free(index);
}

wisp_status wisp_index_set_threads(wisp_index *index, uint32_t threads, wisp_error *error) {
    struct pool *team = NULL;
    TRY(require(index, "index", error));
    if (threads > POOL_MAX_THREADS)
        return fail(error, WISP_ERROR_ARGUMENT, NULL, "threads", "%u; the most is %d", threads,
                    POOL_MAX_THREADS);
    if (threads > 1)
        TRY(pool_open(threads, &team, error));
    pool_close(index->team);
    index->team = team;
    return WISP_OK;
}

void wisp_index_get_info(const wisp_index *index, wisp_index_info *info) {
    const size_t row = index->row_bytes + (index->scales ? sizeof *index->scales : 0) +
                       sizeof *index->entries + sizeof *index->places;
    *info = (wisp_index_info){.model = index->model,
                              .kind = index->kind,
                              .dimensions = index->dimensions,
                              .count = index->rows - index->deleted,
                              .rows = index->rows,
                              .resident_bytes = sizeof *index + index->fixed.total +
                                                index->texts.total + index->space.capacity +
                                                (uint64_t)index->capacity * row};
}

/* ---- places --------------------------------------------------------------------------------- */

/* Compares ids, byte by byte. */
static int compare_ids(wisp_text a, wisp_text b) {
    const size_t both = smaller(a.length, b.length);
    const int order = both ? memcmp(a.bytes, b.bytes, both) : 0;
    if (order != 0)
        return order;
    return (a.length > b.length) - (a.length < b.length);
}

/* Orders by id, and equal ids by row. */
static int compare_places(const void *a, const void *b) {
    const struct index_place *x = a, *y = b;
    const int order = compare_ids(x->id, y->id);
    return order ? order : (x->row > y->row) - (x->row < y->row);
}

/* Returns the first place whose id is not below `id`, among the first n. */
static size_t lower_bound(const wisp_index *index, wisp_text id, size_t n) {
    size_t low = 0, high = n;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (compare_ids(index->places[middle].id, id) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct index_place *find(const wisp_index *index, wisp_text id) {
    const size_t n = index->rows - index->deleted, at = lower_bound(index, id, n);
    return at < n && compare_ids(index->places[at].id, id) == 0 ? &index->places[at] : NULL;
}

wisp_status index_sort(wisp_index *index, const char *file, wisp_error *error) {
    struct index_place *places = index->places;
    size_t n = 0;
    for (size_t row = 0; row < index->rows; row++)
        if (!index->entries[row].deleted)
            places[n++] = (struct index_place){index->entries[row].id, row};
    if (n > 0)
        qsort(places, n, sizeof *places, compare_places);
    for (size_t i = 1; i < n; i++)
        if (compare_ids(places[i - 1].id, places[i].id) == 0)
            return fail(error, WISP_ERROR_FORMAT, file, "ids", "rows %zu and %zu have the same id",
                        places[i - 1].row, places[i].row);
    return WISP_OK;
}

bool wisp_index_find(const wisp_index *index, wisp_text id, uint64_t *row) {
    const struct index_place *place = find(index, id);
    if (place)
        *row = place->row;
    return place != NULL;
}

bool wisp_index_get(const wisp_index *index, uint64_t row, wisp_text *id, wisp_text *metadata) {
    if (row >= index->rows || index->entries[row].deleted)
        return false;
    *id = index->entries[row].id;
    if (metadata)
        *metadata = index->entries[row].metadata;
    return true;
}

bool wisp_index_get_vector(const wisp_index *index, uint64_t row, float *values) {
    if (row >= index->rows || index->entries[row].deleted)
        return false;
    const unsigned char *vector = index->vectors + (size_t)row * index->row_bytes;
    if (index->kind == WISP_INDEX_F32)
        memcpy(values, vector, index->dimensions * sizeof *values);
    for (size_t i = 0; index->kind == WISP_INDEX_INT8 && i < index->dimensions; i++)
        values[i] = (float)(int8_t)vector[i] * index->scales[row];
    return true;
}

/* ---- adding --------------------------------------------------------------------------------- */

bool index_is_utf8(wisp_text text) {
    uint32_t code_point;
    for (size_t at = 0; at < text.length;) {
        if ((unsigned char)text.bytes[at] < 0x80) {
            at++;
            continue;
        }
        at += utf8_decode(text.bytes + at, text.length - at, &code_point);
        if (code_point == UTF8_INVALID)
            return false;
    }
    return true;
}

/* Makes room for `capacity` items in an array. Returns false if there is no memory. */
static bool grow(void **array, size_t capacity, size_t item) {
    uint64_t bytes;
    size_t size;
    if (!checked_multiply(capacity, item, &bytes) || !checked_size(bytes, &size))
        return false;
    void *larger_array = realloc(*array, size);
    if (larger_array)
        *array = larger_array;
    return larger_array != NULL;
}

wisp_status index_reserve(wisp_index *index, size_t more, wisp_error *error) {
    uint64_t needed, bytes;
    size_t capacity, size;
    if (!checked_add(index->rows, more, &needed) || !checked_size(needed, &capacity))
        return fail_memory(error, UINT64_MAX);
    if (capacity <= index->capacity)
        return WISP_OK;
    /* An index that grows little by little takes room for half as many rows again, so that it is
     * seldom copied. One that is being opened takes no more than it needs. */
    if (index->rows > 0)
        capacity = larger(capacity, index->capacity + index->capacity / 2);
    if (!checked_multiply(capacity, index->row_bytes, &bytes) || !checked_size(bytes, &size))
        return fail_memory(error, UINT64_MAX);
    void *entries = index->entries, *places = index->places, *scales = index->scales;
    bool good = grow(&entries, capacity, sizeof *index->entries);
    good = grow(&places, capacity, sizeof *index->places) && good;
    if (index->kind == WISP_INDEX_INT8)
        good = grow(&scales, capacity, sizeof *index->scales) && good;
    index->entries = entries;
    index->places = places;
    index->scales = scales;
    unsigned char *vectors = good ? memory_allocate(size) : NULL;
    if (!vectors)
        return fail_memory(error, bytes);
    if (index->rows > 0)
        memcpy(vectors, index->vectors, index->rows * index->row_bytes);
    memory_free(index->vectors);
    index->vectors = vectors;
    index->capacity = capacity;
    return WISP_OK;
}

static wisp_status check_added(const wisp_index *index, const wisp_text *ids,
                               const wisp_text *metadata, const float *rows, size_t n,
                               wisp_error *error) {
    struct arena arena = {0};
    wisp_status status = WISP_OK;
    for (size_t i = 0; i < n && status == WISP_OK; i++) {
        const struct json *root;
        if (ids[i].length == 0 || ids[i].length > UINT32_MAX || !index_is_utf8(ids[i]))
            status = fail(error, WISP_ERROR_ARGUMENT, NULL, "ids",
                          "id %zu is empty, not UTF-8 or longer than 4 GB", i);
        else if (!all_finite(rows + i * index->dimensions, index->dimensions))
            status = fail(error, WISP_ERROR_ARGUMENT, NULL, "rows",
                          "a value of vector %zu is not finite", i);
        else if (metadata && metadata[i].length > UINT32_MAX)
            status =
                fail(error, WISP_ERROR_ARGUMENT, NULL, "metadata", "%zu is longer than 4 GB", i);
        else if (metadata && metadata[i].length > 0)
            status =
                json_parse(&arena, metadata[i].bytes, metadata[i].length, "metadata", &root, error);
        if (status == WISP_ERROR_FORMAT)
            status = fail(error, WISP_ERROR_ARGUMENT, NULL, "metadata", "%zu is not JSON", i);
        if (metadata && status == WISP_OK && !index_is_utf8(metadata[i]))
            status = fail(error, WISP_ERROR_ARGUMENT, NULL, "metadata", "%zu is not UTF-8", i);
        arena_release(&arena);
    }
    return status;
}

static bool copy_text(struct arena *arena, wisp_text text, wisp_text *copy) {
    copy->bytes = arena_copy_text(arena, text.bytes, text.length);
    copy->length = text.length;
    return copy->bytes != NULL;
}

/* Stores a vector. The scale of an int8 vector makes its largest magnitude 127. Magnitudes below
 * 2^-120 become 0, since 127 divided by them could overflow. */
static void put_vector(wisp_index *index, size_t row, const float *values) {
    unsigned char *vector = index->vectors + row * index->row_bytes;
    const size_t n = index->dimensions;
    memset(vector, 0, index->row_bytes);
    if (index->kind == WISP_INDEX_F32) {
        memcpy(vector, values, n * sizeof *values);
        return;
    }
    float most = 0;
    for (size_t i = 0; i < n; i++)
        most = fmaxf(most, fabsf(values[i]));
    const float inverse = most < 0x1p-120f ? 0 : 127 / most;
    for (size_t i = 0; i < n; i++)
        vector[i] = (unsigned char)(int8_t)rintf(values[i] * inverse);
    index->scales[row] = inverse > 0 ? most / 127 : 0;
}

/* Puts the places of n new rows, which it sorts, among those of the index. If an id comes more
 * than once, the last row with it counts: the others, and an old row with that id, are deleted. */
static void settle(wisp_index *index, struct index_place *added, size_t n) {
    size_t fresh = 0 /* ids that the index did not have */, replaced = 0;
    qsort(added, n, sizeof *added, compare_places);
    for (size_t i = 0; i < n; i++) {
        if (i + 1 < n && compare_ids(added[i].id, added[i + 1].id) == 0) {
            index->entries[added[i].row].deleted = true;
            replaced++;
            continue;
        }
        struct index_place *old = find(index, added[i].id);
        if (old) {
            index->entries[old->row].deleted = true;
            replaced++;
            *old = added[i];
        } else {
            added[fresh++] = added[i];
        }
    }
    /* The numbers of rows change only now, because `find` tells by them how many places there
     * are. */
    const size_t before = index->rows - index->deleted;
    index->rows += n;
    index->deleted += replaced;
    /* Merges from the back, if there is room. */
    size_t from = before;
    for (size_t left = fresh; left > 0;) {
        const size_t to = from + left - 1;
        if (from > 0 && compare_ids(index->places[from - 1].id, added[left - 1].id) > 0)
            index->places[to] = index->places[--from];
        else
            index->places[to] = added[--left];
    }
}

wisp_status wisp_index_add(wisp_index *index, const wisp_text *ids, const wisp_text *metadata,
                           const float *rows, size_t n, wisp_error *error) {
    TRY(require(index, "index", error));
    if (n == 0)
        return WISP_OK;
    TRY(require_texts(ids, n, error));
    TRY(require(rows, "rows", error));
    if (metadata)
        TRY(require_texts(metadata, n, error));
    TRY(check_added(index, ids, metadata, rows, n, error));
    TRY(index_reserve(index, n, error));
    struct index_place *added = calloc(n, sizeof *added);
    if (!added)
        return fail_memory(error, n * sizeof *added);
    for (size_t i = 0; i < n; i++) {
        struct index_entry *entry = &index->entries[index->rows + i];
        const wisp_text none = {"", 0};
        entry->deleted = false;
        if (!copy_text(&index->texts, ids[i], &entry->id) ||
            !copy_text(&index->texts, metadata ? metadata[i] : none, &entry->metadata)) {
            free(added);
            return fail_memory(error, ids[i].length + (metadata ? metadata[i].length : 0));
        }
        added[i] = (struct index_place){entry->id, index->rows + i};
    }
    for (size_t i = 0; i < n; i++)
        put_vector(index, index->rows + i, rows + i * index->dimensions);
    settle(index, added, n);
    free(added);
    return WISP_OK;
}

/* ---- removing ------------------------------------------------------------------------------- */

wisp_status wisp_index_remove(wisp_index *index, const wisp_text *ids, size_t n, size_t *removed,
                              wisp_error *error) {
    TRY(require(index, "index", error));
    if (n > 0)
        TRY(require_texts(ids, n, error));
    size_t count = 0, kept = 0;
    for (size_t i = 0; i < n; i++) {
        const struct index_place *place = find(index, ids[i]);
        if (place && !index->entries[place->row].deleted) {
            index->entries[place->row].deleted = true;
            count++;
        }
    }
    const size_t before = index->rows - index->deleted;
    for (size_t i = 0; count > 0 && i < before; i++)
        if (!index->entries[index->places[i].row].deleted)
            index->places[kept++] = index->places[i];
    index->deleted += count;
    if (removed)
        *removed = count;
    return WISP_OK;
}

wisp_status wisp_index_compact(wisp_index *index, wisp_error *error) {
    TRY(require(index, "index", error));
    if (index->deleted == 0)
        return WISP_OK;
    struct arena texts = {0};
    const size_t left = index->rows - index->deleted;
    struct index_entry *entries = calloc(larger(left, 1), sizeof *entries);
    bool good = entries != NULL;
    for (size_t row = 0, to = 0; good && row < index->rows; row++) {
        const struct index_entry *entry = &index->entries[row];
        if (entry->deleted)
            continue;
        good = copy_text(&texts, entry->id, &entries[to].id) &&
               copy_text(&texts, entry->metadata, &entries[to].metadata);
        to++;
    }
    if (!good) {
        arena_release(&texts);
        free(entries);
        return fail_memory(error, index->texts.total);
    }
    for (size_t row = 0, to = 0; row < index->rows; row++) {
        if (index->entries[row].deleted)
            continue;
        memmove(index->vectors + to * index->row_bytes, index->vectors + row * index->row_bytes,
                index->row_bytes);
        if (index->scales)
            index->scales[to] = index->scales[row];
        to++;
    }
    memcpy(index->entries, entries, left * sizeof *entries);
    free(entries);
    arena_release(&index->texts);
    index->texts = texts;
    index->rows = left;
    index->deleted = 0;
    return index_sort(index, NULL, error);
}

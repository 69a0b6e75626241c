/* SPDX-License-Identifier: Apache-2.0 */
#include "huggingface/checkpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/byte_order.h"
#include "base/checked.h"
#include "huggingface/pickle.h"
#include "huggingface/zip.h"

enum { MOST_PICKLE_BYTES = 4 << 20, NAME_BYTES = 96 };

/* Where the elements of a storage begin. */
struct place {
    const struct pickle_storage *storage;
    uint64_t offset; /* 0: not known */
};

struct reader {
    struct directory *dir;
    uint32_t index;
    const wisp_source *source;
    struct zip_archive archive; /* empty in files of versions before 1.6 */
    struct place *places;       /* [n_places], sorted by key: of those files; else NULL */
    size_t n_places;
    wisp_error *error;
};

static wisp_status malformed(const struct reader *r, const char *field, const char *what) {
    return fail(r->error, WISP_ERROR_FORMAT, r->source->name, field, "%s", what);
}

/* ---- tensors -------------------------------------------------------------------------------- */

/* Returns the format of a storage's class, or NULL. Bytes and truth values are those of masks,
 * which no model of wisp reads. */
static const struct block_format *format_of(const char *class) {
    static const struct {
        const char *class, *format;
    } known[] = {{"FloatStorage", "F32"},  {"HalfStorage", "F16"}, {"BFloat16Storage", "BF16"},
                 {"DoubleStorage", "F64"}, {"LongStorage", "I64"}, {"IntStorage", "I32"},
                 {"ShortStorage", "I16"},  {"CharStorage", "I8"},  {"ByteStorage", "I8"},
                 {"BoolStorage", "I8"}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(class, known[i].class) == 0)
            return block_format_by_name(known[i].format);
    return NULL;
}

static int compare_places(const void *a, const void *b) {
    return strcmp(((const struct place *)a)->storage->key, ((const struct place *)b)->storage->key);
}

static struct place *find_place(const struct reader *r, const char *key) {
    const struct pickle_storage storage = {.key = key};
    const struct place wanted = {.storage = &storage};
    return bsearch(&wanted, r->places, r->n_places, sizeof wanted, compare_places);
}

/* Finds the bytes of a storage: a member of the archive, or what follows the pickles. */
static wisp_status find_storage(const struct reader *r, const struct pickle_storage *storage,
                                uint64_t bytes, uint64_t *offset) {
    char name[NAME_BYTES];
    if (!r->places) {
        snprintf(name, sizeof name, "data/%.64s", storage->key);
        const struct zip_member *member = zip_find(&r->archive, name);
        if (!member || member->bytes < bytes)
            return malformed(r, name, "the archive has no such member, or a shorter one");
        *offset = member->offset;
        return WISP_OK;
    }
    const struct place *place = find_place(r, storage->key);
    if (!place || place->offset == 0 || place->storage->elements != storage->elements)
        return malformed(r, storage->key, "no storage has this key");
    *offset = place->offset;
    return WISP_OK;
}

static wisp_status add_tensor(const struct reader *r, const struct pickle_value *name,
                              const struct pickle_value *value) {
    struct tensor *tensor;
    uint64_t bytes, start = 0, step;
    if (name->kind != PICKLE_TEXT || value->kind != PICKLE_TENSOR)
        return malformed(r, name->kind == PICKLE_TEXT ? name->as.text : "pickle",
                         "expected a dictionary of tensors");
    const struct pickle_tensor *found = value->as.tensor;
    TRY(directory_add_tensor(r->dir, &tensor, r->error));
    *tensor = (struct tensor){.name = name->as.text,
                              .format = format_of(found->storage->class),
                              .n_dims = found->n_dims ? found->n_dims : 1,
                              .dims = {1},
                              .source = r->index};
    if (!tensor->format)
        return fail(r->error, WISP_ERROR_UNSUPPORTED, r->source->name, name->as.text,
                    "%.32s is not supported", found->storage->class);
    for (uint32_t i = 0; i < found->n_dims; i++)
        tensor->dims[i] = found->sizes[found->n_dims - 1 - i];
    if (!checked_multiply(found->storage->elements, tensor->format->bytes, &bytes))
        return malformed(r, name->as.text, "the size of its storage overflows");
    TRY(find_storage(r, found->storage, bytes, &start));
    step = found->offset * tensor->format->bytes; /* at most `bytes` */
    if (!checked_add(start, step, &tensor->offset))
        return malformed(r, name->as.text, "the size of its storage overflows");
    return directory_check_tensor(r->dir, tensor, r->error);
}

static wisp_status add_tensors(const struct reader *r, const struct pickle_value *state) {
    if (state->kind != PICKLE_DICT || state->as.items->count == 0)
        return malformed(r, "pickle", "expected a dictionary of tensors");
    for (size_t i = 0; i < state->as.items->count; i += 2)
        TRY(add_tensor(r, &state->as.items->values[i], &state->as.items->values[i + 1]));
    return WISP_OK;
}

/* ---- archives ------------------------------------------------------------------------------- */

/* Refuses an archive whose member byteorder says that numbers are big-endian. Old archives have
 * none, and are little-endian. */
static wisp_status check_order(const struct reader *r) {
    const struct zip_member *order = zip_find(&r->archive, "byteorder");
    char text[6];
    if (!order)
        return WISP_OK;
    if (order->bytes != sizeof text)
        return malformed(r, "byteorder", "expected \"little\"");
    TRY(source_read(r->source, "byteorder", order->offset, text, sizeof text, r->error));
    return memcmp(text, "little", sizeof text) == 0
               ? WISP_OK
               : fail(r->error, WISP_ERROR_UNSUPPORTED, r->source->name, "byteorder",
                      "big-endian numbers are not supported");
}

static wisp_status read_archive(struct reader *r) {
    struct arena *arena = &r->dir->arena;
    wisp_error *error = r->error;
    struct pickle_value state;
    char *bytes;
    size_t used;
    TRY(zip_read(r->source, arena, &r->archive, error));
    TRY(check_order(r));
    const struct zip_member *member = zip_find(&r->archive, "data.pkl");
    if (!member || member->bytes > MOST_PICKLE_BYTES)
        return malformed(r, "data.pkl", "the archive has no such member, or one of over 4 MiB");
    ARENA_TAKE(arena, bytes, (size_t)member->bytes + 1, error);
    TRY(source_read(r->source, member->name, member->offset, bytes, (size_t)member->bytes, error));
    TRY(pickle_read(arena, bytes, (size_t)member->bytes, r->source->name, &state, &used, error));
    return add_tensors(r, &state);
}

/* ---- files of versions before 1.6 ----------------------------------------------------------- */

/* The first pickle is a number of 10 bytes. */
static const unsigned char old_start[] = {0x80, 2,    0x8a, 10,   0x6c, 0xfc, 0x9c,
                                          0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19};

/* Lists the storages of all tensors, by key. */
static wisp_status list_storages(struct reader *r, const struct pickle_value *state) {
    wisp_error *error = r->error;
    const size_t pairs = state->as.items->count / 2;
    size_t n = 0, kept = 0;
    ARENA_TAKE(&r->dir->arena, r->places, pairs + 1, error);
    for (size_t i = 0; i < pairs; i++) {
        const struct pickle_value *value = &state->as.items->values[2 * i + 1];
        if (value->kind == PICKLE_TENSOR)
            r->places[n++].storage = value->as.tensor->storage;
    }
    if (n > 1)
        qsort(r->places, n, sizeof *r->places, compare_places);
    for (size_t i = 0; i < n; i++)
        if (kept == 0 || compare_places(&r->places[kept - 1], &r->places[i]) != 0)
            r->places[kept++] = r->places[i];
    r->n_places = kept;
    return WISP_OK;
}

/* Finds where each storage begins: a number of elements is before the elements. */
static wisp_status find_places(const struct reader *r, const struct pickle_items *keys,
                               uint64_t at) {
    for (size_t i = 0; i < keys->count; i++) {
        const char *key = keys->values[i].kind == PICKLE_TEXT ? keys->values[i].as.text : "";
        struct place *place = find_place(r, key);
        unsigned char count[8];
        uint64_t bytes;
        const struct block_format *format = place ? format_of(place->storage->class) : NULL;
        if (!format)
            return malformed(r, key, "a storage that belongs to no tensor of a known type");
        if (at > r->source->size || r->source->size - at < sizeof count)
            return malformed(r, key, "the file ends before this storage");
        TRY(source_read(r->source, key, at, count, sizeof count, r->error));
        place->offset = at + sizeof count;
        if (load_u64(count) != place->storage->elements ||
            !checked_multiply(place->storage->elements, format->bytes, &bytes) ||
            bytes > r->source->size - place->offset)
            return malformed(r, key, "another number of elements follows, or the file is cut");
        at = place->offset + bytes;
    }
    return WISP_OK;
}

/* Five pickles: a number by which the file is known, a version, sizes of the machine, the tensors,
 * and the order of the storages that follow. */
static wisp_status read_old(struct reader *r) {
    enum { TENSORS = 3, KEYS = 4, PICKLES = 5 };
    struct arena *arena = &r->dir->arena;
    wisp_error *error = r->error;
    const size_t size =
        r->source->size < MOST_PICKLE_BYTES ? (size_t)r->source->size : MOST_PICKLE_BYTES;
    struct pickle_value values[PICKLES];
    size_t at = 0, used;
    char *bytes;
    ARENA_TAKE(arena, bytes, size + 1, error);
    TRY(source_read(r->source, NULL, 0, bytes, size, error));
    for (size_t i = 0; i < PICKLES; i++, at += used)
        TRY(pickle_read(arena, bytes + at, size - at, r->source->name, &values[i], &used, error));
    if (values[TENSORS].kind != PICKLE_DICT || values[KEYS].kind != PICKLE_LIST)
        return malformed(r, "pickle", "expected a dictionary of tensors and a list of storages");
    TRY(list_storages(r, &values[TENSORS]));
    TRY(find_places(r, values[KEYS].as.items, at));
    return add_tensors(r, &values[TENSORS]);
}

wisp_status checkpoint_read(struct directory *dir, uint32_t index, wisp_error *error) {
    const wisp_source source = dir->sources[index];
    struct reader r = {.dir = dir, .index = index, .source = &source, .error = error};
    unsigned char start[sizeof old_start] = {0};
    if (source.size >= sizeof start)
        TRY(source_read(&source, NULL, 0, start, sizeof start, error));
    if (memcmp(start, "PK", 2) == 0)
        return read_archive(&r);
    if (memcmp(start, old_start, sizeof start) == 0)
        return read_old(&r);
    return malformed(&r, "magic number", "this is not a checkpoint of PyTorch");
}

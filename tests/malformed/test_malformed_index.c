/* SPDX-License-Identifier: Apache-2.0
 * Indexes with faults: cut at every byte, a bit of every byte flipped, files of other kinds and
 * versions, and contents that are wrong although their checksums are right. Opening must end in a
 * typed error that names what is wrong, with nothing leaked. Memory runs out at every allocation.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/byte_order.h"
#include "base/checksum.h"
#include "support/allocations.h"
#include "support/golden.h"
#include "support/opening.h"
#include "support/sampling.h"

#undef fail /* base/status.h has another */
#include <cmocka.h>

/* The places of an index of ROWS vectors, one of them removed (docs/formats.md). */
enum {
    WIDTH = 5,
    ROWS = 9,
    REMOVED = 3,
    AT_VERSION = 8,
    AT_KIND = 12,
    AT_SIZE = 16,
    AT_DIMENSIONS = 24,
    AT_ROW_BYTES = 28,
    AT_ROWS = 32,
    AT_DELETED = 40,
    AT_TEXT_BYTES = 48,
    AT_NAME_BYTES = 56,
    AT_HAS_MODEL = 60,
    AT_CHECKSUMS = 64,
    AT_CHECKSUM = 120,
    NAME = 0,
    FINGERPRINT,
    SCALES,
    DELETED,
    LENGTHS,
    TEXTS,
    VECTORS,
    SECTIONS
};

static struct {
    wisp_model *model;
    wisp_session *session;
    struct bytes good[2];           /* [kind] */
    size_t at[2][SECTIONS];         /* where a section begins */
    size_t length[2][SECTIONS + 1]; /* its bytes */
} world;

static wisp_index *build(wisp_index_kind kind) {
    static const char *const names[ROWS] = {"a", "bb", "ccc", "d", "e", "f", "gg", "h", "i"};
    wisp_text ids[ROWS], metadata[ROWS];
    float rows[ROWS * WIDTH];
    wisp_error error;
    wisp_index *index;
    assert_int_equal(wisp_index_create(world.session, WIDTH, kind, &index, &error), WISP_OK);
    for (size_t i = 0; i < ROWS * WIDTH; i++)
        rows[i] = (float)(i * 7 % 11) - 5;
    for (size_t i = 0; i < ROWS; i++) {
        ids[i] = wisp_text_of(names[i]);
        metadata[i] = wisp_text_of(i % 2 ? "{\"n\":1}" : "");
    }
    assert_int_equal(wisp_index_add(index, ids, metadata, rows, ROWS, &error), WISP_OK);
    assert_int_equal(wisp_index_remove(index, &ids[REMOVED], 1, NULL, &error), WISP_OK);
    return index;
}

/* Finds the sections from the header, as docs/formats.md says. */
static void find_sections(int kind) {
    const unsigned char *header = world.good[kind].data;
    size_t *length = world.length[kind], at = 128;
    length[NAME] = load_u32(header + AT_NAME_BYTES);
    length[FINGERPRINT] = 4 * WIDTH;
    length[SCALES] = kind == WISP_INDEX_INT8 ? 4 * ROWS : 0;
    length[DELETED] = (ROWS + 7) / 8;
    length[LENGTHS] = 8 * ROWS;
    length[TEXTS] = (size_t)load_u64(header + AT_TEXT_BYTES);
    length[VECTORS] = (size_t)load_u32(header + AT_ROW_BYTES) * ROWS;
    for (int s = 0; s < SECTIONS; s++) {
        at = (at + 63) / 64 * 64;
        world.at[kind][s] = at;
        at += length[s];
    }
    assert_int_equal(at, world.good[kind].size);
}

static int set_up(void **state) {
    wisp_error error;
    (void)state;
    world.model = open_model_or_fail("models/wisp-default.gguf", WISP_COMPUTE_AUTO, NULL);
    world.session = open_session_or_fail(world.model, 1);
    for (int kind = WISP_INDEX_INT8; kind <= WISP_INDEX_F32; kind++) {
        wisp_index *index = build((wisp_index_kind)kind);
        struct bytes *good = &world.good[kind];
        size_t size;
        assert_int_equal(wisp_index_save_bytes(index, NULL, 0, &size, &error), WISP_OK);
        *good = (struct bytes){.data = malloc(size + 1), .size = size, .capacity = size};
        assert_int_equal(wisp_index_save_bytes(index, good->data, size, &size, &error), WISP_OK);
        wisp_index_close(index);
        find_sections(kind);
    }
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    wisp_session_close(world.session);
    wisp_model_close(world.model);
    for (size_t i = 0; i < 2; i++)
        bytes_release(&world.good[i]);
    remove_temporary_folder();
    return 0;
}

/* Opens bytes from the end of an allocation, so that sanitizers see reads beyond them, and from a
 * file. Both must fail, or for WISP_OK succeed, in the same way. */
static wisp_status open_both(const unsigned char *bytes, size_t size, wisp_error *error) {
    unsigned char *copy = malloc(size + 1);
    wisp_index *index, *from_file;
    wisp_error of_file;
    assert_non_null(copy);
    memcpy(copy + 1, bytes, size);
    const wisp_status status = wisp_index_open_bytes(copy + 1, size, &index, error);
    free(copy);
    write_file("index", bytes, size);
    assert_int_equal(wisp_index_open(temporary_path("index"), &from_file, &of_file), status);
    assert_true((status == WISP_OK) == (index != NULL) && (index == NULL) == (from_file == NULL));
    if (status != WISP_OK)
        assert_string_equal(of_file.field, error->field);
    wisp_index_close(index);
    wisp_index_close(from_file);
    return status;
}

static void expect_refused(const unsigned char *bytes, size_t size, wisp_status status,
                           const char *field) {
    wisp_error error = {0};
    const wisp_status got = open_both(bytes, size, &error);
    if (got != status || error.status != status || !*error.message ||
        (field && strcmp(error.field, field) != 0))
        fail_msg("status %d, field %s, expected %s: %s", (int)got, error.field,
                 field ? field : "any", error.message);
}

static void cut_at_every_byte(void **state) {
    struct sampling sampling = sampling_of("indexes cut short", 3);
    (void)state;
    for (int kind = 0; kind < 2; kind++) {
        const struct bytes *good = &world.good[kind];
        for (size_t size = 0; size < good->size; size += sampling_stride(&sampling))
            expect_refused(good->data, size, WISP_ERROR_FORMAT, NULL);
        for (size_t size = good->size; size-- > good->size - 20;)
            expect_refused(good->data, size, WISP_ERROR_FORMAT, "size");
    }
}

/* The checksums, and that bytes between sections are 0, find a flipped bit anywhere. */
static void flip_a_bit_of_every_byte(void **state) {
    struct sampling sampling = sampling_of("flipped bits of indexes", 3);
    (void)state;
    for (int kind = 0; kind < 2; kind++) {
        const struct bytes *good = &world.good[kind];
        for (size_t at = 0; at < good->size; at += sampling_stride(&sampling)) {
            const unsigned char bit = (unsigned char)(1u << at * 5 % 8);
            good->data[at] ^= bit;
            expect_refused(good->data, good->size,
                           at >= AT_VERSION && at < AT_KIND ? WISP_ERROR_UNSUPPORTED
                                                            : WISP_ERROR_FORMAT,
                           NULL);
            good->data[at] ^= bit;
        }
    }
}

static void files_of_other_kinds(void **state) {
    const struct bytes *good = &world.good[0];
    unsigned char *longer = calloc(1, good->size + 1);
    size_t size;
    char *gguf = read_file("models/wisp-stories.gguf", &size);
    (void)state;
    assert_non_null(longer);
    memcpy(longer, good->data, good->size);
    expect_refused(longer, good->size + 1, WISP_ERROR_FORMAT, "size");
    expect_refused((const unsigned char *)gguf, size, WISP_ERROR_FORMAT, "");
    expect_refused((const unsigned char *)"", 0, WISP_ERROR_FORMAT, "");
    free(longer);
    free(gguf);
}

/* Overwrites bytes of a section, or of the header, and makes the checksums right. */
struct forgery {
    const char *field;
    ptrdiff_t section; /* -1: the header */
    size_t at;         /* counted from the section's start */
    uint64_t value;
    size_t bytes; /* of the value */
    size_t kind;
};

static void contents_that_are_wrong(void **state) {
    static const struct forgery forgeries[] = {
        {"kind", -1, AT_KIND, 2, 4, 0},
        {"kind", -1, AT_KIND, UINT32_MAX, 4, 0},
        {"row_bytes", -1, AT_KIND, WISP_INDEX_F32, 4, 0},
        {"size", -1, AT_SIZE, 5, 8, 0},
        {"dimensions", -1, AT_DIMENSIONS, 0, 4, 0},
        {"dimensions", -1, AT_DIMENSIONS, 65537, 4, 0},
        {"row_bytes", -1, AT_DIMENSIONS, 65536, 4, 0},
        {"row_bytes", -1, AT_ROW_BYTES, 0, 4, 0},
        {"fingerprint", -1, AT_DIMENSIONS, WIDTH + 1, 4, 0},
        {"size", -1, AT_ROWS, UINT64_MAX, 8, 0},
        {"size", -1, AT_ROWS, UINT64_MAX / 16 + 1, 8, 0},
        {"size", -1, AT_ROWS, ROWS + 1, 8, 0},
        {"deleted", -1, AT_DELETED, ROWS + 1, 8, 0},
        {"deleted", -1, AT_DELETED, 0, 8, 0},
        {"size", -1, AT_TEXT_BYTES, UINT64_MAX, 8, 0},
        {"size", -1, AT_TEXT_BYTES, UINT64_MAX - 63, 8, 0},
        {"name", -1, AT_NAME_BYTES, 4097, 4, 0},
        {"model", -1, AT_HAS_MODEL, 2, 4, 0},
        {"size", -1, AT_HAS_MODEL, 0, 4, 0},
        {"name", NAME, 0, 0, 1, 0},
        {"name", NAME, 1, 0xff, 1, 0},
        {"fingerprint", FINGERPRINT, 4, 0x7fc00000, 4, 0},
        {"scales", SCALES, 4, 0x7f800000, 4, 0},
        {"scales", SCALES, 8, 0xbf800000, 4, 0},
        {"lengths", DELETED, 0, 0, 1, 0},
        {"lengths", DELETED, 0, 1 << REMOVED | 1, 1, 0},
        {"deleted", DELETED, 1, 2, 1, 0},
        {"lengths", LENGTHS, 0, 0, 4, 0},
        {"lengths", LENGTHS, 0, UINT32_MAX, 4, 0},
        {"lengths", LENGTHS, 8 * REMOVED + 4, 1, 4, 0},
        {"lengths", LENGTHS, 8 * (ROWS - 1) + 4, UINT32_MAX, 4, 0},
        {"texts", LENGTHS, 8 * (ROWS - 2) + 4, 0, 4, 0},
        {"texts", TEXTS, 0, 0xff, 1, 0},
        {"ids", TEXTS, 0, 'e', 1, 0},
        {"vectors", VECTORS, WIDTH, 1, 1, 0},
        {"vectors", VECTORS, 0, 0xff800000, 4, 1},
        {"vectors", VECTORS, 4 * WIDTH, 1, 1, 1},
    };
    (void)state;
    for (size_t i = 0; i < sizeof forgeries / sizeof *forgeries; i++) {
        const struct forgery *f = &forgeries[i];
        const struct bytes *good = &world.good[f->kind];
        unsigned char *forged = malloc(good->size), value[8];
        wisp_error error = {0};
        assert_non_null(forged);
        memcpy(forged, good->data, good->size);
        assert_int_equal(open_both(forged, good->size, &error), WISP_OK);
        store_u64(value, f->value);
        const size_t start = f->section < 0 ? 0 : world.at[f->kind][f->section];
        memcpy(forged + start + f->at, value, f->bytes);
        for (int s = 0; s < SECTIONS; s++)
            store_u64(forged + AT_CHECKSUMS + 8 * s,
                      checksum(forged + world.at[f->kind][s], world.length[f->kind][s]));
        store_u64(forged + AT_CHECKSUM, checksum(forged, AT_CHECKSUM));
        if (open_both(forged, good->size, &error) != WISP_ERROR_FORMAT ||
            strcmp(error.field, f->field) != 0)
            fail_msg("forgery %zu (%s): %s", i, f->field, error.message);
        free(forged);
    }
}

/* An id twice, and very many rows that have the same id. */
static void very_many_equal_ids(void **state) {
    enum { MANY = 50000 };
    wisp_index *index;
    wisp_error error;
    size_t size;
    wisp_text *ids = calloc(MANY, sizeof *ids);
    float *rows = calloc(MANY, sizeof *rows);
    (void)state;
    assert_true(ids && rows);
    for (size_t i = 0; i < MANY; i++)
        ids[i] = wisp_text_of("same");
    assert_int_equal(wisp_index_create(NULL, 1, WISP_INDEX_INT8, &index, &error), WISP_OK);
    assert_int_equal(wisp_index_add(index, ids, NULL, rows, MANY, &error), WISP_OK);
    assert_int_equal(wisp_index_save_bytes(index, NULL, 0, &size, &error), WISP_OK);
    assert_int_equal(wisp_index_compact(index, &error), WISP_OK);
    wisp_index_info info;
    wisp_index_get_info(index, &info);
    assert_int_equal(info.rows, 1);
    wisp_index_close(index);
    free(ids);
    free(rows);
}

/* ---- memory --------------------------------------------------------------------------------- */

/* Opens an index, changes it, searches and saves. If a call fails, the index stays as it was and
 * the call can be made again. */
static wisp_status use(const struct bytes *good, wisp_error *error) {
    static const float rows[3 * WIDTH] = {1, 2, 3}, query[WIDTH] = {1};
    const wisp_text ids[3] = {wisp_text_of("x"), wisp_text_of("a"), wisp_text_of("y")};
    const wisp_text metadata[3] = {wisp_text_of("[1]"), wisp_text_of("2"), wisp_text_of("")};
    wisp_match matches[4];
    unsigned char bytes[4096];
    wisp_index *index;
    wisp_index_info info;
    size_t found, size;
    wisp_status status = wisp_index_open_bytes(good->data, good->size, &index, error);
    if (status != WISP_OK)
        return status;
    status = wisp_index_add(index, ids, metadata, rows, 3, error);
    wisp_index_get_info(index, &info);
    assert_int_equal(info.count, status == WISP_OK ? ROWS + 1 : ROWS - 1);
    if (status == WISP_OK)
        status = wisp_index_set_threads(index, 2, error);
    if (status == WISP_OK)
        status = wisp_index_search(index, query, 1, 4, matches, &found, error);
    if (status == WISP_OK)
        status = wisp_index_compact(index, error);
    if (status == WISP_OK)
        status = wisp_index_save_bytes(index, bytes, sizeof bytes, &size, error);
    wisp_index_get_info(index, &info);
    wisp_index_close(index);
    return status;
}

static void memory_runs_out(void **state) {
    wisp_error error = {0};
    (void)state;
    if (!allocations_are_watched())
        skip();
    for (int kind = 0; kind < 2; kind++) {
        bool failed = true;
        for (uint64_t n = 0; failed; n++) {
            allocations_watch();
            allocations_fail_after(n, false);
            const wisp_status status = use(&world.good[kind], &error);
            failed = allocations_seen().failed;
            allocations_succeed();
            assert_int_equal(allocations_seen().live, 0);
            /* A team goes on without a member for which there is no memory. */
            assert_true(status == WISP_OK || (failed && status == WISP_ERROR_MEMORY));
            assert_int_equal(use(&world.good[kind], &error), WISP_OK);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cut_at_every_byte),    cmocka_unit_test(flip_a_bit_of_every_byte),
        cmocka_unit_test(files_of_other_kinds), cmocka_unit_test(contents_that_are_wrong),
        cmocka_unit_test(very_many_equal_ids),  cmocka_unit_test(memory_runs_out),
    };
    return cmocka_run_group_tests_name("malformed_index", tests, set_up, tear_down);
}

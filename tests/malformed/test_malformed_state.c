/* SPDX-License-Identifier: Apache-2.0
 * Saved states with faults: cut at every byte, a bit of every byte flipped, bytes of other models,
 * sessions and versions, and contents that are wrong although their checksums are right. Loading
 * must end in a typed error that names what is wrong, and leave the session with its text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/byte_order.h"
#include "base/checksum.h"
#include "engine/generation.h"
#include "support/golden.h"
#include "support/opening.h"
#include "support/sampling.h"

#undef fail /* base/status.h has another */
#include <cmocka.h>

static const char stories[] = "models/wisp-stories.gguf";

enum { LAYERS = 5, KV_HEADS = 4, HEAD_SIZE = 8, VOCABULARY = 512, TOKENS = 5 };

/* The places of a state of one text (docs/formats.md). */
enum {
    AT_VERSION = 8,
    AT_SIZE = 16,
    AT_IDENTITY = 24,
    AT_SEQUENCES = 72,
    AT_TOKENS = 80 + 8,
    AT_BLOCK = AT_TOKENS + 16 + 8,
    BLOCK_HEADER = 80, /* before its checksum */
    AT_NAME = AT_BLOCK + 24,
    AT_FIRST = AT_NAME + 32,
    AT_COUNT = AT_FIRST + 4,
    AT_IDS = AT_BLOCK + BLOCK_HEADER + 8,
    AT_LAYERS = AT_IDS + 4 * TOKENS
};

static struct {
    wisp_model *model;
    wisp_session *session; /* has a text of its own, which stays */
    struct bytes good[4];  /* [wisp_cache_type]: states of the same text; none of AUTO */
} world;

static wisp_session *open_with(const wisp_model *model, wisp_cache_type type) {
    const wisp_session_options options = {.cache_type = type};
    wisp_session *session;
    wisp_error error;
    assert_int_equal(wisp_session_open(model, &options, &session, &error), WISP_OK);
    return session;
}

static void add(wisp_session *session, const int32_t *ids, size_t n) {
    const float *rows;
    wisp_error error;
    assert_int_equal(generation_open(session, 1, &error), WISP_OK);
    const struct addition addition = {&session->generation->sequences[0], ids, n, false};
    assert_int_equal(generation_pass(session, &addition, 1, false, &rows, &error), WISP_OK);
}

static int set_up(void **state) {
    static const int32_t text[TOKENS] = {1, 403, 407, 261, 378};
    wisp_error error;
    (void)state;
    world.model = open_model_or_fail(stories, WISP_COMPUTE_AUTO, NULL);
    for (int type = WISP_CACHE_F16; type <= WISP_CACHE_F32; type++) {
        wisp_session *session = open_with(world.model, (wisp_cache_type)type);
        struct bytes *good = &world.good[type];
        size_t size;
        add(session, text, TOKENS);
        assert_int_equal(wisp_session_save_bytes(session, NULL, 0, &size, &error), WISP_OK);
        *good = (struct bytes){.data = malloc(size), .size = size, .capacity = size};
        assert_int_equal(wisp_session_save_bytes(session, good->data, size, &size, &error),
                         WISP_OK);
        wisp_session_close(session);
    }
    world.session = open_with(world.model, WISP_CACHE_F32);
    add(world.session, text, 2);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    wisp_session_close(world.session);
    wisp_model_close(world.model);
    for (int type = WISP_CACHE_F16; type <= WISP_CACHE_F32; type++)
        bytes_release(&world.good[type]);
    remove_temporary_folder();
    return 0;
}

/* Loads bytes from the end of an allocation, so that sanitizers see reads beyond them, and from a
 * file. Both must fail, or for WISP_OK succeed, in the same way. */
static wisp_status load(wisp_session *session, const unsigned char *bytes, size_t size,
                        wisp_error *error) {
    unsigned char *copy = malloc(size + 1);
    wisp_error from_file;
    assert_non_null(copy);
    memcpy(copy + 1, bytes, size);
    const wisp_status status = wisp_session_load_bytes(session, copy + 1, size, error);
    free(copy);
    write_file("state", bytes, size);
    assert_int_equal(wisp_session_load(session, temporary_path("state"), &from_file), status);
    if (status != WISP_OK)
        assert_string_equal(from_file.field, error->field);
    return status;
}

static void expect_refused(const unsigned char *bytes, size_t size, wisp_status status,
                           const char *field) {
    wisp_error error = {0};
    const wisp_status got = load(world.session, bytes, size, &error);
    if (got != status || error.status != status || !*error.message ||
        (field && strcmp(error.field, field) != 0))
        fail_msg("status %d, %s", (int)got, error.message);
    assert_int_equal(world.session->generation->sequences[0].past.count, 2);
    assert_int_equal(world.session->generation->sequences[0].cache.length, 2);
}

static void cut_at_every_byte(void **state) {
    struct sampling sampling = sampling_of("states cut short", 5);
    const struct bytes *good = &world.good[WISP_CACHE_F32];
    (void)state;
    for (size_t size = 0; size < good->size; size += sampling_stride(&sampling))
        expect_refused(good->data, size, WISP_ERROR_FORMAT, NULL);
    for (size_t size = good->size; size-- > good->size - 20;)
        expect_refused(good->data, size, WISP_ERROR_FORMAT, NULL);
}

/* The checksums find a flipped bit anywhere. In the version it looks like another version. */
static void flip_a_bit_of_every_byte(void **state) {
    struct sampling sampling = sampling_of("flipped bits of states", 5);
    const struct bytes *good = &world.good[WISP_CACHE_F32];
    (void)state;
    for (size_t at = 0; at < good->size; at += sampling_stride(&sampling)) {
        const unsigned char bit = (unsigned char)(1u << at * 5 % 8);
        good->data[at] ^= bit;
        expect_refused(good->data, good->size,
                       at >= AT_VERSION && at < AT_VERSION + 4 ? WISP_ERROR_UNSUPPORTED
                                                               : WISP_ERROR_FORMAT,
                       NULL);
        good->data[at] ^= bit;
    }
}

static void bytes_after_the_end(void **state) {
    const struct bytes *good = &world.good[WISP_CACHE_F32];
    unsigned char *longer = calloc(1, good->size + 1);
    (void)state;
    assert_non_null(longer);
    memcpy(longer, good->data, good->size);
    expect_refused(longer, good->size + 1, WISP_ERROR_FORMAT, "size");
    free(longer);
}

static void states_of_others(void **state) {
    const struct bytes *good = world.good, *own = &good[WISP_CACHE_F32];
    wisp_error error;
    (void)state;
    expect_refused(good[WISP_CACHE_F16].data, good[WISP_CACHE_F16].size, WISP_ERROR_ARGUMENT,
                   "cache_type");
    expect_refused(good[WISP_CACHE_INT8].data, good[WISP_CACHE_INT8].size, WISP_ERROR_ARGUMENT,
                   "cache_type");
    wisp_model *model = open_model_or_fail(
        stories, world.model->compute == WISP_COMPUTE_INT8 ? WISP_COMPUTE_F32 : WISP_COMPUTE_INT8,
        NULL);
    wisp_session *session = open_with(model, WISP_CACHE_F32);
    assert_int_equal(load(session, own->data, own->size, &error), WISP_ERROR_ARGUMENT);
    assert_string_equal(error.field, "compute");
    wisp_session_close(session);
    wisp_model_close(model);

    /* One text of the metadata differs. */
    const wisp_convert_options options = {.name = "another"};
    char path[300];
    snprintf(path, sizeof path, "%s", temporary_path("another.gguf"));
    assert_int_equal(wisp_convert(stories, path, &options, &error), WISP_OK);
    model = open_model_or_fail(path, WISP_COMPUTE_AUTO, NULL);
    session = open_with(model, WISP_CACHE_F32);
    assert_int_equal(load(session, own->data, own->size, &error), WISP_ERROR_ARGUMENT);
    assert_string_equal(error.field, "model");
    wisp_session_close(session);
    wisp_model_close(model);
}

/* Overwrites bytes of a section and makes its checksum right. */
struct forgery {
    const char *field;
    size_t section, length; /* where the section begins, and its bytes */
    size_t at;              /* counted from the file's start */
    uint64_t value;
    size_t bytes; /* of the value */
    int type;     /* of the cache */
};

static void contents_that_are_wrong(void **state) {
    enum { HEADER = 80, IDS = 4 * TOKENS, VALUES = LAYERS * TOKENS * 2 * KV_HEADS * HEAD_SIZE };
    enum { F32 = IDS + 4 * VALUES, F16 = IDS + 2 * VALUES };
    enum { SCALES = LAYERS * TOKENS * 2 * KV_HEADS * 4, INT8 = IDS + VALUES + SCALES };
    static const struct forgery forgeries[] = {
        {"size", 0, HEADER, AT_SIZE, 5, 8, WISP_CACHE_F32},
        {"sequences", 0, HEADER, AT_SEQUENCES, 0, 8, WISP_CACHE_F32},
        {"sequences", 0, HEADER, AT_SEQUENCES, UINT64_MAX, 8, WISP_CACHE_F32},
        {"tokens", 0, HEADER, AT_SEQUENCES, 2, 8, WISP_CACHE_F32}, /* the second is missing */
        {"tokens", AT_TOKENS, 16, AT_TOKENS, UINT64_MAX, 8, WISP_CACHE_F32},
        {"tokens", AT_TOKENS, 16, AT_TOKENS, TOKENS + 1, 8, WISP_CACHE_F32},
        {"tokens", AT_TOKENS, 16, AT_TOKENS, 513, 8, WISP_CACHE_F32}, /* the context has 512 */
        {"tokens", AT_TOKENS, 16, AT_TOKENS, TOKENS - 1, 8, WISP_CACHE_F32},
        {"tokens", AT_BLOCK, BLOCK_HEADER, AT_COUNT, 0, 4, WISP_CACHE_F32},
        {"tokens", AT_BLOCK, BLOCK_HEADER, AT_COUNT, UINT32_MAX, 4, WISP_CACHE_F32},
        {"block", AT_BLOCK, BLOCK_HEADER, AT_COUNT, TOKENS - 1, 4, WISP_CACHE_F32},
        {"block", AT_BLOCK, BLOCK_HEADER, AT_FIRST, 64, 4, WISP_CACHE_F32},
        {"ids", AT_BLOCK, BLOCK_HEADER, AT_NAME, 0, 8, WISP_CACHE_F32},
        {"ids", AT_IDS, F32, AT_IDS, 2, 4, WISP_CACHE_F32},
        {"ids", AT_IDS, F32, AT_IDS + 4, VOCABULARY, 4, WISP_CACHE_F32},
        {"ids", AT_IDS, F32, AT_IDS + 8, UINT32_MAX, 4, WISP_CACHE_F32},
        {"keys and values", AT_IDS, F32, AT_LAYERS, 0x7f800000, 4, WISP_CACHE_F32},
        {"keys and values", AT_IDS, F32, AT_IDS + F32 - 4, 0xffc00000, 4, WISP_CACHE_F32},
        {"keys and values", AT_IDS, F16, AT_IDS + F16 - 2, 0x7c00, 2, WISP_CACHE_F16},
        {"keys and values", AT_IDS, INT8, AT_IDS + INT8 - 4, 0x7f800000, 4, WISP_CACHE_INT8},
        {"keys and values", AT_IDS, INT8, AT_LAYERS + 2 * KV_HEADS * HEAD_SIZE, 0x7fc00000, 4,
         WISP_CACHE_INT8},
    };
    (void)state;
    for (size_t i = 0; i < sizeof forgeries / sizeof *forgeries; i++) {
        const struct forgery *f = &forgeries[i];
        const struct bytes *good = &world.good[f->type];
        unsigned char *forged = malloc(good->size), value[8];
        wisp_session *session = open_with(world.model, (wisp_cache_type)f->type);
        wisp_error error = {0};
        assert_non_null(forged);
        memcpy(forged, good->data, good->size);
        assert_int_equal(load(session, forged, good->size, &error), WISP_OK);
        store_u64(value, f->value);
        memcpy(forged + f->at, value, f->bytes);
        store_u64(forged + f->section + f->length, checksum(forged + f->section, f->length));
        if (load(session, forged, good->size, &error) != WISP_ERROR_FORMAT ||
            strcmp(error.field, f->field) != 0)
            fail_msg("forgery %zu: %s", i, error.message);
        assert_int_equal(session->generation->sequences[0].past.count, TOKENS);
        wisp_session_close(session);
        free(forged);
    }
}

static void files_of_other_kinds(void **state) {
    size_t size;
    char *gguf = read_file(stories, &size);
    (void)state;
    expect_refused((const unsigned char *)gguf, size, WISP_ERROR_FORMAT, "");
    expect_refused((const unsigned char *)"", 0, WISP_ERROR_FORMAT, "");
    free(gguf);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cut_at_every_byte),       cmocka_unit_test(flip_a_bit_of_every_byte),
        cmocka_unit_test(bytes_after_the_end),     cmocka_unit_test(states_of_others),
        cmocka_unit_test(contents_that_are_wrong), cmocka_unit_test(files_of_other_kinds),
    };
    return cmocka_run_group_tests_name("malformed_state", tests, set_up, tear_down);
}

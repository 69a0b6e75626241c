/* SPDX-License-Identifier: Apache-2.0
 * Indexes: what is found, for any number of threads, after adding, replacing and removing, and that
 * a file keeps all of it. Products are compared with plain sums. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/golden.h"
#include "support/opening.h"
#include "support/rng.h"

#undef fail /* base/status.h has another */
#include <cmocka.h>

enum { WIDTH = 37, MOST_ID = 24 };

static wisp_index *new_index(wisp_index_kind kind, size_t dimensions) {
    wisp_index *index;
    wisp_error error;
    if (wisp_index_create(NULL, dimensions, kind, &index, &error) != WISP_OK)
        fail_msg("%s", error.message);
    return index;
}

static float *random_rows(struct rng *rng, size_t n, size_t width) {
    float *rows = malloc(n * width * sizeof *rows);
    assert_non_null(rows);
    for (size_t i = 0; i < n * width; i++)
        rows[i] = (float)rng_range(rng, 0, 2000) / 1000 - 1;
    return rows;
}

static wisp_text id_of(size_t number, char *buffer) {
    snprintf(buffer, MOST_ID, "id %zu", number);
    return wisp_text_of(buffer);
}

/* Adds n rows with the ids first, first + 1, ... and an object as metadata. */
static void add(wisp_index *index, size_t first, const float *rows, size_t n) {
    char(*names)[MOST_ID] = calloc(n, sizeof *names);
    char(*objects)[MOST_ID] = calloc(n, sizeof *objects);
    wisp_text *ids = calloc(n, sizeof *ids), *metadata = calloc(n, sizeof *metadata);
    wisp_error error;
    assert_non_null(names);
    assert_non_null(objects);
    assert_non_null(ids);
    assert_non_null(metadata);
    for (size_t i = 0; i < n; i++) {
        ids[i] = id_of(first + i, names[i]);
        snprintf(objects[i], sizeof objects[i], "{\"n\":%zu}", first + i);
        metadata[i] = wisp_text_of(objects[i]);
    }
    if (wisp_index_add(index, ids, metadata, rows, n, &error) != WISP_OK)
        fail_msg("%s", error.message);
    free(names);
    free(objects);
    free(ids);
    free(metadata);
}

static uint64_t count_of(const wisp_index *index) {
    wisp_index_info info;
    wisp_index_get_info(index, &info);
    return info.count;
}

static wisp_match *search(wisp_index *index, const float *queries, size_t n, size_t k,
                          size_t *found) {
    wisp_match *matches = calloc(n * k + 1, sizeof *matches);
    wisp_error error;
    assert_non_null(matches);
    if (wisp_index_search(index, queries, n, k, matches, found, &error) != WISP_OK)
        fail_msg("%s", error.message);
    return matches;
}

/* The scores of all rows, computed plainly from the vectors that the index gives back. */
static double *plain_scores(const wisp_index *index, const float *query, size_t width) {
    wisp_index_info info;
    wisp_index_get_info(index, &info);
    double *scores = calloc(info.rows + 1, sizeof *scores);
    float *values = calloc(width, sizeof *values);
    assert_true(scores && values);
    for (size_t row = 0; row < info.rows; row++) {
        scores[row] = -1e30;
        if (!wisp_index_get_vector(index, row, values))
            continue;
        scores[row] = 0;
        for (size_t i = 0; i < width; i++)
            scores[row] += (double)values[i] * (double)query[i];
    }
    free(values);
    return scores;
}

/* No row that was not found is better than the last that was, and the order is right. */
static void expect_best(const wisp_index *index, const float *query, size_t width,
                        const wisp_match *matches, size_t found) {
    wisp_index_info info;
    wisp_index_get_info(index, &info);
    double *scores = plain_scores(index, query, width);
    const double tolerance = 2e-4 * (double)width;
    for (size_t i = 0; i < found; i++) {
        assert_true(fabs(scores[matches[i].row] - (double)matches[i].score) < tolerance);
        if (i > 0)
            assert_true(
                matches[i - 1].score > matches[i].score ||
                (matches[i - 1].score == matches[i].score && matches[i - 1].row < matches[i].row));
        scores[matches[i].row] = -1e30;
    }
    for (size_t row = 0; row < info.rows && found > 0; row++)
        assert_true(scores[row] < (double)matches[found - 1].score + tolerance);
    free(scores);
}

static void finds_the_best(void **state) {
    struct rng rng = {1};
    (void)state;
    for (int kind = WISP_INDEX_INT8; kind <= WISP_INDEX_F32; kind++)
        for (size_t width = 1; width < 80; width += 13) {
            const size_t n = 300;
            wisp_index *index = new_index((wisp_index_kind)kind, width);
            float *rows = random_rows(&rng, n, width), *queries = random_rows(&rng, 3, width);
            size_t found;
            add(index, 0, rows, n);
            for (size_t k = 1; k < 2 * n; k = 3 * k + 1) {
                wisp_match *matches = search(index, queries, 3, k, &found);
                assert_int_equal(found, k < n ? k : n);
                for (size_t q = 0; q < 3; q++)
                    expect_best(index, queries + q * width, width, matches + q * k, found);
                free(matches);
            }
            free(rows);
            free(queries);
            wisp_index_close(index);
        }
}

/* Any number of threads, and any number of queries at once, gives the same bits. Many rows are
 * equal, so that ties come. */
static void same_on_any_threads(void **state) {
    enum { N = 3000, QUERIES = 70, K = 40 };
    struct rng rng = {2};
    (void)state;
    for (int kind = WISP_INDEX_INT8; kind <= WISP_INDEX_F32; kind++) {
        wisp_index *index = new_index((wisp_index_kind)kind, WIDTH);
        float *rows = random_rows(&rng, N, WIDTH), *queries = random_rows(&rng, QUERIES, WIDTH);
        wisp_error error;
        size_t found;
        for (size_t i = 0; i < N; i += 3)
            memcpy(rows + i * WIDTH, rows, WIDTH * sizeof *rows);
        memcpy(queries, rows, WIDTH * sizeof *queries);
        add(index, 0, rows, N);
        wisp_match *first = search(index, queries, QUERIES, K, &found);
        assert_int_equal(first[K - 1].row, 3 * (K - 1)); /* ties by row */
        for (uint32_t threads = 1; threads < 6; threads++) {
            assert_int_equal(wisp_index_set_threads(index, threads, &error), WISP_OK);
            wisp_match *again = search(index, queries, QUERIES, K, &found);
            assert_memory_equal(again, first, QUERIES * K * sizeof *first);
            free(again);
            for (size_t q = 0; q < QUERIES; q += 23) {
                again = search(index, queries + q * WIDTH, 1, K, &found);
                assert_memory_equal(again, first + q * K, K * sizeof *first);
                free(again);
            }
        }
        free(first);
        free(rows);
        free(queries);
        wisp_index_close(index);
    }
}

static wisp_index *saved_and_opened(wisp_index *index) {
    wisp_error error;
    wisp_index *from_bytes, *from_file;
    size_t size, again;
    assert_int_equal(wisp_index_save_bytes(index, NULL, 0, &size, &error), WISP_OK);
    unsigned char *bytes = malloc(size), *same = malloc(size);
    assert_true(bytes && same);
    assert_int_equal(wisp_index_save_bytes(index, bytes, size, &size, &error), WISP_OK);
    if (wisp_index_open_bytes(bytes, size, &from_bytes, &error) != WISP_OK)
        fail_msg("%s", error.message);
    char path[300];
    snprintf(path, sizeof path, "%s", temporary_path("index"));
    assert_int_equal(wisp_index_save(from_bytes, path, &error), WISP_OK);
    wisp_index_close(from_bytes);
    if (wisp_index_open(path, &from_file, &error) != WISP_OK)
        fail_msg("%s", error.message);
    assert_int_equal(wisp_index_save_bytes(from_file, same, size, &again, &error), WISP_OK);
    assert_int_equal(again, size);
    assert_memory_equal(same, bytes, size);
    free(bytes);
    free(same);
    return from_file;
}

/* Adds, replaces and removes by chance, beside a plain list of what must be there. */
static void adding_replacing_removing(void **state) {
    enum { IDS = 120, STEPS = 200 };
    struct rng rng = {3};
    (void)state;
    for (int kind = WISP_INDEX_INT8; kind <= WISP_INDEX_F32; kind++) {
        wisp_index *index = new_index((wisp_index_kind)kind, WIDTH);
        float present[IDS] = {0}; /* the first value of each id's vector; 0: absent */
        for (int step = 0; step < STEPS; step++) {
            const size_t first = rng_below(&rng, IDS - 10), n = rng_range(&rng, 1, 9);
            wisp_error error;
            if (rng_coin(&rng)) {
                float *rows = random_rows(&rng, n, WIDTH);
                for (size_t i = 0; i < n; i++)
                    rows[i * WIDTH] = present[first + i] = (float)(step + 1);
                add(index, first, rows, n);
                free(rows);
            } else {
                char names[10][MOST_ID];
                wisp_text ids[10];
                size_t removed, expected = 0;
                for (size_t i = 0; i < n; i++) {
                    ids[i] = id_of(first + i, names[i]);
                    expected += present[first + i] > 0;
                    present[first + i] = 0;
                }
                ids[n] = ids[0]; /* a second time */
                assert_int_equal(wisp_index_remove(index, ids, n + 1, &removed, &error), WISP_OK);
                assert_int_equal(removed, expected);
            }
            if (step % 20 == 19)
                assert_int_equal(wisp_index_compact(index, &error), WISP_OK);
            if (step % 7 == 6) {
                wisp_index *opened = saved_and_opened(index);
                wisp_index_close(index);
                index = opened;
            }
            uint64_t count = 0;
            for (size_t i = 0; i < IDS; i++) {
                char name[MOST_ID], object[MOST_ID];
                wisp_text id, metadata;
                float values[WIDTH];
                uint64_t row;
                count += present[i] > 0;
                if (!wisp_index_find(index, id_of(i, name), &row)) {
                    assert_true(present[i] == 0);
                    continue;
                }
                assert_true(wisp_index_get(index, row, &id, &metadata));
                assert_true(wisp_index_get_vector(index, row, values));
                assert_true(fabsf(values[0] - present[i]) < 1e-3f * present[i]);
                snprintf(object, sizeof object, "{\"n\":%zu}", i);
                assert_int_equal(metadata.length, strlen(object));
                assert_memory_equal(metadata.bytes, object, metadata.length);
                assert_memory_equal(id.bytes, name, id.length);
            }
            assert_int_equal(count_of(index), count);
        }
        float query[WIDTH] = {1};
        size_t found;
        wisp_match *matches = search(index, query, 1, IDS, &found);
        assert_int_equal(found, count_of(index));
        expect_best(index, query, WIDTH, matches, found);
        free(matches);
        wisp_index_close(index);
    }
}

static void last_of_equal_ids_counts(void **state) {
    static const float rows[] = {1, 2, 3};
    const wisp_text ids[] = {wisp_text_of("a"), wisp_text_of("a"), wisp_text_of("a")};
    wisp_index *index = new_index(WISP_INDEX_F32, 1);
    wisp_error error;
    uint64_t row;
    float value;
    (void)state;
    assert_int_equal(wisp_index_add(index, ids, NULL, rows, 3, &error), WISP_OK);
    assert_int_equal(count_of(index), 1);
    assert_true(wisp_index_find(index, ids[0], &row));
    assert_true(wisp_index_get_vector(index, row, &value));
    assert_true(value == 3);
    wisp_index_close(index);
}

static void empty_index(void **state) {
    wisp_index *index = new_index(WISP_INDEX_INT8, 3), *opened = saved_and_opened(index);
    const float query[3] = {1, 2, 3};
    wisp_error error;
    size_t found = 9;
    (void)state;
    assert_int_equal(wisp_index_search(opened, query, 1, 5, NULL, &found, &error), WISP_OK);
    assert_int_equal(found, 0);
    assert_int_equal(wisp_index_search(opened, NULL, 0, 5, NULL, &found, &error), WISP_OK);
    assert_int_equal(wisp_index_compact(opened, &error), WISP_OK);
    wisp_index_close(index);
    wisp_index_close(opened);
    wisp_index_close(NULL);
}

/* Values at the ends of floats: no scale and no score is infinite, and a sum that is not a number
 * is the worst. */
static void extreme_values(void **state) {
    static const float rows[] = {3e38f, -3e38f, 1e-45f, 0, 3e38f, 3e38f, 1, 1, 0, 0};
    static const float queries[] = {3e38f, 3e38f, 1e-40f, 1e-40f, 0, 0, 1, -1};
    const wisp_text ids[] = {wisp_text_of("a"), wisp_text_of("b"), wisp_text_of("c"),
                             wisp_text_of("d"), wisp_text_of("e")};
    wisp_error error;
    size_t found;
    (void)state;
    for (int kind = WISP_INDEX_INT8; kind <= WISP_INDEX_F32; kind++) {
        wisp_index *index = new_index((wisp_index_kind)kind, 2);
        assert_int_equal(wisp_index_add(index, ids, NULL, rows, 5, &error), WISP_OK);
        wisp_match *matches = search(index, queries, 4, 5, &found);
        for (size_t i = 0; i < 20; i++)
            assert_true(isfinite(matches[i].score));
        assert_true(matches[0].score == FLT_MAX);
        assert_int_equal(matches[0].row, 2); /* both of its values are large */
        assert_int_equal(matches[15].row, 0);
        free(matches);
        wisp_index_close(saved_and_opened(index));
        wisp_index_close(index);
    }
}

static void refusals(void **state) {
    static const float good[] = {1, 2}, bad[] = {1, NAN}, endless[] = {INFINITY, 0};
    const wisp_text id = wisp_text_of("a"), empty = {"", 0}, broken = {"\xFF", 1};
    const wisp_text no_json = wisp_text_of("{"), json = wisp_text_of("[1]");
    wisp_index *index = new_index(WISP_INDEX_INT8, 2), *none;
    wisp_index_kind kind = WISP_INDEX_INT8;
    wisp_error error;
    size_t found, size;
    (void)state;
    const struct {
        wisp_text id, metadata;
        const float *row;
        const char *field;
    } cases[] = {{empty, json, good, "ids"},      {broken, json, good, "ids"},
                 {id, no_json, good, "metadata"}, {id, broken, good, "metadata"},
                 {id, json, bad, "rows"},         {id, json, endless, "rows"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(
            wisp_index_add(index, &cases[i].id, &cases[i].metadata, cases[i].row, 1, &error),
            WISP_ERROR_ARGUMENT);
        assert_string_equal(error.field, cases[i].field);
    }
    assert_int_equal(wisp_index_search(index, bad, 1, 1, NULL, &found, &error),
                     WISP_ERROR_ARGUMENT);
    assert_int_equal(wisp_index_add(index, NULL, NULL, good, 1, &error), WISP_ERROR_ARGUMENT);
    assert_int_equal(wisp_index_add(index, &id, NULL, NULL, 1, &error), WISP_ERROR_ARGUMENT);
    assert_int_equal(wisp_index_save_bytes(index, NULL, 9, &size, &error), WISP_ERROR_ARGUMENT);
    assert_int_equal(wisp_index_set_threads(index, 1025, &error), WISP_ERROR_ARGUMENT);
    assert_int_equal(wisp_index_create(NULL, 0, WISP_INDEX_F32, &none, &error),
                     WISP_ERROR_ARGUMENT);
    assert_int_equal(wisp_index_create(NULL, 65537, WISP_INDEX_F32, &none, &error),
                     WISP_ERROR_ARGUMENT);
    assert_int_equal(wisp_index_create(NULL, 1, (wisp_index_kind)2, &none, &error),
                     WISP_ERROR_ARGUMENT);
    assert_int_equal(wisp_index_open(NULL, &none, &error), WISP_ERROR_ARGUMENT);
    assert_int_equal(wisp_index_open("no such file", &none, &error), WISP_ERROR_NOT_FOUND);
    assert_int_equal(wisp_index_open_bytes(NULL, 0, &none, &error), WISP_ERROR_ARGUMENT);
    assert_int_equal(count_of(index), 0);
    wisp_index_close(index);
    assert_true(wisp_index_kind_find("f32", &kind) && kind == WISP_INDEX_F32);
    assert_false(wisp_index_kind_find("int4", &kind) || wisp_index_kind_find(NULL, &kind));
    assert_true(wisp_index_kind_find("int8", &kind) && kind == WISP_INDEX_INT8);
    assert_null(wisp_index_kind_name(2));
}

/* The widest rows: sums stay below 2^31. */
static void widest_rows(void **state) {
    enum { WIDE = 65536 };
    wisp_index *index = new_index(WISP_INDEX_INT8, WIDE);
    float *row = malloc(WIDE * sizeof *row);
    size_t found;
    (void)state;
    assert_non_null(row);
    for (size_t i = 0; i < WIDE; i++)
        row[i] = 1;
    add(index, 0, row, 1);
    wisp_match *matches = search(index, row, 1, 1, &found);
    assert_true(fabsf(matches[0].score - (float)WIDE) < 1);
    free(matches);
    free(row);
    wisp_index_close(index);
}

/* ---- models --------------------------------------------------------------------------------- */

static void models_are_told_apart(void **state) {
    wisp_model *model = open_model_or_fail("models/wisp-default.gguf", WISP_COMPUTE_AUTO, NULL);
    wisp_model *f32 = open_model_or_fail("models/wisp-default.gguf", WISP_COMPUTE_F32, "scalar");
    wisp_session *session = open_session_or_fail(model, 1), *other = open_session_or_fail(f32, 1);
    wisp_index *index, *cut;
    wisp_index_info info;
    wisp_model_info of_model;
    wisp_error error;
    (void)state;
    assert_int_equal(wisp_index_create(session, 0, WISP_INDEX_INT8, &index, &error), WISP_OK);
    wisp_index_get_info(index, &info);
    wisp_model_get_info(model, &of_model);
    assert_int_equal(info.dimensions, wisp_model_dimensions(model));
    assert_string_equal(info.model, of_model.name);
    wisp_index *opened = saved_and_opened(index);
    assert_int_equal(wisp_index_check_model(opened, session, &error), WISP_OK);
    assert_int_equal(wisp_index_check_model(opened, other, &error), WISP_OK);
    assert_int_equal(wisp_index_create(session, 64, WISP_INDEX_F32, &cut, &error), WISP_OK);
    assert_int_equal(wisp_index_check_model(cut, other, &error), WISP_OK);
    wisp_index_close(cut);
    assert_int_equal(wisp_index_create(session, 385, WISP_INDEX_F32, &cut, &error),
                     WISP_ERROR_ARGUMENT);
    assert_string_equal(error.field, "dimensions");
    assert_null(cut);

    struct gguf file;
    gguf_make(&file, &tiny_shape);
    struct bytes bytes = {0};
    gguf_write_bytes(&file, &bytes);
    gguf_release(&file);
    write_file("tiny.gguf", bytes.data, bytes.size);
    bytes_release(&bytes);
    wisp_model *tiny = open_model_or_fail(temporary_path("tiny.gguf"), WISP_COMPUTE_AUTO, NULL);
    wisp_session *small = open_session_or_fail(tiny, 1);
    assert_int_equal(wisp_index_check_model(opened, small, &error), WISP_ERROR_ARGUMENT);
    assert_string_equal(error.field, "model");
    assert_int_equal(
        wisp_index_create(session, wisp_model_dimensions(tiny), WISP_INDEX_F32, &cut, &error),
        WISP_OK);
    assert_int_equal(wisp_index_check_model(cut, small, &error), WISP_ERROR_ARGUMENT);
    assert_non_null(strstr(error.message, "cosine"));
    wisp_index_close(cut);
    wisp_index_close(index);
    wisp_index_close(opened);
    wisp_session_close(small);
    wisp_model_close(tiny);
    wisp_session_close(session);
    wisp_session_close(other);
    wisp_model_close(model);
    wisp_model_close(f32);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_the_best),
        cmocka_unit_test(same_on_any_threads),
        cmocka_unit_test(adding_replacing_removing),
        cmocka_unit_test(last_of_equal_ids_counts),
        cmocka_unit_test(empty_index),
        cmocka_unit_test(extreme_values),
        cmocka_unit_test(refusals),
        cmocka_unit_test(widest_rows),
        cmocka_unit_test(models_are_told_apart),
    };
    return cmocka_run_group_tests_name("index", tests, NULL, tear_down_temporary_folder);
}

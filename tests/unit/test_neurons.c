/* SPDX-License-Identifier: Apache-2.0
 * Neurons as rows. wisp must write the files that tests/support/builder_rows.c makes by the
 * documentation, must read the plain model from them bit by bit, and must convert them back. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "convert/write_model.h"
#include "formats/gguf.h"
#include "formats/neurons_read.h"
#include "native/open_path.h"
#include "support/golden.h"
#include "support/opening.h"
#include "support/sparse_models.h"

#undef fail /* base/status.h has another */
#include <cmocka.h>

enum { PATH_BYTES = 256, KINDS = 10 };

/* Every type that rows can have, with and without gates. */
static struct tiny_shape kind_at(size_t i) {
    static const uint32_t types[] = {BLOCK_F32, BLOCK_F16, BLOCK_BF16, BLOCK_Q8_0, BLOCK_Q4_0};
    return (struct tiny_shape){.hidden = 32,
                               .wide = 64,
                               .layers = 2,
                               .heads = 4,
                               .positions = 16,
                               .type = types[i / 2],
                               .nomic = i % 2 != 0};
}

/* ---- files ---------------------------------------------------------------------------------- */

static void keep_path(const char *name, char path[PATH_BYTES]) {
    snprintf(path, PATH_BYTES, "%s", temporary_path(name));
}

static void write_gguf(const char *name, const struct gguf *file, char path[PATH_BYTES]) {
    struct bytes bytes = {0};
    gguf_write_bytes(file, &bytes);
    write_file(name, bytes.data, bytes.size);
    keep_path(name, path);
    bytes_release(&bytes);
}

static void write_shape(const char *name, const struct tiny_shape *shape, char path[PATH_BYTES]) {
    struct gguf file;
    gguf_make(&file, shape);
    write_gguf(name, &file, path);
    gguf_release(&file);
}

/* Makes a plain model with an order of its neurons, of which `hot` are hot. */
static void write_ordered(const char *name, const struct tiny_shape *shape, size_t hot,
                          char path[PATH_BYTES]) {
    struct gguf file;
    int32_t order[2 * 64], each[2] = {(int32_t)hot, (int32_t)hot};
    for (size_t i = 0; i < 2 * 64; i++)
        order[i] = tiny_neuron(shape, i / 64, i % 64);
    gguf_make(&file, shape);
    gguf_set_i32s(&file, "wisp.sparse.order", order, 2 * 64);
    gguf_set_i32s(&file, "wisp.sparse.hot", each, 2);
    write_gguf(name, &file, path);
    gguf_release(&file);
}

static void convert(const char *input, const char *name, const wisp_convert_options *options,
                    char path[PATH_BYTES]) {
    wisp_error error;
    keep_path(name, path);
    if (wisp_convert(input, path, options, &error) != WISP_OK)
        fail_msg("%s", error.message);
}

static const wisp_convert_options as_rows = {.neurons = true}, as_plain = {.plain = true};

/* ---- writing -------------------------------------------------------------------------------- */

static void rows_are_as_documented_and_can_be_undone(void **state) {
    (void)state;
    for (size_t i = 0; i < KINDS; i++) {
        char path[PATH_BYTES], plain[PATH_BYTES], expected[PATH_BYTES], rows[PATH_BYTES];
        struct tiny_shape shape = kind_at(i);
        write_shape("plain.gguf", &shape, path);
        convert(path, "plain-2.gguf", NULL, plain);
        write_ordered("ordered.gguf", &shape, tiny_hot(&shape), path);
        convert(path, "rows.gguf", &as_rows, rows);
        shape.rows = true;
        write_shape("expected.gguf", &shape, path);
        convert(path, "expected-2.gguf", NULL, expected);
        expect_same_files(rows, expected);
        convert(rows, "rows-2.gguf", &as_rows, path);
        expect_same_files(path, rows);
        convert(rows, "plain-3.gguf", &as_plain, path);
        expect_same_files(path, plain);
    }
}

/* Converting a type and then making rows gives the file of doing both at once. */
static void types_are_converted(void **state) {
    (void)state;
    static const char *const types[] = {"f32", "f16", "q8_0", "q4_0"};
    for (size_t i = 0; i < KINDS; i++)
        for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
            const struct tiny_shape shape = kind_at(i);
            const wisp_convert_options both = {.type = types[t], .neurons = true};
            const wisp_convert_options type = {.type = types[t]};
            char plain[PATH_BYTES], first[PATH_BYTES], second[PATH_BYTES], third[PATH_BYTES];
            write_ordered("ordered.gguf", &shape, tiny_hot(&shape), plain);
            convert(plain, "typed.gguf", &type, first);
            convert(first, "typed-rows.gguf", &as_rows, second);
            convert(plain, "at-once.gguf", &both, first);
            expect_same_files(first, second);
            convert(plain, "rows.gguf", &as_rows, second);
            convert(second, "rows-typed.gguf", &type, third);
            expect_same_files(first, third);
        }
}

static void open_or_fail(struct directory *dir, const char *path) {
    wisp_error error;
    if (directory_open_path(dir, path, &error) != WISP_OK)
        fail_msg("%s", error.message);
}

static bool is_cold(const struct tensor *tensor) {
    return strstr(tensor->name, ".ffn_neurons.cold") != NULL;
}

/* Cold rows come last, so that the first bytes of the file make a model usable. */
static void cold_rows_come_last(void **state) {
    static const struct {
        size_t hot,
            tensors; /* for two layers: W_up and W_down are gone, rows and scales are added */
        bool cold;
    } cases[] = {{0, 4, true}, {1, 6, true}, {63, 6, true}, {64, 4, false}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct tiny_shape shape = kind_at(0);
        char path[PATH_BYTES], rows[PATH_BYTES], plain[PATH_BYTES];
        struct directory dir;
        write_ordered("ordered.gguf", &shape, cases[i].hot, path);
        convert(path, "rows.gguf", &as_rows, rows);
        convert(path, "plain.gguf", &as_plain, plain);
        open_or_fail(&dir, rows);
        assert_non_null(dir.stored);
        assert_int_equal(dir.n_stored, dir.n_tensors - 4 + cases[i].tensors);
        for (size_t t = 1; t < dir.n_stored; t++)
            assert_true(is_cold(&dir.stored[t]) || !is_cold(&dir.stored[t - 1]));
        assert_int_equal(is_cold(&dir.stored[dir.n_stored - 1]), cases[i].cold);
        directory_release(&dir);
        convert(rows, "again.gguf", &as_plain, path);
        expect_same_files(path, plain);
    }
}

/* ---- reading -------------------------------------------------------------------------------- */

/* A file that is read through calls. */
struct counted {
    char *bytes;
    size_t size;
    uint64_t read;
};

static int read_counted(void *context, uint64_t offset, void *buffer, size_t length) {
    struct counted *file = context;
    assert_true(offset <= file->size && length <= file->size - offset);
    memcpy(buffer, file->bytes + offset, length);
    file->read += length;
    return 0;
}

static wisp_source source_of(struct counted *file, const char *path) {
    file->bytes = read_file(path, &file->size);
    file->read = 0;
    return (wisp_source){
        .size = file->size, .read = read_counted, .context = file, .name = "counted"};
}

/* Opens the file through calls, or in memory with `in_place`. */
static void open_counted(struct directory *dir, struct counted *file, bool in_place,
                         const char *path) {
    wisp_source source = source_of(file, path);
    uint32_t index;
    wisp_error error;
    source.data = in_place ? file->bytes : NULL;
    *dir = (struct directory){.file = "counted"};
    assert_int_equal(directory_add_source(dir, &source, &index, &error), WISP_OK);
    if (gguf_read(dir, index, &error) != WISP_OK)
        fail_msg("%s", error.message);
}

/* Each matrix of a layer is made of all of its rows. They are read a few times, however many pieces
 * of the matrices are asked for, so that the time of a conversion grows with the file. */
static void rows_are_read_a_few_times(void **state) {
    (void)state;
    const struct tiny_shape shape = {
        .hidden = 256, .wide = 1024, .layers = 2, .heads = 4, .positions = 16, .type = BLOCK_Q4_0};
    char plain[PATH_BYTES], rows[PATH_BYTES];
    struct directory dir;
    struct counted file;
    wisp_error error;
    write_shape("plain.gguf", &shape, plain);
    convert(plain, "rows.gguf", &as_rows, rows);
    open_counted(&dir, &file, false, rows);
    struct gguf_plan plan = {.formats = calloc(dir.n_tensors + 1, sizeof *plan.formats)};
    assert_non_null(plan.formats);
    for (size_t i = 0; i < dir.n_tensors; i++)
        plan.formats[i] = dir.tensors[i].format;
    if (write_model(&dir, &plan, NEURONS_ALL, temporary_path("again.gguf"), &error) != WISP_OK)
        fail_msg("%s", error.message);
    assert_true(file.read < 4 * file.size);
    free((void *)plan.formats);
    directory_release(&dir);
    free(file.bytes);
    keep_path("again.gguf", plain);
    expect_same_files(plain, rows);
}

static void expect_same_rows(const struct directory *plain, const struct directory *rows, size_t i,
                             struct tensor_cache *cache) {
    static const uint64_t steps[] = {1, 2, 3, 7, 33, UINT64_MAX};
    const struct tensor *a = &plain->tensors[i], *b = &rows->tensors[i];
    wisp_error error;
    assert_string_equal(a->name, b->name);
    assert_ptr_equal(a->format, b->format);
    assert_int_equal(a->n_dims, b->n_dims);
    assert_memory_equal(a->dims, b->dims, sizeof a->dims);
    assert_int_equal(a->bytes, b->bytes);
    assert_int_equal(a->row_bytes, b->row_bytes);
    for (size_t s = 0; s < sizeof steps / sizeof *steps; s++)
        for (uint64_t first = 0; first < a->rows;
             first += steps[s] < a->rows ? steps[s] : a->rows) {
            const uint64_t left = a->rows - first, n = left < steps[s] ? left : steps[s];
            const size_t bytes = (size_t)(n * a->row_bytes);
            void *buffers[2] = {malloc(bytes), malloc(bytes)}; /* sanitizers see what follows */
            const void *found[2];
            assert_true(buffers[0] && buffers[1]);
            assert_int_equal(
                directory_rows(plain, a, first, n, NULL, buffers[0], &found[0], &error), WISP_OK);
            assert_int_equal(
                directory_rows(rows, b, first, n, cache, buffers[1], &found[1], &error), WISP_OK);
            assert_memory_equal(found[0], found[1], bytes);
            free(buffers[0]);
            free(buffers[1]);
        }
}

static void matrices_can_be_read_in_any_piece(void **state) {
    (void)state;
    for (size_t i = 0; i < KINDS; i++) {
        struct tiny_shape shape = kind_at(i);
        char path[PATH_BYTES];
        struct directory plain, in_place, read;
        struct tensor_cache cache = {0};
        struct counted memory, file;
        write_shape("plain.gguf", &shape, path);
        open_or_fail(&plain, path);
        shape.rows = true;
        write_shape("rows.gguf", &shape, path);
        open_counted(&in_place, &memory, true, path);
        open_counted(&read, &file, false, path);
        assert_int_equal(plain.n_tensors, in_place.n_tensors);
        assert_int_equal(plain.n_tensors, read.n_tensors);
        for (size_t t = 0; t < plain.n_tensors; t++) {
            expect_same_rows(&plain, &in_place, t, NULL);
            expect_same_rows(&plain, &read, t, NULL);
            expect_same_rows(&plain, &read, t, &cache);
        }
        directory_release(&plain);
        directory_release(&in_place);
        directory_release(&read);
        tensor_cache_release(&cache);
        free(memory.bytes);
        free(file.bytes);
    }
}

/* Embeds with a model, which is closed. */
static void embed(wisp_model *model, float *rows) {
    struct texts texts;
    wisp_session *session = open_session_or_fail(model, 1);
    make_texts(&texts);
    embed_or_fail(session, texts.text, TEXTS, rows);
    wisp_session_close(session);
    wisp_model_close(model);
}

static wisp_model *open_by_calls(struct counted *file, const char *path,
                                 const wisp_model_options *options) {
    const wisp_source source = source_of(file, path);
    wisp_model *model;
    wisp_error error;
    if (wisp_model_open_source(&source, options, &model, &error) != WISP_OK)
        fail_msg("%s", error.message);
    return model;
}

static void embeddings_have_the_same_bits(void **state) {
    static const wisp_model_options ways[] = {
        {.compute = WISP_COMPUTE_F32, .predictor = WISP_PREDICTOR_DENSE},
        {.compute = WISP_COMPUTE_INT8, .predictor = WISP_PREDICTOR_DENSE},
        {.compute = WISP_COMPUTE_INT8, .predictor = WISP_PREDICTOR_EXACT}};
    static float expected[TEXTS * HIDDEN], found[TEXTS * HIDDEN];
    (void)state;
    for (size_t i = 0; i < KINDS * 3; i++) {
        const wisp_model_options *way = &ways[i / KINDS];
        struct tiny_shape shape = kind_at(i % KINDS);
        char plain[PATH_BYTES], rows[PATH_BYTES];
        struct counted file;
        wisp_model_info infos[2];
        write_shape("plain.gguf", &shape, plain);
        shape.rows = true;
        write_shape("rows.gguf", &shape, rows);
        wisp_model *model = open_with(plain, way->compute, way->predictor, NULL);
        wisp_model_get_info(model, &infos[0]);
        embed(model, expected);
        embed(open_with(rows, way->compute, way->predictor, NULL), found);
        assert_memory_equal(found, expected, sizeof found);
        model = open_by_calls(&file, rows, way);
        wisp_model_get_info(model, &infos[1]);
        assert_int_equal(infos[1].parameters, infos[0].parameters);
        assert_true(file.read <= 2 * file.size); /* the directory's window, and each weight once */
        embed(model, found);
        assert_memory_equal(found, expected, sizeof found);
        free(file.bytes);
    }
}

/* ---- row scales and base -------------------------------------------------------------------- */

/* A file of an earlier version has no row scales. They are derived, and give the same bits. If the
 * file has them they are used: other row scales give other embeddings. */
static void row_scales_may_be_in_the_file(void **state) {
    static float expected[TEXTS * HIDDEN], found[TEXTS * HIDDEN];
    (void)state;
    for (size_t i = 0; i < KINDS; i++)
        for (int altered = 0; altered < 2; altered++) {
            struct tiny_shape shape = kind_at(i);
            if (altered && shape.type == BLOCK_BF16)
                continue; /* its weights are too small to change an embedding */
            struct gguf file;
            char path[PATH_BYTES];
            const float scale = 0.3f;
            shape.rows = true;
            write_shape("rows.gguf", &shape, path);
            embed(open_with(path, WISP_COMPUTE_INT8, WISP_PREDICTOR_EXACT, NULL), expected);
            gguf_make(&file, &shape);
            if (altered)
                bytes_set_f32(&gguf_tensor(&file, "blk.1.ffn_down_row_scales")->data, 8, scale);
            else
                for (size_t l = 0; l < 2; l++)
                    gguf_drop_tensor(&file,
                                     l ? "blk.1.ffn_down_row_scales" : "blk.0.ffn_down_row_scales");
            write_gguf("other.gguf", &file, path);
            gguf_release(&file);
            embed(open_with(path, WISP_COMPUTE_INT8, WISP_PREDICTOR_EXACT, NULL), found);
            assert_int_equal(memcmp(found, expected, sizeof found) != 0, altered);
        }
}

/* Predictors with centers need a base, exact does not. Plain files have neither row scales nor
 * base. */
static void base_is_in_the_file(void **state) {
    static const wisp_predictor predictors[] = {WISP_PREDICTOR_EXACT, WISP_PREDICTOR_LOWRANK};
    static float expected[TEXTS * HIDDEN], found[TEXTS * HIDDEN];
    (void)state;
    for (size_t a = 0; a < ACTIVATIONS; a++) {
        const struct predicting p = {.shape = tiny_shape_of(activations[a]),
                                     .activation = activations[a],
                                     .rank = 8,
                                     .type = BLOCK_F32};
        char plain[PATH_BYTES], rows[PATH_BYTES], back[PATH_BYTES];
        struct counted file;
        snprintf(plain, sizeof plain, "%s", predicting_model("plain.gguf", &p));
        convert(plain, "rows.gguf", &as_rows, rows);
        for (size_t i = 0; i < 2; i++) {
            const wisp_model_options way = {.compute = WISP_COMPUTE_INT8,
                                            .predictor = predictors[i]};
            wisp_model *model = open_with(rows, way.compute, way.predictor, NULL);
            const struct neuron_rows *layer = neurons_find_rows(&model->dir, 1);
            assert_int_equal(layer->stored[DOWN_ROW_SCALES].bytes, HIDDEN * sizeof(float));
            assert_int_equal(layer->stored[DOWN_BASE].bytes,
                             strcmp(activations[a], "gelu") == 0 ? HIDDEN * sizeof(float) : 0);
            embed(model, found);
            embed(open_with(plain, way.compute, way.predictor, NULL), expected);
            assert_memory_equal(found, expected, sizeof found);
            embed(open_by_calls(&file, rows, &way), found);
            assert_memory_equal(found, expected, sizeof found);
            free(file.bytes);
        }
        convert(rows, "back.gguf", &as_plain, back);
        convert(plain, "again.gguf", &as_plain, rows);
        expect_same_files(back, rows);
    }
}

/* A row scale is the root of a weight. A number that cannot be one is refused if it would be
 * used. */
static void bad_row_scales_are_refused(void **state) {
    static const float bad[] = {0, -1, NAN, INFINITY, 1e-30f, 1e30f, 0x1p-75f};
    const wisp_model_options exact = {.compute = WISP_COMPUTE_INT8,
                                      .predictor = WISP_PREDICTOR_EXACT};
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct tiny_shape shape = kind_at(0);
        struct gguf file;
        char path[PATH_BYTES];
        wisp_model *model;
        wisp_error error;
        const float huge =
            0x1p100f; /* too large for the last of the scales, which is the smallest possible */
        shape.rows = true;
        gguf_make(&file, &shape);
        bytes_set_f32(&gguf_tensor(&file, "blk.1.ffn_down_row_scales")->data, 0, bad[i]);
        bytes_set_f32(&gguf_tensor(&file, "blk.1.ffn_neurons.hot")->data, HIDDEN * sizeof huge,
                      huge);
        write_gguf("bad.gguf", &file, path);
        gguf_release(&file);
        assert_int_equal(wisp_model_open(path, &exact, &model, &error), WISP_ERROR_FORMAT);
        assert_string_equal(error.field, bad[i] == 0x1p-75f ? "blk.1.ffn_down.weight"
                                                            : "blk.1.ffn_down_row_scales");
    }
}

/* ---- calibrated models ---------------------------------------------------------------------- */

/* Rows follow the order that calibration found, and no weight changes. */
static void calibrated_models_have_rows(void **state) {
    static float expected[TEXTS * HIDDEN], found[TEXTS * HIDDEN];
    const wisp_model_options dense = {.predictor = WISP_PREDICTOR_DENSE};
    const wisp_model_options lowrank = {.predictor = WISP_PREDICTOR_LOWRANK};
    (void)state;
    for (size_t a = 0; a < ACTIVATIONS; a++) {
        char plain[PATH_BYTES], rows[PATH_BYTES];
        struct directory dir;
        struct counted file;
        const int32_t *order, *hot;
        wisp_error error;
        snprintf(plain, sizeof plain, "%s", tiny_model("plain.gguf", activations[a]));
        keep_path("calibrated.gguf", rows);
        calibrate_or_fail(plain, rows, 1);
        open_or_fail(&dir, rows);
        assert_int_equal(neurons_read_order(&dir, 2, 64, &order, &error), WISP_OK);
        assert_int_equal(neurons_read_hot(&dir, 2, 64, &hot, &error), WISP_OK);
        assert_true(order && hot && dir.stored);
        assert_non_null(directory_find_tensor(&dir, "blk.1.ffn_down.weight")->make);
        directory_release(&dir);
        embed(open_with(plain, WISP_COMPUTE_INT8, WISP_PREDICTOR_DENSE, NULL), expected);
        embed(open_by_calls(&file, rows, &dense), found);
        assert_memory_equal(found, expected, sizeof found);
        free(file.bytes);
        embed(open_with(rows, WISP_COMPUTE_AUTO, WISP_PREDICTOR_LOWRANK, NULL), expected);
        embed(open_by_calls(&file, rows, &lowrank), found);
        assert_memory_equal(found, expected, sizeof found);
        free(file.bytes);
    }
}

/* Replaces a tensor's type, and its bytes by valid ones of that type. */
static void retype(struct gguf *file, const char *name, uint32_t type) {
    const struct block_format *format = block_format_by_id(type);
    struct gguf_tensor *tensor = gguf_tensor(file, name);
    const size_t n = (size_t)(tensor->dims[0] * tensor->dims[1]);
    tensor->type = type;
    tensor->data.size = 0;
    for (size_t i = 0; i < n / format->elements * format->bytes; i++) {
        const unsigned char byte = (unsigned char)(i * 7 % 0x3B);
        bytes_put(&tensor->data, &byte, 1);
    }
    gguf_settle(file);
}

static void a_layer_of_two_types_stays_plain(void **state) {
    (void)state;
    struct gguf file;
    struct directory dir;
    char mixed[PATH_BYTES], calibrated[PATH_BYTES], back[PATH_BYTES], again[PATH_BYTES];
    wisp_error error;
    gguf_make(&file, &tiny_shape_q8_0);
    retype(&file, "blk.0.ffn_down.weight", BLOCK_F16);
    write_gguf("mixed.gguf", &file, mixed);
    gguf_release(&file);
    keep_path("never.gguf", again);
    assert_int_equal(wisp_convert(mixed, again, &as_rows, &error), WISP_ERROR_UNSUPPORTED);
    assert_string_equal(error.field, "blk.0.ffn_down.weight");
    assert_non_null(strstr(error.message, "F16"));
    keep_path("calibrated.gguf", calibrated);
    calibrate_or_fail(mixed, calibrated, 1);
    open_or_fail(&dir, calibrated);
    assert_null(directory_find_tensor(&dir, "blk.0.ffn_up.weight")->make);
    assert_non_null(directory_find_tensor(&dir, "blk.1.ffn_up.weight")->make);
    directory_release(&dir);
    convert(calibrated, "back.gguf", &as_plain, back);
    convert(mixed, "again.gguf", NULL, again);
    expect_same_files(back, again);
    convert(calibrated, "same.gguf", NULL, again);
    expect_same_files(calibrated, again);
}

/* ---- errors --------------------------------------------------------------------------------- */

static void expect_refusal(const struct gguf *file, const wisp_convert_options *options,
                           wisp_status status, const char *field) {
    char path[PATH_BYTES], output[PATH_BYTES];
    wisp_error error;
    write_gguf("refused.gguf", file, path);
    keep_path("never.gguf", output);
    assert_int_equal(wisp_convert(path, output, options, &error), status);
    assert_string_equal(error.field, field);
}

static void what_cannot_be_rows_is_said(void **state) {
    (void)state;
    static const int32_t zeros[2 * 64], hot[] = {64, 65}, negative[] = {-1, 0};
    const wisp_convert_options both = {.plain = true, .neurons = true};
    const struct {
        const char *key;
        const int32_t *numbers;
        size_t n;
    } keys[] = {{"wisp.sparse.order", zeros, 2 * 64},
                {"wisp.sparse.order", zeros, 64},
                {"wisp.sparse.hot", hot, 2},
                {"wisp.sparse.hot", negative, 2},
                {"wisp.sparse.hot", hot, 1}};
    struct tiny_shape shape = tiny_shape_q8_0;
    struct gguf file;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        gguf_make(&file, &shape);
        gguf_set_i32s(&file, keys[i].key, keys[i].numbers, keys[i].n);
        expect_refusal(&file, &as_rows, WISP_ERROR_FORMAT, keys[i].key);
        gguf_release(&file);
    }
    gguf_make(&file, &shape);
    expect_refusal(&file, &both, WISP_ERROR_ARGUMENT, "neurons");
    gguf_tensor(&file, "blk.1.ffn_up.weight")->n_dims = 3;
    gguf_tensor(&file, "blk.1.ffn_up.weight")->dims[2] = 1;
    expect_refusal(&file, &as_rows, WISP_ERROR_FORMAT, "blk.1.ffn_up.weight");
    gguf_tensor(&file, "blk.1.ffn_up.weight")->n_dims = 2;
    gguf_drop_tensor(&file, "blk.1.ffn_down.weight");
    expect_refusal(&file, &as_rows, WISP_ERROR_NOT_FOUND, "blk.1.ffn_down.weight");
    gguf_drop_tensor(&file, "blk.0.ffn_up.weight");
    expect_refusal(&file, &as_rows, WISP_ERROR_NOT_FOUND, "blk.0.ffn_up.weight");
    gguf_release(&file);
    shape.type = BLOCK_Q5_1;
    gguf_make(&file, &shape);
    expect_refusal(&file, &as_rows, WISP_ERROR_UNSUPPORTED, "blk.0.ffn_up.weight");
    gguf_release(&file);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_as_documented_and_can_be_undone),
        cmocka_unit_test(types_are_converted),
        cmocka_unit_test(rows_are_read_a_few_times),
        cmocka_unit_test(cold_rows_come_last),
        cmocka_unit_test(matrices_can_be_read_in_any_piece),
        cmocka_unit_test(embeddings_have_the_same_bits),
        cmocka_unit_test(row_scales_may_be_in_the_file),
        cmocka_unit_test(base_is_in_the_file),
        cmocka_unit_test(bad_row_scales_are_refused),
        cmocka_unit_test(calibrated_models_have_rows),
        cmocka_unit_test(a_layer_of_two_types_stays_plain),
        cmocka_unit_test(what_cannot_be_rows_is_said),
    };
    return cmocka_run_group_tests_name("neurons", tests, NULL, tear_down_temporary_folder);
}

/* SPDX-License-Identifier: Apache-2.0
 * wisp_file_* must list and read the contents that the builder wrote, and give typed errors for
 * malformed files. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "quant/blocks.h"
#include "support/folder.h"
#include "support/opening.h"
#include "support/sparse_models.h"

#undef fail /* base/status.h has another */
#include <cmocka.h>

static wisp_file *open_or_fail(const char *path) {
    wisp_error error;
    wisp_file *file;
    if (wisp_file_open(path, &file, &error) != WISP_OK)
        fail_msg("%s", error.message);
    return file;
}

static void expect_metadata(const wisp_file *file, const char *key, const char *type, bool is_array,
                            uint64_t elements, const char *text) {
    wisp_metadata entry;
    size_t i = 0;
    while (wisp_file_get_metadata(file, i, &entry) && strcmp(entry.key, key) != 0)
        i++;
    if (!wisp_file_get_metadata(file, i, &entry))
        fail_msg("%s is missing", key);
    assert_string_equal(entry.type, type);
    assert_int_equal(entry.is_array, is_array);
    assert_int_equal(entry.elements, elements);
    assert_string_equal(entry.text, text);
}

static void lists_metadata(void **state) {
    struct gguf made;
    size_t n = 0;
    wisp_metadata entry;
    (void)state;
    gguf_make(&made, &tiny_shape);
    const size_t keys = made.n_keys;
    wisp_file *file = open_or_fail(write_made(&made, "metadata.gguf"));
    while (wisp_file_get_metadata(file, n, &entry))
        n++;
    assert_int_equal(n, keys);
    expect_metadata(file, "general.name", "string", false, 1, "tiny");
    expect_metadata(file, "bert.block_count", "u32", false, 1, "2");
    expect_metadata(file, "bert.attention.layer_norm_epsilon", "f32", false, 1, "1e-05");
    expect_metadata(file, "wisp.pool_prompt", "bool", false, 1, "false");
    expect_metadata(file, "wisp.tokenizer.added_flags", "i32", true, TINY_SPECIAL, "i32[5]");
    expect_metadata(file, "tokenizer.ggml.tokens", "string", true, TINY_TOKENS, "string[32]");
    assert_false(wisp_file_get_metadata(file, SIZE_MAX, &entry));
    wisp_file_close(file);
}

/* A setting that a file leaves out is listed with the value that is assumed. */
static void lists_assumptions(void **state) {
    static const struct {
        const char *key, *value;
    } settings[] = {{"wisp.hidden_act", "gelu"},
                    {"bert.pooling_type", "1 (mean)"},
                    {"wisp.normalize", "true"},
                    {"wisp.max_seq_length", "the value of bert.context_length"},
                    {"wisp.tokenizer.lowercase", "true"},
                    {"wisp.tokenizer.strip_accents", "the value of lowercase"}};
    enum { SETTINGS = sizeof settings / sizeof *settings };
    (void)state;
    for (size_t n = 0; n <= SETTINGS; n++) { /* the first n are left out */
        struct gguf made;
        wisp_assumption found;
        wisp_model *model;
        wisp_error error;
        gguf_make(&made, &tiny_shape);
        for (size_t i = 0; i < SETTINGS; i++) {
            if (strncmp(settings[i].key, "wisp.tokenizer.", 15) == 0)
                gguf_set_bool(&made, settings[i].key, true);
            if (i < n)
                gguf_drop_key(&made, settings[i].key);
        }
        const char *path = write_made(&made, "assumed.gguf");
        wisp_file *file = open_or_fail(path);
        assert_int_equal(wisp_model_open(path, NULL, &model, &error), WISP_OK);
        for (size_t i = 0; i < n; i++) {
            const bool shared = strncmp(settings[i].key, "wisp.tokenizer.", 15) == 0;
            const char *key = strrchr(settings[i].key, '.');
            assert_true(wisp_file_get_assumption(file, i, &found));
            assert_string_equal(strrchr(found.key, '.'), key);
            assert_int_equal(strncmp(found.key, "tokenizer.ggml.", 15) == 0, shared);
            assert_string_equal(found.value, settings[i].value);
            assert_true(wisp_model_get_assumption(model, i, &found));
            assert_string_equal(strrchr(found.key, '.'), key);
        }
        assert_false(wisp_file_get_assumption(file, n, &found));
        assert_false(wisp_model_get_assumption(model, n, &found));
        wisp_model_close(model);
        wisp_file_close(file);
    }
}

static uint64_t count_values(const wisp_tensor *tensor) {
    uint64_t n = 1;
    for (uint32_t i = 0; i < tensor->dimensions; i++)
        n *= tensor->shape[i];
    return n;
}

/* Counts as the comment of wisp_histogram says. */
static void check_histogram(const wisp_file *file, size_t index, const float *values, size_t n) {
    wisp_histogram h;
    wisp_error error;
    uint64_t bins[WISP_HISTOGRAM_BINS] = {0}, zeros = 0;
    double sum = 0, squares = 0, least = INFINITY, most = -INFINITY;
    assert_int_equal(wisp_file_get_histogram(file, index, &h, &error), WISP_OK);
    for (size_t i = 0; i < n; i++) {
        least = fmin(least, (double)values[i]);
        most = fmax(most, (double)values[i]);
        sum += (double)values[i];
        zeros += values[i] == 0;
    }
    const double largest = fmax(-least, most), width = 2 * largest / (double)WISP_HISTOGRAM_BINS;
    for (size_t i = 0; i < n; i++) {
        const double value = (double)values[i], away = value - sum / (double)n;
        const int bin = largest > 0 ? (int)floor((value + largest) / width) : 16;
        bins[bin < WISP_HISTOGRAM_BINS ? bin : WISP_HISTOGRAM_BINS - 1]++;
        squares += away * away;
    }
    uint64_t moved = 0; /* values at the edge between two bins may be in either */
    for (size_t i = 0; i < WISP_HISTOGRAM_BINS; i++)
        moved += h.bins[i] > bins[i] ? h.bins[i] - bins[i] : bins[i] - h.bins[i];
    assert_true(moved <= 2 + n / 50);
    assert_true(h.values == n && h.zeros == zeros && h.least == least && h.most == most);
    assert_true(h.largest == largest && fabs(h.mean - sum / (double)n) < 1e-9);
    assert_true(fabs(h.deviation - sqrt(squares / (double)n)) < 1e-6);
}

static void reads_tensors(void **state) {
    (void)state;
    for (uint32_t type = 0; type < 256; type++) {
        struct tiny_shape shape = tiny_shape_q8_0;
        if (!block_format_by_id(type) || !block_format_by_id(type)->quantise)
            continue;
        shape.hidden = shape.wide = 256;
        struct gguf made;
        wisp_tensor tensor;
        wisp_file_part part;
        wisp_error error;
        size_t n = 0;
        shape.type = type;
        gguf_make(&made, &shape);
        const size_t tensors = made.n_tensors;
        wisp_file *file = open_or_fail(write_made(&made, "tensors.gguf"));
        assert_true(wisp_file_get_part(file, 0, &part));
        assert_false(wisp_file_get_part(file, 1, &part));
        for (; wisp_file_get_tensor(file, n, &tensor); n++) {
            const struct block_format *format = block_format_by_name(tensor.type);
            const size_t values = (size_t)count_values(&tensor);
            float *wanted = malloc(values * sizeof *wanted), *read = malloc(values * sizeof *read);
            void *stored = malloc((size_t)tensor.bytes), *found = malloc((size_t)tensor.bytes);
            assert_true(format && wanted && read && stored && found);
            assert_int_equal(tensor.part, 0);
            assert_true(tensor.offset + tensor.bytes <= part.size);
            tiny_values(tensor.name, wanted, values);
            format->quantise(wanted, values, stored);
            assert_int_equal(
                wisp_file_read_part(file, 0, tensor.offset, found, (size_t)tensor.bytes, &error),
                WISP_OK);
            assert_memory_equal(found, stored, tensor.bytes);
            format->dequantise(stored, values, wanted);
            assert_int_equal(wisp_file_read_tensor(file, n, read, &error), WISP_OK);
            assert_memory_equal(read, wanted, values * sizeof *read);
            check_histogram(file, n, wanted, values);
            free(wanted);
            free(read);
            free(stored);
            free(found);
        }
        assert_int_equal(n, tensors);
        assert_int_equal(wisp_file_read_tensor(file, n, NULL, &error), WISP_ERROR_ARGUMENT);
        wisp_histogram histogram;
        assert_int_equal(wisp_file_get_histogram(file, n, &histogram, &error), WISP_ERROR_ARGUMENT);
        assert_int_equal(wisp_file_get_histogram(file, 0, NULL, &error), WISP_ERROR_ARGUMENT);
        wisp_file_close(file);
    }
}

/* The shape is in the order of rows, then values: [wide, hidden] for W_up. */
static void lists_what_is_stored(void **state) {
    struct gguf made;
    wisp_tensor tensor;
    wisp_error error;
    float values[1];
    bool plain = false;
    size_t rows = 0;
    (void)state;
    gguf_make(&made, &tiny_nomic_rows_q8_0);
    wisp_file *file = open_or_fail(write_made(&made, "rows.gguf"));
    for (size_t i = 0; wisp_file_get_tensor(file, i, &tensor); i++) {
        plain = plain || strcmp(tensor.name, "blk.0.ffn_up.weight") == 0;
        if (strcmp(tensor.name, "blk.1.ffn_neurons.hot") == 0) {
            assert_string_equal(tensor.type, "I8");
            assert_int_equal(tensor.dimensions, 2);
            assert_int_equal(tensor.shape[0], tiny_hot(&tiny_nomic_rows_q8_0));
            assert_int_equal(tensor.shape[0] * tensor.shape[1], tensor.bytes);
            assert_int_equal(wisp_file_read_tensor(file, i, values, &error),
                             WISP_ERROR_UNSUPPORTED);
            assert_string_equal(error.field, tensor.name);
            rows++;
        }
    }
    assert_false(plain);
    assert_int_equal(rows, 1);
    wisp_file_close(file);
}

static void lists_a_folder(void **state) {
    struct folder folder;
    wisp_file_part part;
    wisp_tensor tensor;
    uint32_t parts_seen = 0;
    (void)state;
    folder_make(&folder, &tiny_shape);
    folder_shard(&folder, &tiny_shape);
    folder_write(&folder, temporary_path("folder"));
    folder_release(&folder);
    wisp_file *file = open_or_fail(temporary_path("folder"));
    for (size_t i = 0; wisp_file_get_tensor(file, i, &tensor); i++) {
        assert_true(wisp_file_get_part(file, tensor.part, &part));
        assert_true(tensor.offset + tensor.bytes <= part.size);
        parts_seen |= 1u << tensor.part;
    }
    assert_int_equal(parts_seen, 3);
    assert_false(wisp_file_get_part(file, 2, &part));
    expect_metadata(file, "general.architecture", "string", false, 1, "bert");
    wisp_file_close(file);
    folder_remove(temporary_path("folder"));
}

/* ---- neurons -------------------------------------------------------------------------------- */

static void reads_frequencies(void **state) {
    static char input[256], output[256];
    size_t layers, neurons;
    wisp_error error;
    (void)state;
    strcpy(input, tiny_model("plain.gguf", "gelu"));
    strcpy(output, temporary_path("calibrated.gguf"));
    calibrate_or_fail(input, output, 1);
    wisp_file *file = open_or_fail(input);
    assert_int_equal(wisp_file_get_neurons(file, &layers, &neurons, &error), WISP_ERROR_NOT_FOUND);
    assert_non_null(strstr(error.message, "not calibrated"));
    wisp_file_close(file);
    file = open_or_fail(output);
    assert_int_equal(wisp_file_get_neurons(file, &layers, &neurons, &error), WISP_OK);
    assert_int_equal(layers, tiny_shape_of("gelu")->layers);
    assert_int_equal(neurons, tiny_shape_of("gelu")->wide);
    float *values = malloc(neurons * sizeof *values);
    assert_non_null(values);
    for (size_t l = 0; l < layers; l++) {
        double sum = 0;
        assert_int_equal(wisp_file_read_frequencies(file, l, values, &error), WISP_OK);
        for (size_t i = 0; i < neurons; i++) {
            assert_true(values[i] >= 0 && values[i] <= 1);
            sum += (double)values[i] / (double)neurons;
        }
        assert_true(sum > 0.1 && sum < 0.3); /* a fifth is needed, by definition */
        assert_true(values[0] > values[neurons - 1]);
    }
    assert_int_equal(wisp_file_read_frequencies(file, layers, values, &error), WISP_ERROR_ARGUMENT);
    assert_string_equal(error.field, "layer");
    free(values);
    wisp_file_close(file);
}

static void expect_neurons(struct gguf *made, wisp_status status, const char *field) {
    size_t layers, neurons;
    float values[256];
    wisp_error error;
    wisp_file *file = open_or_fail(write_made(made, "neurons.gguf"));
    wisp_status found = wisp_file_get_neurons(file, &layers, &neurons, &error);
    for (size_t l = 0; found == WISP_OK && l < layers; l++)
        found = wisp_file_read_frequencies(file, l, values, &error);
    assert_int_equal(found, status);
    if (status != WISP_OK)
        assert_string_equal(error.field, field);
    wisp_file_close(file);
}

/* Makes a model that has the keys of a calibrated one, with frequencies for each layer. */
static void make_frequencies(struct gguf *made) {
    static const float shares[] = {0.5f, 1};
    const struct tiny_shape *shape = &tiny_rows;
    struct bytes value = {0};
    bytes_put_u32(&value, VALUE_F32);
    bytes_put_u64(&value, 2);
    bytes_put_f32s(&value, shares, 2);
    gguf_make(made, shape);
    gguf_set(made, "wisp.sparse.shares", VALUE_ARRAY, value.data, value.size);
    bytes_release(&value);
    for (uint32_t l = 0; l < shape->layers; l++) {
        char name[64];
        snprintf(name, sizeof name, "blk.%u.ffn_frequency", l);
        tiny_add_tensor(made, name, shape->wide, 1, BLOCK_F32);
    }
    gguf_settle(made);
}

static void malformed_neurons_are_errors(void **state) {
    struct gguf made;
    (void)state;
    make_frequencies(&made);
    expect_neurons(&made, WISP_OK, NULL);
    make_frequencies(&made);
    gguf_drop_key(&made, "wisp.sparse.shares");
    expect_neurons(&made, WISP_ERROR_NOT_FOUND, "");
    make_frequencies(&made);
    gguf_drop_tensor(&made, "blk.0.ffn_frequency");
    expect_neurons(&made, WISP_ERROR_NOT_FOUND, "blk.0.ffn_frequency");
    make_frequencies(&made);
    gguf_drop_tensor(&made, "blk.1.ffn_frequency");
    expect_neurons(&made, WISP_ERROR_NOT_FOUND, "blk.1.ffn_frequency");
    gguf_make(&made, &tiny_shape);
    gguf_set_u32(&made, "wisp.sparse.shares", 1);
    tiny_add_tensor(&made, "blk.0.ffn_frequency", 7, 1, BLOCK_F32);
    gguf_settle(&made);
    expect_neurons(&made, WISP_ERROR_FORMAT, "wisp.sparse.order");
    gguf_make(&made, &tiny_shape);
    gguf_set_u32(&made, "wisp.sparse.shares", 1);
    gguf_set_u32(&made, "wisp.sparse.order", 1);
    tiny_add_tensor(&made, "blk.0.ffn_frequency", 7, 1, BLOCK_F32);
    gguf_settle(&made);
    expect_neurons(&made, WISP_ERROR_FORMAT, "wisp.sparse.order");
}

/* ---- malformed files ------------------------------------------------------------------------ */

static void truncated_files_are_errors(void **state) {
    struct gguf made;
    struct bytes bytes = {0};
    (void)state;
    gguf_make(&made, &tiny_rows);
    gguf_write_bytes(&made, &bytes);
    gguf_release(&made);
    for (size_t size = 0; size < bytes.size; size += size < 4096 ? 1 : 97) {
        wisp_error error;
        wisp_file *file = (wisp_file *)state;
        write_file("cut.gguf", bytes.data, size);
        assert_int_equal(wisp_file_open(temporary_path("cut.gguf"), &file, &error),
                         WISP_ERROR_FORMAT);
        assert_null(file);
        assert_non_null(strstr(error.message, "cut.gguf"));
    }
    bytes_release(&bytes);
}

static void other_faults_are_errors(void **state) {
    struct gguf made;
    wisp_error error;
    wisp_file *file;
    wisp_tensor tensor;
    float values[4096];
    size_t i = 0;
    (void)state;
    assert_int_equal(wisp_file_open(temporary_path("absent.gguf"), &file, &error),
                     WISP_ERROR_NOT_FOUND);
    assert_int_equal(wisp_file_open(temporary_path("absent.gguf"), &file, NULL),
                     WISP_ERROR_NOT_FOUND);
    wisp_file_close(NULL);
    gguf_make(&made, &tiny_shape);
    gguf_repeat_tensor(&made, "token_embd.weight");
    assert_int_equal(wisp_file_open(write_made(&made, "twice.gguf"), &file, &error),
                     WISP_ERROR_FORMAT);
    gguf_make(&made, &tiny_shape);
    memset(gguf_tensor(&made, "token_embd.weight")->data.data, 0xff, 4); /* a NaN */
    file = open_or_fail(write_made(&made, "nan.gguf"));
    while (wisp_file_get_tensor(file, i, &tensor) && strcmp(tensor.name, "token_embd.weight") != 0)
        i++;
    assert_true(count_values(&tensor) <= sizeof values / sizeof *values);
    assert_int_equal(wisp_file_read_tensor(file, i, values, &error), WISP_ERROR_FORMAT);
    assert_string_equal(error.field, "token_embd.weight");
    wisp_file_close(file);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(lists_metadata),
                                       cmocka_unit_test(lists_assumptions),
                                       cmocka_unit_test(reads_tensors),
                                       cmocka_unit_test(lists_what_is_stored),
                                       cmocka_unit_test(lists_a_folder),
                                       cmocka_unit_test(reads_frequencies),
                                       cmocka_unit_test(malformed_neurons_are_errors),
                                       cmocka_unit_test(truncated_files_are_errors),
                                       cmocka_unit_test(other_faults_are_errors)};
    return cmocka_run_group_tests(tests, NULL, tear_down_temporary_folder);
}

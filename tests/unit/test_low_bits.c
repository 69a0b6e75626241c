/* SPDX-License-Identifier: Apache-2.0
 * Types of one and two bits that wisp reads and does not write: BitNet's I2_S, and Q1_0, Q2_0 and
 * PQ2_0 of the Bonsai models. Files are made by encoders that follow the descriptions of the types.
 * Models have the bits of models whose weights are the same numbers as floats. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "formats/schema.h"
#include "kernels/kernels.h"
#include "quant/blocks.h"
#include "support/golden.h"
#include "support/opening.h"
#include "support/rng.h"
#include "support/sparse_models.h"

#undef fail /* base/status.h has another */
#include <cmocka.h>

static wisp_error error;
static struct rng rng;

static const struct tiny_shape shape = {
    .hidden = 128, .wide = 256, .layers = 1, .heads = 4, .positions = 16, .type = BLOCK_F32};

static const enum block_type types[] = {BLOCK_I2_S, BLOCK_Q1_0, BLOCK_Q2_0, BLOCK_PQ2_0};
enum { TYPES = sizeof types / sizeof *types };

static const char down[] = "blk.0.ffn_down.weight";

/* Adds a tensor of n random weights, and sets their values. */
static void encode_i2_s(size_t n, struct bytes *bytes, float *values) {
    const float scale = 0.0625f + (float)rng_below(&rng, 100) / 1000;
    unsigned char *codes = calloc(n / 4, 1);
    assert_non_null(codes);
    for (size_t i = 0; i < n; i++) {
        const int ternary = (int)rng_below(&rng, 3) - 1;
        codes[i / 128 * 32 + i % 32] |= (unsigned char)((ternary + 1) << (6 - i % 128 / 32 * 2));
        values[i] = (float)ternary * scale;
    }
    bytes_put(bytes, codes, n / 4);
    bytes_put_f32s(bytes, &scale, 1);
    for (size_t i = 0; i < 28; i++) { /* nobody reads these */
        const unsigned char byte = (unsigned char)rng_below(&rng, 256);
        bytes_put(bytes, &byte, 1);
    }
    free(codes);
}

/* Adds blocks of a half and of codes of so many bits. */
static void encode_low_bits(size_t n, size_t bits, size_t elements, struct bytes *bytes,
                            float *values) {
    unsigned char block[2 + 128 / 4];
    for (size_t start = 0; start < n; start += elements) {
        const uint16_t half = half_of_float(0.0625f + (float)rng_below(&rng, 100) / 1000);
        memset(block, 0, sizeof block);
        block[0] = (unsigned char)(half & 255);
        block[1] = (unsigned char)(half >> 8);
        for (size_t i = 0; i < elements; i++) {
            const unsigned code = (unsigned)rng_below(&rng, 1u << bits);
            block[2 + i * bits / 8] |= (unsigned char)(code << i * bits % 8);
            values[start + i] =
                (bits == 1 ? 2 * (float)code - 1 : (float)code - 1) * float_of_half(half);
        }
        bytes_put(bytes, block, 2 + elements * bits / 8);
    }
}

static bool is_low(const void *name) {
    return memcmp(name, "blk.", 4) == 0 || memcmp(name, "token_embd.", 11) == 0;
}

/* Makes two files of a tiny model: with layers and token embeddings of this type, and with the same
 * numbers as floats. */
static void make_twins(enum block_type type, struct gguf *low, struct gguf *floats) {
    gguf_make(low, &shape);
    gguf_make(floats, &shape);
    gguf_set_text(low, KEY_HIDDEN_ACT, "relu"); /* so that layers can be sparse */
    gguf_set_text(floats, KEY_HIDDEN_ACT, "relu");
    for (size_t t = 0; t < low->n_tensors; t++) {
        struct gguf_tensor *tensor = &low->tensors[t];
        const size_t n = tensor->data.size / sizeof(float);
        if (tensor->n_dims < 2 || !is_low(tensor->name.data))
            continue;
        float *values = malloc(n * sizeof *values);
        assert_non_null(values);
        bytes_release(&tensor->data);
        tensor->data = (struct bytes){0};
        tensor->type = type;
        if (type == BLOCK_I2_S)
            encode_i2_s(n, &tensor->data, values);
        else
            encode_low_bits(n, type == BLOCK_Q1_0 ? 1 : 2, type == BLOCK_Q2_0 ? 64 : 128,
                            &tensor->data, values);
        for (size_t i = 0; i < n; i++)
            bytes_set_f32(&floats->tensors[t].data, 4 * i, values[i]);
        free(values);
    }
    gguf_settle(low);
}

static void embed(const char *path, wisp_compute compute, float row[128]) {
    const wisp_text text = wisp_text_of("the cat");
    wisp_model *model = open_model_or_fail(path, compute, NULL);
    wisp_session *session = open_session_or_fail(model, 1);
    assert_int_equal(wisp_model_dimensions(model), 128);
    if (wisp_embed(session, &text, 1, NULL, row, &error) != WISP_OK)
        fail_msg("%s", error.message);
    wisp_session_close(session);
    wisp_model_close(model);
}

/* Embeds with sparse layers, from the bytes of a file in memory. */
static void embed_bytes(const char *path, bool in_memory, float row[128]) {
    size_t size;
    void *bytes = read_file(path, &size);
    const wisp_source source = {.size = size, .data = bytes, .name = "low"};
    const wisp_model_options options = {
        .compute = WISP_COMPUTE_INT8, .predictor = WISP_PREDICTOR_EXACT, .in_memory = in_memory};
    const wisp_text text = wisp_text_of("the cat");
    wisp_model *model;
    if (wisp_model_open_source(&source, &options, &model, &error) != WISP_OK)
        fail_msg("%s", error.message);
    wisp_session *session = open_session_or_fail(model, 1);
    assert_int_equal(wisp_embed(session, &text, 1, NULL, row, &error), WISP_OK);
    wisp_session_close(session);
    wisp_model_close(model);
    free(bytes);
}

/* Compares the tensors of two files: types and sizes of the first, values of both. */
static void compare_tensors(const char *low, const char *floats, enum block_type type) {
    wisp_file *files[2];
    wisp_tensor tensor;
    assert_int_equal(wisp_file_open(low, &files[0], &error), WISP_OK);
    assert_int_equal(wisp_file_open(floats, &files[1], &error), WISP_OK);
    for (size_t i = 0; wisp_file_get_tensor(files[0], i, &tensor); i++) {
        const size_t n = (size_t)(tensor.shape[0] * (tensor.dimensions > 1 ? tensor.shape[1] : 1));
        float *values = malloc(2 * n * sizeof *values);
        assert_non_null(values);
        if (tensor.dimensions > 1 && is_low(tensor.name)) {
            const struct block_format *format = block_format_by_id(type);
            assert_string_equal(tensor.type, format->name);
            assert_int_equal(tensor.bytes,
                             n / format->elements * format->bytes + (type == BLOCK_I2_S ? 32 : 0));
        }
        for (size_t f = 0; f < 2; f++)
            assert_int_equal(wisp_file_read_tensor(files[f], i, values + f * n, &error), WISP_OK);
        assert_memory_equal(values, values + n, n * sizeof *values);
        free(values);
    }
    wisp_file_close(files[0]);
    wisp_file_close(files[1]);
}

/* Expects the row of a model and of its twin of floats to be the same. If dense layers compute
 * in int8, the weights of these types stay as they are, and those of the twin are rounded to int8.
 * Then rows differ by roundings, more so if the kernels have narrow products. */
static void expect_row(const float got[128], const float want[128], enum block_type type,
                       wisp_compute compute) {
    if (compute != WISP_COMPUTE_INT8)
        assert_memory_equal(got, want, 128 * sizeof *got);
    else if (!(wisp_dot(got, want, 128) > (kernels_at(0)->gemm_int8 ? 0.9999f : 0.999f)))
        fail_msg("%s: cosine %.6f to int8", block_format_by_id(type)->name,
                 (double)wisp_dot(got, want, 128));
}

static void models_have_the_bits_of_floats(void **state) {
    (void)state;
    static const wisp_compute modes[] = {WISP_COMPUTE_F32, WISP_COMPUTE_INT8};
    for (size_t t = 0; t < TYPES; t++) {
        struct gguf files[2];
        char paths[2][256];
        make_twins(types[t], &files[0], &files[1]);
        for (size_t f = 0; f < 2; f++)
            snprintf(paths[f], sizeof paths[f], "%s",
                     write_made(&files[f], f ? "floats.gguf" : "low.gguf"));
        compare_tensors(paths[0], paths[1], types[t]);
        for (size_t mode = 0; mode < 2; mode++) {
            float got[128], want[128];
            embed(paths[0], modes[mode], got);
            embed(paths[1], modes[mode], want);
            expect_row(got, want, types[t], modes[mode]);
        }
        float got[128], want[128]; /* auto is int8, as of all quantised files */
        embed(paths[0], WISP_COMPUTE_AUTO, got);
        embed(paths[1], WISP_COMPUTE_INT8, want);
        expect_row(got, want, types[t], WISP_COMPUTE_INT8);
        for (int in_memory = 0; in_memory < 2; in_memory++) {
            embed_bytes(paths[0], in_memory, got);
            embed_bytes(paths[1], in_memory, want);
            expect_row(got, want, types[t], WISP_COMPUTE_INT8);
        }
        const struct opening opening = open_path(paths[0], 1 << 24);
        expect_outcome(&opening, WISP_OK, NULL, NULL);
    }
}

/* Other programs read I2_S through wisp: as floats that `wisp convert` wrote. */
static void i2_s_becomes_other_types(void **state) {
    (void)state;
    struct gguf files[2];
    char low[256], floats[256], output[256];
    make_twins(BLOCK_I2_S, &files[0], &files[1]);
    snprintf(low, sizeof low, "%s", write_made(&files[0], "low.gguf"));
    snprintf(floats, sizeof floats, "%s", write_made(&files[1], "floats.gguf"));
    snprintf(output, sizeof output, "%s", temporary_path("converted.gguf"));
    if (wisp_convert(low, output, NULL, &error) != WISP_OK)
        fail_msg("%s", error.message);
    compare_tensors(output, floats, BLOCK_F32);
    if (wisp_quantize(low, output, "q8_0", NULL, &error) != WISP_OK)
        fail_msg("%s", error.message);
    assert_int_equal(wisp_quantize(low, output, "i2_s", NULL, &error), WISP_ERROR_ARGUMENT);
}

/* ---- files that are wrong -------------------------------------------------------------------- */

static struct gguf_tensor *make_i2_s(struct gguf *file) {
    struct gguf floats;
    make_twins(BLOCK_I2_S, file, &floats);
    gguf_release(&floats);
    return gguf_tensor(file, down);
}

/* Opens the file and releases it. */
static void expect(struct gguf *file, wisp_status status, const char *says) {
    struct bytes out = {0};
    gguf_write_bytes(file, &out);
    expect_opening(&out, status, down, says);
    bytes_release(&out);
    gguf_release(file);
}

static void i2_s_that_is_wrong(void **state) {
    (void)state;
    static const uint32_t not_finite[] = {0x7f800000, 0xff800000, 0x7fc00000};
    struct gguf file;
    char says[64];
    const size_t n = shape.hidden * shape.wide;
    for (size_t at = 0; at < n; at += 997) {
        struct gguf_tensor *tensor = make_i2_s(&file);
        tensor->data.data[at / 128 * 32 + at % 32] |= (unsigned char)(0xc0 >> at % 128 / 32 * 2);
        snprintf(says, sizeof says, "element %zu has the reserved code 11", at);
        expect(&file, WISP_ERROR_FORMAT, says);
    }
    for (size_t i = 0; i < 3; i++) {
        struct gguf_tensor *tensor = make_i2_s(&file);
        bytes_set_u32(&tensor->data, n / 4, not_finite[i]);
        expect(&file, WISP_ERROR_FORMAT, "its scale is not finite");
    }
    make_i2_s(&file)->data.size -= 32; /* its end is missing: another tensor begins too early */
    gguf_settle(&file);
    struct bytes out = {0};
    gguf_write_bytes(&file, &out);
    expect_opening(&out, WISP_ERROR_FORMAT, NULL, "offset");
    bytes_release(&out);
    gguf_release(&file);
    make_i2_s(&file)->dims[1] += 1 << 20;
    expect(&file, WISP_ERROR_FORMAT, "past the end of the file");
    struct gguf_tensor *tensor = make_i2_s(&file);
    tensor->dims[0] /= 4;
    tensor->dims[1] *= 4;
    expect(&file, WISP_ERROR_FORMAT, "not a multiple of the I2_S block of 128");
    tensor = make_i2_s(&file);
    tensor->dims[1] = (uint64_t)1 << 60;
    expect(&file, WISP_ERROR_FORMAT, "overflow");
}

/* A file that ends anywhere within its tensors. */
static void files_that_end_early(void **state) {
    (void)state;
    for (size_t t = 0; t < TYPES; t++) {
        struct gguf files[2];
        struct bytes out = {0};
        make_twins(types[t], &files[0], &files[1]);
        gguf_write_bytes(&files[0], &out);
        for (size_t lost = 1; lost < 4000; lost += 211) {
            struct bytes some = out;
            some.size -= lost;
            expect_opening(&some, WISP_ERROR_FORMAT, NULL, "end");
        }
        bytes_release(&out);
        gguf_release(&files[0]);
        gguf_release(&files[1]);
    }
}

int main(void) {
    rng.state = rng_seed();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(models_have_the_bits_of_floats),
        cmocka_unit_test(i2_s_becomes_other_types),
        cmocka_unit_test(i2_s_that_is_wrong),
        cmocka_unit_test(files_that_end_early),
    };
    return cmocka_run_group_tests_name("low bits", tests, NULL, tear_down_temporary_folder);
}

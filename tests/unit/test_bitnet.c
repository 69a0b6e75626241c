/* SPDX-License-Identifier: Apache-2.0
 * BITNET_T158: the blocks against a quantiser that follows PT-BitNet's document step by step, files
 * that have it, and every row of the document's table of errors. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/byte_order.h"
#include "base/half.h"
#include "kernels/kernels.h"
#include "quant/blocks.h"
#include "quant/t158.h"
#include "support/golden.h"
#include "support/opening.h"
#include "support/rng.h"
#include "support/sparse_models.h"

#undef fail /* base/status.h has another */
#include <cmocka.h>

static wisp_error error;
static struct rng rng;

/* Rows that are whole blocks; that end within blocks; and tensors shorter than a block. */
static const struct tiny_shape shape_256 = {
    .hidden = 256, .wide = 512, .layers = 1, .heads = 4, .positions = 32, .type = BLOCK_F32};
static const struct tiny_shape shape_96 = {
    .hidden = 96, .wide = 160, .layers = 2, .heads = 4, .positions = 32, .type = BLOCK_F32};
static const struct tiny_shape shape_12 = {
    .hidden = 12, .wide = 20, .layers = 1, .heads = 2, .positions = 32, .type = BLOCK_F32};

static const char up[] = "blk.0.ffn_up.weight", down[] = "blk.0.ffn_down.weight";

/* ---- the document --------------------------------------------------------------------------- */

/* Returns how many values before `at` or equal and earlier are smaller in magnitude. */
static int rank_of(const float *values, int n, int at) {
    int rank = 0;
    for (int i = 0; i < n; i++)
        rank += fabsf(values[i]) < fabsf(values[at]) ||
                (fabsf(values[i]) == fabsf(values[at]) && i < at);
    return rank;
}

/* Quantises up to 256 values, the rest of whose block is zeros: gamma is the mean magnitude and
 * epsilon; weights over gamma are clamped, rounded with halves away from zero, and -1, 0 or 1. */
static void reference_block(const struct t158_options *o, const float *values, int n,
                            unsigned char block[T158_BYTES]) {
    float gamma = 0;
    for (int i = 0; i < n; i++)
        gamma += fabsf(values[i]);
    gamma = gamma / 256 + o->epsilon;
    memset(block, 0, T158_BYTES);
    for (int i = 0; i < 256; i++) {
        const double w = i < n ? (double)(values[i] / gamma) : 0, clip = (double)o->clip_threshold;
        const double cut = w > clip ? clip : w < -clip ? -clip : w;
        int ternary = cut >= 0.5 ? 1 : cut <= -0.5 ? -1 : 0;
        if (i < n && rank_of(values, n, i) < ceil((double)o->target_sparsity * n))
            ternary = 0;
        const unsigned code = ternary < 0 ? 0 : ternary == 0 ? 1 : 2;
        block[i / 4] = (unsigned char)(block[i / 4] | code << 2 * (i % 4));
    }
    const uint16_t half = half_of_float(gamma);
    block[64] = (unsigned char)half;
    block[65] = (unsigned char)(half >> 8);
}

static void reference(const struct t158_options *o, const float *values, size_t n,
                      unsigned char *blocks) {
    for (size_t i = 0; i < n; i += 256, blocks += T158_BYTES)
        reference_block(o, values + i, n - i < 256 ? (int)(n - i) : 256, blocks);
}

static void blocks_as_the_document_says(void **state) {
    (void)state;
    for (int round = 0; round < 400; round++) {
        float values[700];
        unsigned char want[3 * T158_BYTES], got[3 * T158_BYTES];
        struct t158_options o = t158_defaults;
        struct t158_stats stats = {0};
        const size_t n = 1 + rng_below(&rng, 700);
        const float scale = exp2f(rng_between(&rng, -12, 8));
        for (size_t i = 0; i < n; i++)
            values[i] = scale * rng_between(&rng, -1, 1);
        if (round % 3 == 1) /* halves of the scale and equal magnitudes */
            for (size_t i = 0; i < n; i++)
                values[i] = scale * ((float)rng_below(&rng, 9) - 4) / 4;
        if (round % 2)
            o = (struct t158_options){.epsilon = exp2f(rng_between(&rng, -20, 0)),
                                      .clip_threshold = rng_between(&rng, 0.3f, 2),
                                      .target_sparsity = rng_between(&rng, 0, 1)};
        t158_quantise(&o, values, n, got, &stats);
        reference(&o, values, n, want);
        assert_memory_equal(got, want, (n + 255) / 256 * T158_BYTES);
        assert_true(stats.weights == n && stats.blocks == (n + 255) / 256 && stats.clamped == 0);

        float back[700];
        size_t zeros = 0;
        block_format_by_name("bitnet_t158")->dequantise(got, n, back);
        for (size_t i = 0; i < n; i++) {
            const unsigned char *block = got + i / 256 * T158_BYTES;
            const int code = block[i % 256 / 4] >> 2 * (i % 4) & 3;
            const float s = float_of_half((uint16_t)(block[64] | block[65] << 8));
            assert_true(back[i] == (float)(code - 1) * s);
            zeros += code == 1;
        }
        assert_int_equal(stats.zeros, zeros);
        if ((double)zeros < (double)o.target_sparsity * (double)n)
            fail_msg("%zu zeros of %zu, but %g are wanted", zeros, n, (double)o.target_sparsity);
    }
}

/* The examples of the document; its packing has the first weight in the low bits. */
static void examples(void **state) {
    (void)state;
    static const float start[] = {1, -1, 0, 1};
    static const struct t158_options away = {.epsilon = 1e-8f, .clip_threshold = 2};
    float values[256] = {0};
    unsigned char block[T158_BYTES];
    struct t158_stats stats = {0};
    t158_quantise(&t158_defaults, values, 256, block, &stats);
    for (int i = 0; i < 64; i++)
        assert_int_equal(block[i], 0x55);
    assert_true(stats.zeros == 256 && block[64] == 0 && block[65] == 0);

    memcpy(values, start, sizeof start);
    t158_quantise(&t158_defaults, values, 256, block, NULL);
    assert_int_equal(block[0], 2 | 0 << 2 | 1 << 4 | 2 << 6);

    /* Half of the scale rounds away from zero, and 2 is 1: the mean of these magnitudes is 1. */
    for (int i = 0; i < 256; i++)
        values[i] = (i % 2 ? -1 : 1) * (i % 4 < 2 ? 0.5f : 1.5f);
    t158_quantise(&away, values, 256, block, NULL);
    for (int i = 0; i < 64; i++)
        assert_int_equal(block[i], 2 | 0 << 2 | 2 << 4 | 0 << 6);
    assert_int_equal(block[65], 0x3c); /* 1 as a half */
}

/* ---- files ---------------------------------------------------------------------------------- */

static bool is_ternary(const wisp_tensor *tensor) {
    return tensor->dimensions > 1 && strncmp(tensor->name, "blk.", 4) == 0;
}

/* Quantises a tiny model to `output`, and compares each of its tensors with the reference. */
static void check_file(const struct tiny_shape *shape, const char *output) {
    char input[256];
    wisp_file *file;
    wisp_tensor tensor;
    snprintf(input, sizeof input, "%s", write_tiny(shape, "floats.gguf"));
    if (wisp_quantize(input, output, "bitnet_t158", NULL, &error) != WISP_OK)
        fail_msg("%s", error.message);
    assert_int_equal(wisp_file_open(output, &file, &error), WISP_OK);
    for (size_t i = 0; wisp_file_get_tensor(file, i, &tensor); i++) {
        const size_t n = (size_t)(tensor.shape[0] * (tensor.dimensions > 1 ? tensor.shape[1] : 1));
        const size_t bytes = is_ternary(&tensor) ? (n + 255) / 256 * T158_BYTES : 4 * n;
        float *values = malloc(n * sizeof *values), *back = malloc(n * sizeof *back);
        unsigned char *want = malloc(bytes), *found = malloc(bytes);
        assert_true(values && back && want && found);
        assert_string_equal(tensor.type, is_ternary(&tensor) ? "BITNET_T158" : "F32");
        assert_int_equal(tensor.bytes, bytes);
        tiny_values(tensor.name, values, n);
        assert_int_equal(wisp_file_read_part(file, 0, tensor.offset, found, bytes, &error),
                         WISP_OK);
        assert_int_equal(wisp_file_read_tensor(file, i, back, &error), WISP_OK);
        if (is_ternary(&tensor)) {
            reference(&t158_defaults, values, n, want);
            block_format_by_name("bitnet_t158")->dequantise(want, n, values);
        } else {
            memcpy(want, values, bytes);
            swap_file_numbers(want, n, sizeof *values);
        }
        assert_memory_equal(found, want, bytes);
        assert_memory_equal(back, values, n * sizeof *back);
        free(values);
        free(back);
        free(want);
        free(found);
    }
    wisp_file_close(file);
}

/* Embeds a text by a model of this file. */
static size_t embed(const char *path, wisp_compute compute, float row[256]) {
    const wisp_text text = wisp_text_of("the cat");
    wisp_model *model = open_model_or_fail(path, compute, NULL);
    wisp_session *session = open_session_or_fail(model, 1);
    const size_t n = wisp_model_dimensions(model);
    if (wisp_embed(session, &text, 1, NULL, row, &error) != WISP_OK)
        fail_msg("%s", error.message);
    wisp_session_close(session);
    wisp_model_close(model);
    return n;
}

/* Writes the tiny model with the ternary weights as floats. */
static const char *write_dequantised(const struct tiny_shape *shape, const char *name) {
    struct gguf file;
    gguf_make(&file, shape);
    for (size_t t = 0; t < file.n_tensors; t++) {
        struct gguf_tensor *tensor = &file.tensors[t];
        const char *tensor_name = (const char *)tensor->name.data;
        const size_t n = tensor->data.size / sizeof(float), blocks = (n + 255) / 256;
        if (tensor->n_dims < 2 || strncmp(tensor_name, "blk.", 4) != 0)
            continue;
        float *values = malloc(n * sizeof *values);
        unsigned char *bytes = malloc(blocks * T158_BYTES);
        assert_true(values && bytes);
        for (size_t i = 0; i < n; i++)
            values[i] = bytes_get_f32(&tensor->data, 4 * i);
        reference(&t158_defaults, values, n, bytes);
        block_format_by_name("bitnet_t158")->dequantise(bytes, n, values);
        for (size_t i = 0; i < n; i++)
            bytes_set_f32(&tensor->data, 4 * i, values[i]);
        free(values);
        free(bytes);
    }
    return write_made(&file, name);
}

/* Whole blocks stay ternary in int8 models, whose sums are then rounded otherwise than those of
 * int8 weights; and so are activations, if the kernels have narrow products. */
static void expect_row(const struct tiny_shape *shape, const float *got, const float *want,
                       size_t n, bool int8) {
    const bool rounded = int8 && shape == &shape_256;
    if (rounded && !kernels_at(0)->gemm_int8) {
        assert_true(cosine(got, want, n) > 0.999);
        return;
    }
    for (size_t i = 0; i < n; i++)
        if (rounded ? fabsf(got[i] - want[i]) > 2e-6f : got[i] != want[i])
            fail_msg("value %zu is %.9g, not %.9g", i, (double)got[i], (double)want[i]);
}

/* Embeddings are those of a model whose weights are the same numbers as floats, in every mode. */
static void models_of_ternary_weights(void **state) {
    (void)state;
    static const struct tiny_shape *const shapes[] = {&shape_256, &shape_96, &shape_12};
    for (size_t i = 0; i < 3; i++) {
        char output[256], floats[256];
        snprintf(output, sizeof output, "%s", temporary_path("ternary.gguf"));
        check_file(shapes[i], output);
        snprintf(floats, sizeof floats, "%s", write_dequantised(shapes[i], "values.gguf"));
        for (int mode = 0; mode < 2; mode++) {
            float got[256], want[256];
            const wisp_compute compute = mode ? WISP_COMPUTE_INT8 : WISP_COMPUTE_F32;
            const size_t n = embed(output, compute, got);
            assert_int_equal(embed(floats, compute, want), n);
            expect_row(shapes[i], got, want, n, mode);
        }
        float got[256], want[256]; /* auto is int8, as of all quantised files */
        const size_t n = embed(output, WISP_COMPUTE_AUTO, got);
        embed(floats, WISP_COMPUTE_INT8, want);
        expect_row(shapes[i], got, want, n, true);
        const struct opening opening = open_path(output, 1 << 24);
        expect_outcome(&opening, WISP_OK, NULL, NULL);
        if (shapes[i] == &shape_12)
            expect_memory_errors(output);
    }
}

static void take_type(void *context, const wisp_quantized_tensor *tensor) {
    if (strcmp(tensor->name, up) == 0)
        snprintf(context, 32, "%s%s", tensor->type, tensor->fallback ? ", fallback" : "");
}

/* As a fallback the type takes rows of any length. */
static void fallback(void **state) {
    (void)state;
    char type[32] = "";
    const wisp_quantize_options o = {
        .fallback = "bitnet_t158", .tensor = take_type, .context = type};
    const char *input = write_tiny(&shape_96, "floats.gguf");
    if (wisp_quantize(input, temporary_path("out.gguf"), "q4_k", &o, &error) != WISP_OK)
        fail_msg("%s", error.message);
    assert_string_equal(type, "BITNET_T158, fallback");
}

/* Rows that are made of blocks are not cold neurons, which a model may be opened without. */
static void sparse_models(void **state) {
    (void)state;
    static const struct predicting predicting = {
        .shape = &shape_96, .activation = "relu", .rank = 4, .type = BLOCK_F32};
    static const wisp_model_options hot = {.hot_only = true};
    char output[256];
    wisp_model *model;
    snprintf(output, sizeof output, "%s", temporary_path("sparse-ternary.gguf"));
    const char *input = predicting_model("sparse.gguf", &predicting);
    if (wisp_quantize(input, output, "bitnet_t158", NULL, &error) != WISP_OK ||
        wisp_model_open(output, &hot, &model, &error) != WISP_OK)
        fail_msg("%s", error.message);
    wisp_model_close(model);
    const struct opening opening = open_path(output, 1 << 24);
    expect_outcome(&opening, WISP_OK, NULL, NULL);
}

/* Blocks that are whole rows are copied bit by bit, and so is a model that keeps its types. Other
 * types lose PT-BitNet's keys. */
static void copies(void **state) {
    (void)state;
    static const wisp_quantize_options kept = {.policy = "glm-4.7-flash"};
    char ternary[256], copy[256], floats[256];
    wisp_file *file;
    wisp_metadata entry;
    snprintf(ternary, sizeof ternary, "%s", temporary_path("ternary.gguf"));
    snprintf(copy, sizeof copy, "%s", temporary_path("copy.gguf"));
    check_file(&shape_256, ternary);
    assert_int_equal(wisp_convert(ternary, copy, NULL, &error), WISP_OK);
    expect_same_files(ternary, copy);
    assert_int_equal(wisp_quantize(ternary, copy, "bitnet_t158", &kept, &error), WISP_OK);
    expect_same_files(ternary, copy);

    for (int crossing = 0; crossing < 2; crossing++) {
        const wisp_convert_options as_floats = {.type = "f32"};
        const struct tiny_shape *shape = crossing ? &shape_96 : &shape_256;
        check_file(shape, ternary);
        snprintf(floats, sizeof floats, "%s", write_dequantised(shape, "values.gguf"));
        assert_int_equal(wisp_convert(ternary, copy, &as_floats, &error), WISP_OK);
        float got[256], want[256];
        const size_t n = embed(copy, WISP_COMPUTE_F32, got);
        embed(floats, WISP_COMPUTE_F32, want);
        assert_memory_equal(got, want, n * sizeof *got);
        assert_int_equal(wisp_file_open(copy, &file, &error), WISP_OK);
        for (size_t i = 0; wisp_file_get_metadata(file, i, &entry); i++)
            assert_null(strstr(entry.key, "bitnet"));
        wisp_file_close(file);
    }
}

/* Sets type 30 beside a BF16 tensor; without the key it is BF16. */
static void bf16_has_the_same_number(void **state) {
    (void)state;
    static const char both[] = "token_embd.weight bf16\n* type\n",
                      kept[] = "token_embd.weight keep\nblk.*.weight type\n* keep optional\n";
    char half[256], policy[256];
    char output[256];
    snprintf(output, sizeof output, "%s", temporary_path("out.gguf"));
    wisp_file *file;
    wisp_tensor tensor;
    snprintf(half, sizeof half, "%s", temporary_path("half.gguf"));
    assert_int_equal(
        wisp_quantize(write_tiny(&shape_256, "floats.gguf"), half, "bf16", NULL, &error), WISP_OK);
    assert_int_equal(wisp_file_open(half, &file, &error), WISP_OK);
    for (size_t i = 0; wisp_file_get_tensor(file, i, &tensor); i++)
        if (strcmp(tensor.name, up) == 0)
            assert_string_equal(tensor.type, "BF16");
    wisp_file_close(file);

    /* BF16 tensors that keep their type become F32, exactly. */
    write_file("kept.policy", kept, sizeof kept - 1);
    snprintf(policy, sizeof policy, "%s", temporary_path("kept.policy"));
    wisp_quantize_options o = {.policy = policy};
    if (wisp_quantize(half, output, "bitnet_t158", &o, &error) != WISP_OK)
        fail_msg("%s", error.message);
    assert_int_equal(wisp_file_open(output, &file, &error), WISP_OK);
    for (size_t i = 0; wisp_file_get_tensor(file, i, &tensor); i++)
        assert_string_equal(tensor.type, is_ternary(&tensor) ? "BITNET_T158" : "F32");
    wisp_file_close(file);
    remove(output);

    /* Naming BF16 beside the ternary type is an error. */
    write_file("named.policy", both, sizeof both - 1);
    snprintf(policy, sizeof policy, "%s", temporary_path("named.policy"));
    assert_int_equal(
        wisp_quantize(temporary_path("floats.gguf"), output, "bitnet_t158", &o, &error),
        WISP_ERROR_UNSUPPORTED);
    assert_string_equal(error.field, "token_embd.weight");
    assert_int_equal(access(output, F_OK), -1);
}

/* ---- the document's table of errors --------------------------------------------------------- */

/* Makes the file of a tiny model whose W_up and W_down are BITNET_T158. */
static void make_ternary(struct gguf *file, const struct tiny_shape *shape) {
    gguf_make(file, shape);
    for (size_t t = 0; t < 2; t++) {
        struct gguf_tensor *tensor = gguf_tensor(file, t ? up : down);
        const size_t n = tensor->data.size / sizeof(float), size = (n + 255) / 256 * T158_BYTES;
        unsigned char *blocks = malloc(size);
        float *values = malloc(n * sizeof *values);
        assert_true(blocks && values);
        tiny_values(t ? up : down, values, n);
        reference(&t158_defaults, values, n, blocks);
        bytes_release(&tensor->data);
        tensor->data = (struct bytes){0};
        bytes_put(&tensor->data, blocks, size);
        tensor->type = 30;
        free(blocks);
        free(values);
    }
    gguf_set_text(file, "craftsman.bitnet.version", "1");
    gguf_set_text(file, "craftsman.bitnet.block_size", "256");
    gguf_settle(file);
}

/* Opens the file and releases it. */
static void expect(struct gguf *file, wisp_status status, const char *field, const char *says) {
    struct bytes out = {0};
    gguf_write_bytes(file, &out);
    expect_opening(&out, status, field, says);
    bytes_release(&out);
    gguf_release(file);
}

static void made_files_open(void **state) {
    (void)state;
    struct gguf file;
    make_ternary(&file, &shape_256);
    expect(&file, WISP_OK, NULL, NULL);
    make_ternary(&file, &shape_96);
    expect(&file, WISP_OK, NULL, NULL);
    make_ternary(&file, &shape_12);
    expect(&file, WISP_OK, NULL, NULL);
}

static void the_reserved_code(void **state) {
    (void)state;
    struct gguf file;
    char says[64];
    static const struct tiny_shape *const shapes[] = {&shape_256, &shape_96, &shape_12};
    for (size_t i = 0; i < 3; i++) {
        make_ternary(&file, shapes[i]);
        const size_t n = shapes[i]->hidden * shapes[i]->wide;
        const size_t at = i == 0 ? 0 : i == 1 ? 777 : n - 1;
        unsigned char *byte =
            &gguf_tensor(&file, up)->data.data[at / 256 * T158_BYTES + at % 256 / 4];
        *byte = (unsigned char)(*byte | 3 << 2 * (at % 4));
        snprintf(says, sizeof says, "element %zu has the reserved code 11", at);
        expect(&file, WISP_ERROR_FORMAT, up, says);
    }
}

static void a_scale_that_is_not_finite(void **state) {
    (void)state;
    static const unsigned halves[] = {0x7c00, 0x7e00, 0xfc00};
    struct gguf file;
    for (int i = 0; i < 6; i++) {
        make_ternary(&file, i % 2 ? &shape_96 : &shape_256);
        unsigned char *scale = &gguf_tensor(&file, down)->data.data[3 * T158_BYTES - 2];
        scale[0] = (unsigned char)halves[i / 2];
        scale[1] = (unsigned char)(halves[i / 2] >> 8);
        expect(&file, WISP_ERROR_FORMAT, down, "element 512 has a scale that is not finite");
    }
}

/* When writing, a scale beyond the range of halves becomes epsilon, as the document says, and is
 * counted. */
static void a_scale_that_no_half_holds(void **state) {
    (void)state;
    static const float sizes[] = {65520, 1e30f, 3e38f};
    const struct t158_options o = {.epsilon = 0.25f, .clip_threshold = 1};
    for (size_t s = 0; s < 3; s++) {
        float values[300], back[300];
        unsigned char blocks[2 * T158_BYTES];
        struct t158_stats stats = {0};
        for (int i = 0; i < 300; i++)
            values[i] = i < 256 ? sizes[s] : 1;
        t158_quantise(&o, values, 300, blocks, &stats);
        assert_true(stats.clamped == 1 && stats.blocks == 2);
        assert_true(blocks[64] == 0 && blocks[65] == 0x34);
        block_format_by_name("bitnet_t158")->dequantise(blocks, 300, back);
        for (int i = 0; i < 300; i++)
            assert_true(isfinite(back[i]));
    }
}

static void wrong_keys(void **state) {
    (void)state;
    struct gguf file;
    make_ternary(&file, &shape_256);
    gguf_set_text(&file, "craftsman.bitnet.block_size", "128");
    expect(&file, WISP_ERROR_UNSUPPORTED, "craftsman.bitnet.block_size", "128");
    make_ternary(&file, &shape_256);
    gguf_set_text(&file, "craftsman.bitnet.version", "2");
    expect(&file, WISP_ERROR_UNSUPPORTED, "craftsman.bitnet.version", "2");
    make_ternary(&file, &shape_256);
    gguf_set_u32(&file, "craftsman.bitnet.version", 1);
    expect(&file, WISP_ERROR_FORMAT, "craftsman.bitnet.version", "string");
    make_ternary(&file, &shape_256);
    gguf_drop_key(&file, "craftsman.bitnet.block_size");
    expect(&file, WISP_OK, NULL, NULL);
    make_ternary(&file, &shape_256); /* BF16 rows are longer than what the file has */
    gguf_drop_key(&file, "craftsman.bitnet.version");
    expect(&file, WISP_ERROR_FORMAT, up, "past the end of the file");
    make_ternary(&file, &shape_256); /* wisp's own number of the type is not a number of a file */
    gguf_tensor(&file, up)->type = BLOCK_T158;
    expect(&file, WISP_ERROR_UNSUPPORTED, up, "65566");
}

static void shapes_and_bytes_that_disagree(void **state) {
    (void)state;
    struct gguf file;
    for (int i = 0; i < 2; i++) {
        make_ternary(&file, i ? &shape_96 : &shape_256);
        gguf_tensor(&file, up)->dims[1] += 1 << 16;
        expect(&file, WISP_ERROR_FORMAT, up, "past the end of the file");
        make_ternary(&file, i ? &shape_96 : &shape_256);
        gguf_tensor(&file, up)->dims[0] = (uint64_t)1 << 62;
        expect(&file, WISP_ERROR_FORMAT, up, "overflows");
        make_ternary(&file, i ? &shape_96 : &shape_256);
        gguf_tensor(&file, up)->dims[0] = 0; /* an empty tensor */
        expect(&file, WISP_ERROR_FORMAT, up, "dimension 0 is 0");
    }
}

static void weights_that_are_not_finite(void **state) {
    (void)state;
    static const float wrong[] = {NAN, INFINITY, -INFINITY};
    char output[256];
    snprintf(output, sizeof output, "%s", temporary_path("out.gguf"));
    for (size_t i = 0; i < 6; i++) {
        struct gguf file;
        gguf_make(&file, i % 2 ? &shape_96 : &shape_256);
        bytes_set_f32(&gguf_tensor(&file, up)->data, 4 * 777, wrong[i / 2]);
        const char *input = write_made(&file, "spoilt.gguf");
        assert_int_equal(wisp_quantize(input, output, "bitnet_t158", NULL, &error),
                         WISP_ERROR_FORMAT);
        assert_string_equal(error.field, up);
        assert_non_null(strstr(error.message, "element 777 is not finite"));
        assert_int_equal(access(output, F_OK), -1);
    }
}

static void ranges_of_options(void **state) {
    (void)state;
    static const wisp_ternary_options defaults = WISP_TERNARY_DEFAULTS;
    static const struct {
        uint32_t block_size;
        float epsilon, clip_threshold, target_sparsity;
        const char *wrong;
    } cases[] = {
        {0, 1, 1, 0, "block_size"},
        {254, 1, 1, 0, "block_size"},
        {128, 1, 1, 0, "block_size"},
        {256, 0, 1, 0, "epsilon"},
        {256, -1e-8f, 1, 0, "epsilon"},
        {256, NAN, 1, 0, "epsilon"},
        {256, INFINITY, 1, 0, "epsilon"},
        {256, 1, 0, 0, "clip_threshold"},
        {256, 1, 2.01f, 0, "clip_threshold"},
        {256, 1, NAN, 0, "clip_threshold"},
        {256, 1, 1, -0.1f, "target_sparsity"},
        {256, 1, 1, 1.1f, "target_sparsity"},
        {256, 1, 1, NAN, "target_sparsity"},
        {256, 1e-30f, 2, 1, NULL},
        {256, 1e-8f, 0.01f, 0, NULL},
    };
    char input[256];
    snprintf(input, sizeof input, "%s", write_tiny(&shape_256, "floats.gguf"));
    assert_true(defaults.block_size == 256 && defaults.epsilon == 1e-8f &&
                defaults.clip_threshold == 1 && defaults.target_sparsity == 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const wisp_ternary_options ternary = {cases[i].block_size, cases[i].epsilon,
                                              cases[i].clip_threshold, cases[i].target_sparsity};
        const wisp_quantize_options o = {.ternary = &ternary};
        const wisp_status status = wisp_quantize(input, NULL, "bitnet_t158", &o, &error);
        assert_int_equal(status, cases[i].wrong ? WISP_ERROR_ARGUMENT : WISP_OK);
        if (cases[i].wrong)
            assert_string_equal(error.field, cases[i].wrong);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_as_the_document_says),
        cmocka_unit_test(examples),
        cmocka_unit_test(models_of_ternary_weights),
        cmocka_unit_test(fallback),
        cmocka_unit_test(sparse_models),
        cmocka_unit_test(copies),
        cmocka_unit_test(bf16_has_the_same_number),
        cmocka_unit_test(made_files_open),
        cmocka_unit_test(the_reserved_code),
        cmocka_unit_test(a_scale_that_is_not_finite),
        cmocka_unit_test(a_scale_that_no_half_holds),
        cmocka_unit_test(wrong_keys),
        cmocka_unit_test(shapes_and_bytes_that_disagree),
        cmocka_unit_test(weights_that_are_not_finite),
        cmocka_unit_test(ranges_of_options),
    };
    rng.state = rng_seed();
    return cmocka_run_group_tests_name("bitnet", tests, NULL, tear_down_temporary_folder);
}

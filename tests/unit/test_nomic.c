/* SPDX-License-Identifier: Apache-2.0
 * Parts of nomic-bert that BERT does not have: rotary positions, gated layers, and its own settings
 * in GGUF files and in both spellings of config.json. test_models.c has goldens. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attention/rope.h"
#include "support/folder.h"
#include "support/golden.h"
#include "support/opening.h"

#undef fail /* base/status.h has another */
#include <cmocka.h>

#define FORMAT WISP_ERROR_FORMAT
#define UNSUPPORTED WISP_ERROR_UNSUPPORTED
#define NOT_FOUND WISP_ERROR_NOT_FOUND

/* ---- rotary positions ----------------------------------------------------------------------- */

enum { HEAD = 10, POSITIONS = 40, HEADS = 3, LD = HEAD * HEADS + 3 };

static void check_rotation(const struct rope *rope, size_t apart, size_t step) {
    static float table[POSITIONS * HEAD], x[POSITIONS * LD], before[POSITIONS * LD];
    for (size_t i = 0; i < POSITIONS * LD; i++)
        x[i] = before[i] = (float)(i * 37 % 101) / 50 - 1;
    fill_rope_table(rope, HEAD, POSITIONS, table);
    apply_rope(rope, table, POSITIONS, HEADS, HEAD, x, LD);
    for (size_t p = 0; p < POSITIONS; p++) {
        for (size_t h = 0; h < HEADS; h++)
            for (size_t i = 0; i < HEAD / 2; i++) {
                const size_t at = p * LD + h * HEAD + i * step;
                const double factor = rope->factors ? (double)rope->factors[i] : 1;
                const double angle =
                    (double)p * pow(1000, -2.0 * (double)i / (double)HEAD) / factor;
                const double a = (double)before[at], b = (double)before[at + apart];
                assert_true(fabs((double)x[at] - (a * cos(angle) - b * sin(angle))) < 1e-5);
                assert_true(fabs((double)x[at + apart] - (b * cos(angle) + a * sin(angle))) < 1e-5);
            }
        assert_memory_equal(x + p * LD + HEADS * HEAD, before + p * LD + HEADS * HEAD,
                            3 * sizeof *x);
    }
}

/* Rotates pairs as complex numbers, in doubles. */
static void queries_are_rotated(void **state) {
    static const float factors[HEAD / 2] = {1, 1, 1.5f, 4, 32};
    (void)state;
    check_rotation(&(struct rope){.theta = 1000}, HEAD / 2, 1);
    check_rotation(&(struct rope){.theta = 1000, .pairs = ROPE_NEIGHBOURS}, 1, 2);
    check_rotation(&(struct rope){.theta = 1000, .factors = factors, .pairs = ROPE_NEIGHBOURS}, 1,
                   2);
    check_rotation(&(struct rope){.theta = 1000, .factors = factors, .pairs = ROPE_HALVES},
                   HEAD / 2, 1);
}

/* Positions have the precision of floats at any distance: adding up one position at a time must not
 * drift. */
static void far_positions_are_exact(void **state) {
    enum { FAR = 9000, SIZE = 8 };
    (void)state;
    const struct rope rope = {.theta = 1000};
    float *table = calloc(FAR * SIZE, sizeof *table);
    assert_non_null(table);
    fill_rope_table(&rope, SIZE, FAR, table);
    for (size_t i = 0; i < SIZE / 2; i++) {
        const float step = 1 / powf(1000, 2 * (float)i / (float)SIZE);
        for (size_t p = 0; p < FAR; p++) {
            const double angle = (double)p * (double)step;
            assert_true(fabs((double)table[p * SIZE + i] - cos(angle)) < 1e-7);
            assert_true(fabs((double)table[p * SIZE + SIZE / 2 + i] - sin(angle)) < 1e-7);
        }
    }
    free(table);
}

/* Two vectors have the same score at any two positions with the same distance. */
static void scores_depend_on_distance(void **state) {
    (void)state;
    static float table[POSITIONS * HEAD], q[POSITIONS * HEAD], k[POSITIONS * HEAD];
    for (size_t i = 0; i < POSITIONS * HEAD; i++) {
        q[i] = (float)(i % HEAD * 7 % 5) - 1.5f;
        k[i] = (float)(i % HEAD * 3 % 7) - 2.5f;
    }
    const struct rope rope = {.theta = 10000};
    fill_rope_table(&rope, HEAD, POSITIONS, table);
    apply_rope(&rope, table, POSITIONS, 1, HEAD, q, HEAD);
    apply_rope(&rope, table, POSITIONS, 1, HEAD, k, HEAD);
    double first = 0, other = 0, apart = 0;
    for (size_t i = 0; i < HEAD; i++) {
        first += (double)q[2 * HEAD + i] * (double)k[9 * HEAD + i];
        other += (double)q[30 * HEAD + i] * (double)k[37 * HEAD + i];
        apart += (double)q[2 * HEAD + i] * (double)k[30 * HEAD + i];
    }
    assert_true(fabs(first - other) < 1e-4 && fabs(first - apart) > 1e-2);
}

/* ---- GGUF ----------------------------------------------------------------------------------- */

static const char BASE[] = "nomic-bert.rope.freq_base",
                  HEAD_COUNT[] = "nomic-bert.attention.head_count",
                  SCALING[] = "nomic-bert.rope.scaling.type",
                  FACTOR[] = "nomic-bert.rope.scaling.factor",
                  LINEAR[] = "nomic-bert.rope.scale_linear",
                  TURNED[] = "nomic-bert.rope.dimension_count", ACTIVATION[] = "wisp.hidden_act",
                  CAUSAL[] = "nomic-bert.attention.causal";

enum change { SET_TEXT, SET_FLOAT, SET_SIZE, SET_TRUE, DROP_KEY, DROP_TENSOR, ADD_BIAS };

static const struct gguf_case {
    enum change change;
    const char *name;
    const char *text;
    double number;
    wisp_status status;
    const char *field;
    const char *says;
} gguf_cases[] = {
    {SET_TEXT, ACTIVATION, "silu", 0, WISP_OK, NULL, NULL},
    {SET_TEXT, ACTIVATION, "gelu", 0, UNSUPPORTED, ACTIVATION, "gelu is not supported, only silu"},
    {DROP_KEY, ACTIVATION, NULL, 0, WISP_OK, NULL, NULL},
    {SET_FLOAT, BASE, NULL, 1, WISP_OK, NULL, NULL},
    {SET_FLOAT, BASE, NULL, 0.5, FORMAT, BASE, "at least 1"},
    {SET_FLOAT, BASE, NULL, (double)INFINITY, FORMAT, BASE, "finite"},
    {SET_FLOAT, BASE, NULL, (double)NAN, FORMAT, BASE, "finite"},
    {SET_SIZE, BASE, NULL, 1000, FORMAT, BASE, "u32"},
    {DROP_KEY, BASE, NULL, 0, NOT_FOUND, BASE, "missing"},
    {SET_SIZE, HEAD_COUNT, NULL, 4, WISP_OK, NULL, NULL},
    {SET_SIZE, HEAD_COUNT, NULL, 8, FORMAT, HEAD_COUNT, "heads of 1 values"},
    {SET_TEXT, SCALING, "none", 0, WISP_OK, NULL, NULL},
    {SET_TEXT, SCALING, "yarn", 0, UNSUPPORTED, SCALING, "yarn is not supported"},
    {SET_FLOAT, FACTOR, NULL, 1, WISP_OK, NULL, NULL},
    {SET_FLOAT, FACTOR, NULL, 2, UNSUPPORTED, FACTOR, "scaled by 2"},
    {SET_FLOAT, LINEAR, NULL, 0.25, UNSUPPORTED, LINEAR, "scaled by 0.25"},
    {SET_FLOAT, FACTOR, NULL, (double)NAN, UNSUPPORTED, FACTOR, "scaled by nan"},
    {SET_SIZE, TURNED, NULL, 4, WISP_OK, NULL, NULL},
    {SET_SIZE, TURNED, NULL, 2, UNSUPPORTED, TURNED, "2 of a head's 4"},
    {SET_TRUE, CAUSAL, NULL, 0, UNSUPPORTED, CAUSAL, "decoders"},
    {DROP_TENSOR, "blk.1.ffn_gate.weight", NULL, 0, NOT_FOUND, "blk.1.ffn_gate.weight", "missing"},
    {DROP_TENSOR, "blk.0.attn_qkv.weight", NULL, 0, NOT_FOUND, "blk.0.attn_qkv.weight", "missing"},
    {DROP_TENSOR, "token_types.weight", NULL, 0, NOT_FOUND, "token_types.weight", "missing"},
    {ADD_BIAS, "blk.0.attn_qkv.bias", NULL, 24, UNSUPPORTED, "blk.0.attn_qkv.bias", "do not have"},
    {ADD_BIAS, "blk.1.ffn_up.bias", NULL, 12, UNSUPPORTED, "blk.1.ffn_up.bias", "do not have"},
    {ADD_BIAS, "blk.1.ffn_gate.bias", NULL, 12, UNSUPPORTED, "blk.1.ffn_gate.bias", "do not have"},
};

static void add_bias(struct gguf *file, const char *name, size_t n) {
    gguf_repeat_tensor(file, "token_embd_norm.bias");
    struct gguf_tensor *tensor = &file->tensors[file->n_tensors - 1];
    tensor->name.size = tensor->data.size = 0;
    bytes_put(&tensor->name, name, strlen(name));
    tensor->name_length = strlen(name);
    tensor->dims[0] = n;
    for (size_t i = 0; i < n; i++)
        bytes_put_u32(&tensor->data, 0);
    gguf_settle(file);
}

static void change_file(struct gguf *file, const struct gguf_case *c) {
    switch (c->change) {
    case SET_TEXT:
        gguf_set_text(file, c->name, c->text);
        break;
    case SET_FLOAT:
        gguf_set_f32(file, c->name, (float)c->number);
        break;
    case SET_SIZE:
        gguf_set_u32(file, c->name, (uint32_t)c->number);
        break;
    case SET_TRUE:
        gguf_set_bool(file, c->name, 1);
        break;
    case DROP_KEY:
        gguf_drop_key(file, c->name);
        break;
    case DROP_TENSOR:
        gguf_drop_tensor(file, c->name);
        break;
    case ADD_BIAS:
        add_bias(file, c->name, (size_t)c->number);
    }
}

static void files_say_what_is_read(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof gguf_cases / sizeof *gguf_cases; i++) {
        const struct gguf_case *c = &gguf_cases[i];
        struct gguf file;
        struct bytes out = {0};
        print_message("%s, case %zu\n", c->name, i);
        gguf_make(&file, &tiny_nomic);
        change_file(&file, c);
        gguf_write_bytes(&file, &out);
        expect_opening(&out, c->status, c->field, c->says);
        bytes_release(&out);
        gguf_release(&file);
    }
}

/* ---- folders -------------------------------------------------------------------------------- */

static const char CONFIG[] = "config.json", WEIGHTS[] = "model.safetensors";

static const struct folder_case {
    const char *file, *old, *with;
    wisp_status status;
    const char *field;
    const char *says;
} folder_cases[] = {
    {CONFIG, "\"prenorm\"", "\"prenorm\"", WISP_OK, NULL, NULL},
    {CONFIG, "\"prenorm\":false", "\"prenorm\":true", UNSUPPORTED, "prenorm",
     "true is not supported, only false"},
    {CONFIG, "{", "{\"parallel_block\":true,", UNSUPPORTED, "parallel_block", "true"},
    {CONFIG, "{", "{\"use_rms_norm\":true,", UNSUPPORTED, "use_rms_norm", "true"},
    {CONFIG, "{", "{\"causal\":true,", UNSUPPORTED, "causal", "true"},
    {CONFIG, "{", "{\"is_decoder\":true,", UNSUPPORTED, "is_decoder", "true"},
    {CONFIG, "\"qkv_proj_bias\":false", "\"qkv_proj_bias\":true", UNSUPPORTED, "qkv_proj_bias",
     "true"},
    {CONFIG, "{", "{\"mlp_fc1_bias\":true,", UNSUPPORTED, "mlp_fc1_bias", "true"},
    {CONFIG, "{", "{\"mlp_fc2_bias\":1,", UNSUPPORTED, "mlp_fc2_bias", "1 is"},
    {CONFIG, "\"scale_attn_weights\":true", "\"scale_attn_weights\":false", UNSUPPORTED,
     "scale_attn_weights", "false is not supported, only true"},
    {CONFIG, "{", "{\"scale_attn_by_inverse_layer_idx\":true,", UNSUPPORTED,
     "scale_attn_by_inverse_layer_idx", "true"},
    {CONFIG, "{", "{\"rotary_emb_interleaved\":true,", UNSUPPORTED, "rotary_emb_interleaved",
     "true"},
    {CONFIG, "\"rotary_emb_scale_base\":null", "\"rotary_emb_scale_base\":512", UNSUPPORTED,
     "rotary_emb_scale_base", "512 is not supported, only null"},
    {CONFIG, "{", "{\"rotary_scaling_factor\":2,", UNSUPPORTED, "rotary_scaling_factor", "2"},
    {CONFIG, "{", "{\"rope_scaling\":{},", UNSUPPORTED, "rope_scaling", "an object"},
    {CONFIG, "\"rotary_emb_fraction\":1.0", "\"rotary_emb_fraction\":0.5", UNSUPPORTED,
     "rotary_emb_fraction", "0.5 is not supported, only 1"},
    {CONFIG, "\"rotary_emb_fraction\":1.0", "\"x\":1", UNSUPPORTED, "rotary_emb_fraction",
     "(none) is"},
    {CONFIG, "\"rotary_emb_fraction\":1.0", "\"rotary_emb_fraction\":\"1\"", UNSUPPORTED,
     "rotary_emb_fraction", NULL},
    {CONFIG, "\"rotary_emb_base\":1000", "\"x\":1", NOT_FOUND, "rotary_emb_base", "missing"},
    {CONFIG, "\"rotary_emb_base\":1000", "\"rotary_emb_base\":true", FORMAT, "rotary_emb_base",
     "true is not a number"},
    {CONFIG, "\"rotary_emb_base\":1000", "\"rotary_emb_base\":-1", FORMAT,
     "nomic-bert.rope.freq_base", "at least 1"},
    {CONFIG, "\"swiglu\"", "\"geglu\"", UNSUPPORTED, "activation_function",
     "geglu is not supported, only swiglu"},
    {CONFIG, "\"activation_function\":\"swiglu\"", "\"x\":1", UNSUPPORTED, "activation_function",
     "(none)"},
    {CONFIG, "\"activation_function\":\"swiglu\"", "\"hidden_act\":\"silu\"", WISP_OK, NULL, NULL},
    {CONFIG, "\"activation_function\":\"swiglu\"", "\"hidden_act\":\"gelu\"", UNSUPPORTED,
     "hidden_act", "gelu is not supported, only silu"},
    {CONFIG, "\"layer_norm_epsilon\":1e-05", "\"x\":1", NOT_FOUND, "layer_norm_epsilon", "missing"},
    {CONFIG, "\"layer_norm_epsilon\"", "\"layer_norm_eps\"", WISP_OK, NULL, NULL},
    {CONFIG, "\"n_embd\":8", "\"hidden_size\":8", WISP_OK, NULL, NULL},
    {CONFIG, "\"n_embd\":8", "\"x\":8", NOT_FOUND, "n_embd", "missing"},
    {CONFIG, "\"n_embd\":8", "\"hidden_size\":0", FORMAT, "hidden_size", "0 is not a whole number"},
    {CONFIG, "\"n_inner\":12", "\"n_inner\":null", FORMAT, "n_inner", "null"},
    {CONFIG, "\"n_inner\":12", "\"n_inner\":13", FORMAT, "blk.0.ffn_up.weight", "13"},
    {CONFIG, "\"n_layer\":2", "\"n_layer\":3", NOT_FOUND, "blk.2.attn_qkv.weight", "missing"},
    {CONFIG, "\"rotary_emb_fraction\":1.0",
     "\"rope_parameters\":{\"rope_type\":\"default\",\"rope_theta\":1e3}", WISP_OK, NULL, NULL},
    {CONFIG, "{", "{\"rope_parameters\":{\"rope_type\":\"yarn\",\"rope_theta\":1e3},", UNSUPPORTED,
     "rope_type", "yarn is not supported, only default"},
    {CONFIG, "{", "{\"rope_parameters\":{\"rope_type\":\"default\"},", NOT_FOUND, "rope_theta",
     "missing"},
    {CONFIG, "{",
     "{\"rope_parameters\":{\"rope_type\":\"default\",\"rope_theta\":1,"
     "\"partial_rotary_factor\":0.5},",
     UNSUPPORTED, "partial_rotary_factor", "0.5 is not supported, only 1"},
    {CONFIG, "\"rotary_emb_fraction\":1.0",
     "\"rotary_emb_fraction\":0,\"rope_parameters\":{\"rope_type\":\"default\",\"rope_theta\":1}",
     UNSUPPORTED, "rotary_emb_fraction", "0 is"},
    {WEIGHTS, "encoder.layers.1.mlp.fc12.weight", "encoder.layers.1.mlp.fc13.weight", UNSUPPORTED,
     "encoder.layers.1.mlp.fc13.weight", "nomic_bert"},
    {WEIGHTS, "encoder.layers.1.mlp.fc12.weight", "encoder.layers.1.mlp.fc12.bias", UNSUPPORTED,
     "encoder.layers.1.mlp.fc12.bias", "nomic_bert"},
    {WEIGHTS, "encoder.layers.0.mlp.fc12.weight", "encoder.layers.0.mlp.router.weight", UNSUPPORTED,
     "encoder.layers.0.mlp.router.weight", "nomic_bert"},
    {WEIGHTS, "\"emb_ln.bias", "\"bert.emb_ln.bias", WISP_OK, NULL, NULL},
    {WEIGHTS, "\"emb_ln.bias", "\"nomic_bert.emb_ln.bias", WISP_OK, NULL, NULL},
    {WEIGHTS, "\"emb_ln.bias", "\"cls.emb_ln.bias", NOT_FOUND, "token_embd_norm.bias", "missing"},
};

static void folders_say_what_is_read(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof folder_cases / sizeof *folder_cases; i++) {
        const struct folder_case *c = &folder_cases[i];
        struct folder folder;
        print_message("%s, case %zu\n", c->with, i);
        folder_make(&folder, &tiny_nomic);
        folder_replace(&folder, c->file, c->old, c->with);
        const char *path = temporary_path("model");
        folder_write(&folder, path);
        const struct opening opening = open_path(path, folder_size(&folder));
        expect_outcome(&opening, c->status, c->field, c->says);
        folder_release(&folder);
    }
}

/* ---- embeddings ----------------------------------------------------------------------------- */

enum { TEXTS = 24, SIZE = 8 };

static void make_texts(wisp_text texts[TEXTS]) {
    static const char *const some[] = {"the man is eating food", "",
                                       "a b c a b c a b c a b c a b c, and so on.",
                                       "some one plays the guitar", "food is eating the man"};
    for (size_t i = 0; i < TEXTS; i++)
        texts[i] = wisp_text_of(some[i % (sizeof some / sizeof *some)]);
}

static void embed(const wisp_model *model, uint32_t threads, bool alone, float *rows) {
    wisp_session *session = open_session_or_fail(model, threads);
    wisp_text texts[TEXTS];
    wisp_error error;
    make_texts(texts);
    for (size_t i = 0; i < TEXTS; i += alone ? 1 : TEXTS)
        if (wisp_embed(session, texts + i, alone ? 1 : TEXTS, NULL, rows + i * SIZE, &error) !=
            WISP_OK)
            fail_msg("%s", error.message);
    wisp_session_close(session);
}

static const char *tiny_folder(void) {
    struct folder folder;
    const char *path = temporary_path("tiny");
    folder_make(&folder, &tiny_nomic);
    folder_write(&folder, path);
    folder_release(&folder);
    return path;
}

static void rows_do_not_depend_on_the_batch(void **state) {
    (void)state;
    float rows[3][TEXTS * SIZE];
    const char *kernels, *path = tiny_folder();
    for (size_t k = 0; (kernels = wisp_kernels_name(k)) != NULL; k++)
        for (int int8 = 0; int8 < 2; int8++) {
            wisp_model *model =
                open_model_or_fail(path, int8 ? WISP_COMPUTE_INT8 : WISP_COMPUTE_F32, kernels);
            embed(model, 1, true, rows[0]);
            embed(model, 1, false, rows[1]);
            embed(model, 3, false, rows[2]);
            assert_memory_equal(rows[0], rows[1], sizeof rows[0]);
            assert_memory_equal(rows[0], rows[2], sizeof rows[0]);
            wisp_model_close(model);
        }
}

/* Words in another order must give another embedding: only positions tell the texts apart. */
static void positions_matter(void **state) {
    (void)state;
    float rows[TEXTS * SIZE];
    wisp_model *model = open_model_or_fail(tiny_folder(), WISP_COMPUTE_F32, NULL);
    embed(model, 1, false, rows);
    assert_true(cosine(rows, rows + 4 * SIZE, SIZE) < 0.9999);
    wisp_model_close(model);
}

/* The folder, the GGUF file made from it, and a GGUF file of the same tensors agree. */
static void folders_and_files_agree(void **state) {
    (void)state;
    float rows[3][TEXTS * SIZE];
    struct gguf file;
    struct bytes bytes = {0};
    wisp_model_info info;
    wisp_error error;
    const char *paths[] = {tiny_folder(), temporary_path("converted.gguf"),
                           temporary_path("built.gguf")};
    if (wisp_convert(paths[0], paths[1], NULL, &error) != WISP_OK)
        fail_msg("%s", error.message);
    gguf_make(&file, &tiny_nomic);
    gguf_write_bytes(&file, &bytes);
    write_file("built.gguf", bytes.data, bytes.size);
    for (int i = 0; i < 3; i++) {
        wisp_model *model = open_model_or_fail(paths[i], WISP_COMPUTE_AUTO, NULL);
        wisp_model_get_info(model, &info);
        assert_string_equal(info.architecture, "nomic-bert");
        assert_string_equal(info.compute, compute_of_floats());
        embed(model, 1, false, rows[i]);
        wisp_model_close(model);
    }
    assert_memory_equal(rows[0], rows[1], sizeof rows[0]);
    assert_memory_equal(rows[0], rows[2], sizeof rows[0]);
    gguf_release(&file);
    bytes_release(&bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(queries_are_rotated),
        cmocka_unit_test(far_positions_are_exact),
        cmocka_unit_test(scores_depend_on_distance),
        cmocka_unit_test(files_say_what_is_read),
        cmocka_unit_test(folders_say_what_is_read),
        cmocka_unit_test(rows_do_not_depend_on_the_batch),
        cmocka_unit_test(positions_matter),
        cmocka_unit_test(folders_and_files_agree),
    };
    return cmocka_run_group_tests_name("nomic", tests, NULL, tear_down_temporary_folder);
}

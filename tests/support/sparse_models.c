/* SPDX-License-Identifier: Apache-2.0 */
#include "support/sparse_models.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "convert/hot_tokens.h"
#include "convert/neuron_rows.h"
#include "formats/schema.h"
#include "native/open_path.h"
#include "support/opening.h"

#undef fail /* base/status.h has another */
#include <cmocka.h>

const char *const activations[ACTIVATIONS] = {"relu", "gelu", "silu"};

void make_texts(struct texts *t) {
    for (size_t i = 0; i < TEXTS; i++) {
        size_t used = 0;
        for (size_t w = 0; w < 1 + i % 9; w++)
            used += (size_t)snprintf(
                t->bytes[i] + used, TEXT_BYTES - used, "%s ",
                tiny_tokens[TINY_SPECIAL + (i * 7 + w * (i + 3)) % (TINY_TOKENS - TINY_SPECIAL)]);
        t->text[i] = (wisp_text){t->bytes[i], used};
    }
}

const struct tiny_shape *tiny_shape_of(const char *activation) {
    return strcmp(activation, "silu") == 0 ? &tiny_nomic_q8_0 : &tiny_shape_q8_0;
}

const char *tiny_model(const char *name, const char *activation) {
    struct gguf file;
    gguf_make(&file, tiny_shape_of(activation));
    gguf_set_text(&file, "wisp.hidden_act", activation);
    return write_made(&file, name);
}

void calibrate_or_fail(const char *input, const char *output, uint32_t threads) {
    struct texts texts;
    const wisp_calibrate_options o = {
        .sparsity = 0.5f, .rank = 8, .seed = 3, .threads = threads, .sentence = true};
    wisp_error error;
    make_texts(&texts);
    if (wisp_calibrate(input, output, texts.text, TEXTS, &o, &error) != WISP_OK)
        fail_msg("%s", error.message);
}

/* ---- predictors of arbitrary weights -------------------------------------------------------- */

const float predicting_shares[PREDICTING_LEVELS] = {0.2f, 0.4f};

static void add_tensor(struct gguf *file, uint32_t layer, const char *suffix, uint64_t length,
                       uint64_t rows, uint32_t type) {
    char name[64];
    snprintf(name, sizeof name, "blk.%u.%s", layer, suffix);
    tiny_add_tensor(file, name, length, rows, type);
}

/* Returns a number from four fifths to six fifths. */
static void add_factors(struct gguf *file, uint32_t layer, uint64_t hidden) {
    add_tensor(file, layer, "ffn_factors", hidden, 1, BLOCK_F32);
    struct bytes *data = &file->tensors[file->n_tensors - 1].data;
    for (size_t c = 0; c < hidden; c++)
        bytes_set_f32(data, c * sizeof(float), exp2f(bytes_get_f32(data, c * sizeof(float)) / 4));
}

static void add_p(struct gguf *file, uint32_t layer, uint64_t hidden, uint64_t rank,
                  uint32_t type) {
    add_tensor(file, layer, "ffn_predictor_p.weight", hidden, rank, type);
    add_tensor(file, layer, "ffn_predictor_p.bias", rank, 1, BLOCK_F32);
}

static const char *const token_suffixes[] = {"ffn_predictor_q.weight", "ffn_predictor_q.bias",
                                             "ffn_thresholds"};

/* Adds Q, q and thresholds. */
static void add_q(struct gguf *file, uint32_t layer, uint64_t rank, uint64_t wide, uint32_t type,
                  const char *const *suffixes) {
    add_tensor(file, layer, suffixes[0], rank, wide, type);
    add_tensor(file, layer, suffixes[1], wide, 1, BLOCK_F32);
    add_tensor(file, layer, suffixes[2], wide, PREDICTING_LEVELS, BLOCK_F32);
}

static void add_predictor(struct gguf *file, const struct predicting *p, uint32_t layer) {
    const uint64_t hidden = p->shape->hidden, wide = p->shape->wide;
    if (!p->shared)
        add_p(file, layer, hidden, p->rank, p->type);
    add_q(file, layer, p->rank, wide, p->type, token_suffixes);
    if (p->by_text) {
        add_tensor(file, layer, "ffn_sentence_p.weight", hidden, p->rank, p->type);
        add_tensor(file, layer, "ffn_sentence_p.bias", p->rank, 1, BLOCK_F32);
        add_q(file, layer, p->rank, wide, p->type,
              (const char *const[]){"ffn_sentence_q.weight", "ffn_sentence_q.bias",
                                    "ffn_sentence_thresholds"});
    }
    add_factors(file, layer, hidden);
    if (strcmp(p->activation, "gelu") == 0)
        add_tensor(file, layer, "ffn_center", wide, 1, BLOCK_F32);
    if (p->compensated) {
        add_tensor(file, layer, "ffn_compensation.weight", p->rank, hidden, p->type);
        add_tensor(file, layer, "ffn_compensation.bias", hidden, 1, BLOCK_F32);
    }
}

/* Puts the neurons of each layer in another order. The step has no common divisor with their
 * number. */
static void set_order(struct gguf *file, const struct tiny_shape *shape) {
    const size_t n = shape->layers * shape->wide, step = shape->wide % 13 ? 13 : 11;
    int32_t *order = malloc(n * sizeof *order);
    assert_non_null(order);
    for (size_t i = 0; i < n; i++)
        order[i] = (int32_t)((i * step + i / shape->wide) % shape->wide);
    gguf_set_i32s(file, "wisp.sparse.order", order, n);
    free(order);
}

/* Says for which shares there are thresholds. */
static void set_shares(struct gguf *file) {
    struct bytes shares = {0};
    bytes_put_u32(&shares, VALUE_F32);
    bytes_put_u64(&shares, PREDICTING_LEVELS);
    bytes_put_f32s(&shares, predicting_shares, PREDICTING_LEVELS);
    gguf_set(file, "wisp.sparse.shares", VALUE_ARRAY, shares.data, shares.size);
    gguf_settle(file);
    bytes_release(&shares);
}

void make_predicting(struct gguf *file, const struct predicting *p) {
    gguf_make(file, p->shape);
    gguf_set_text(file, "wisp.hidden_act", p->activation);
    for (uint32_t l = 0; l < p->shape->layers; l++)
        add_predictor(file, p, l);
    if (p->shared) {
        tiny_add_tensor(file, "ffn_predictor_p.weight", p->shape->hidden, p->rank, p->type);
        tiny_add_tensor(file, "ffn_predictor_p.bias", p->rank, 1, BLOCK_F32);
    }
    set_order(file, p->shape);
    set_shares(file);
}

void add_predictors(struct gguf *file, uint32_t layers, uint64_t hidden, uint64_t wide,
                    uint64_t rank) {
    for (uint32_t l = 0; l < layers; l++) {
        add_p(file, l, hidden, rank, BLOCK_F32);
        add_q(file, l, rank, wide, BLOCK_F32, token_suffixes);
    }
    set_shares(file);
}

const char *predicting_model(const char *name, const struct predicting *predicting) {
    struct gguf file;
    make_predicting(&file, predicting);
    return write_made(&file, name);
}

void set_chunks(const char *path, uint32_t bytes) {
    struct neuron_arrangement rows;
    struct file_writer writer;
    struct directory dir;
    wisp_error error;
    assert_int_equal(directory_open_path(&dir, path, &error), WISP_OK);
    const struct block_format **formats = calloc(dir.n_tensors + 1, sizeof *formats);
    assert_non_null(formats);
    for (size_t i = 0; i < dir.n_tensors; i++)
        formats[i] = dir.tensors[i].format;
    directory_drop_metadata(&dir, KEY_CHUNKS_PREFIX);
    assert_int_equal(directory_finish(&dir, &error), WISP_OK);
    assert_int_equal(hot_tokens_arrange(&dir, formats, hot_tokens_of(&dir), &error), WISP_OK);
    assert_int_equal(neuron_rows_arrange(&rows, &dir, formats, NEURONS_AS_THEY_ARE, &error),
                     WISP_OK);
    const struct gguf_plan plan = {.formats = rows.formats, .chunk_bytes = bytes};
    assert_int_equal(file_writer_open(&writer, path, &error), WISP_OK);
    assert_int_equal(gguf_write(&writer, &dir, &plan, &error), WISP_OK);
    assert_int_equal(file_writer_commit(&writer, &error), WISP_OK);
    neuron_rows_release(&rows);
    free((void *)formats);
    directory_release(&dir);
}

const char *cold_model(const char *name, const char *activation, bool by_text, uint32_t type) {
    const struct tiny_shape shape = {.hidden = HIDDEN,
                                     .wide = COLD_WIDE,
                                     .layers = COLD_LAYERS,
                                     .heads = 4,
                                     .positions = 16,
                                     .type = type,
                                     .nomic = strcmp(activation, "silu") == 0};
    const struct predicting p = {.shape = &shape,
                                 .activation = activation,
                                 .rank = 8,
                                 .type = BLOCK_F32,
                                 .compensated = strcmp(activation, "gelu") == 0,
                                 .by_text = by_text};
    const int32_t hot[COLD_LAYERS] = {COLD_HOT, COLD_HOT + 1};
    const wisp_convert_options as_rows = {.neurons = true};
    struct gguf file;
    wisp_error error;
    int32_t tokens[TINY_TOKENS];
    make_predicting(&file, &p);
    gguf_set_i32s(&file, "wisp.sparse.hot", hot, COLD_LAYERS);
    for (int32_t i = 0; i < TINY_TOKENS; i++)
        tokens[i] = (i * 7 + 1) % TINY_TOKENS;
    gguf_set_i32s(&file, "wisp.tokens.order", tokens, TINY_TOKENS);
    const char *plain = write_made(&file, "plain-cold.gguf"), *rows = temporary_path(name);
    if (wisp_convert(plain, rows, &as_rows, &error) != WISP_OK)
        fail_msg("%s", error.message);
    set_chunks(rows, 0);
    return rows;
}

/* ---- models that are open ------------------------------------------------------------------- */

wisp_model *open_with(const char *path, wisp_compute compute, wisp_predictor predictor,
                      const char *kernels) {
    const wisp_model_options o = {.compute = compute, .predictor = predictor, .kernels = kernels};
    wisp_model *model;
    wisp_error error;
    if (wisp_model_open(path, &o, &model, &error) != WISP_OK)
        fail_msg("%s", error.message);
    return model;
}

void embed_or_fail(wisp_session *session, const wisp_text *texts, size_t n, float *rows) {
    wisp_error error;
    if (wisp_embed(session, texts, n, NULL, rows, &error) != WISP_OK)
        fail_msg("%s", error.message);
}

float *layer_floats(const wisp_model *model, const char *name, size_t rows, size_t length) {
    float *values;
    wisp_error error;
    if (directory_load_floats(&model->dir, name, rows, length, &values, &error) != WISP_OK)
        fail_msg("%s", error.message);
    return values;
}

float *block_floats(const wisp_model *model, size_t layer, const char *suffix, size_t rows,
                    size_t length) {
    char name[64];
    snprintf(name, sizeof name, "blk.%zu.%s", layer, suffix);
    return layer_floats(model, name, rows, length);
}

void apply_sparse(const struct sparse_ffn *f, const float *thresholds, const float *x,
                  size_t tokens, float *y, struct sparse_counts *counts) {
    struct workspace space = {0};
    wisp_error error;
    assert_int_equal(
        workspace_reserve(&space,
                          sparse_ffn_workspace_bytes(f->hidden_size, f->intermediate_size, f->rank,
                                                     f->activation),
                          &error),
        WISP_OK);
    sparse_ffn_apply(f, (struct sparse_choice){.thresholds = thresholds}, x, tokens, y, space,
                     counts);
    workspace_release(&space);
}

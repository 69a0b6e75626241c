/* SPDX-License-Identifier: Apache-2.0
 * Layers of experts: routing beside a plain computation, and what is refused. test_decoder_pass
 * divides their passes, test_decoder_memory limits their memory, tests/oracle/decoders.py compares
 * them with transformers. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/routing.h"
#include "support/decoders.h"
#include "support/golden.h"
#include "support/opening.h"
#include "support/rng.h"

#undef fail /* base/status.h has another */
#include <cmocka.h>

enum { MOST_EXPERTS = 64 };

static wisp_error error;

/* ---- routing -------------------------------------------------------------------------------- */

/* Returns how many experts have a larger score than e, or an equal one and a smaller number. */
static uint32_t rank_of(const double *scores, uint32_t n, uint32_t e) {
    uint32_t before = 0;
    for (uint32_t i = 0; i < n; i++)
        before += scores[i] > scores[e] || (scores[i] == scores[e] && i < e);
    return before;
}

static void check_route(const struct expert_config *config, const float *outputs,
                        const float *choice) {
    double shares[MOST_EXPERTS], scores[MOST_EXPERTS], all = 0;
    float scratch[MOST_EXPERTS];
    struct routed out[MOST_EXPERTS];
    const uint32_t n = config->count;
    for (uint32_t e = 0; e < n; e++)
        all += exp((double)outputs[e]);
    double chosen = 0;
    for (uint32_t e = 0; e < n; e++) {
        shares[e] = config->gate == EXPERTS_SOFTMAX ? exp((double)outputs[e]) / all
                                                    : 1 / (1 + exp(-(double)outputs[e]));
        scores[e] = shares[e] + (choice ? (double)choice[e] : 0);
    }
    for (uint32_t e = 0; e < n; e++)
        chosen += rank_of(scores, n, e) < config->used ? shares[e] : 0;
    route_token(config, outputs, choice, 5, scratch, out);
    for (uint32_t e = 0, at = 0; e < n; e++) {
        if (rank_of(scores, n, e) >= config->used)
            continue;
        const double weight = shares[e] / (config->normalised ? chosen : 1) * (double)config->scale;
        assert_int_equal(out[at].expert, e);
        assert_int_equal(out[at].token, 5);
        assert_true(fabs((double)out[at++].weight - weight) < 1e-5 * (1 + weight));
    }
}

static void tokens_use_the_experts_of_the_largest_scores(void **state) {
    struct rng rng = {7};
    (void)state;
    for (int i = 0; i < 2000; i++) {
        float outputs[MOST_EXPERTS], choice[MOST_EXPERTS];
        struct expert_config config = {.count = (uint32_t)rng_range(&rng, 1, MOST_EXPERTS),
                                       .gate = i % 2 ? EXPERTS_SOFTMAX : EXPERTS_SIGMOID,
                                       .normalised = i % 3 > 0,
                                       .scale = i % 5 ? 1 : 2.5f};
        config.used = (uint32_t)rng_range(&rng, 1, config.count);
        for (uint32_t e = 0; e < config.count; e++) {
            /* From a few values, so that some are equal. */
            outputs[e] = (float)rng_below(&rng, 40) / 10 - 2;
            choice[e] = (float)rng_below(&rng, 20) / 16 - 0.5f;
        }
        check_route(&config, outputs, i % 7 > 2 ? choice : NULL);
    }
}

/* Outputs that overflowed choose some experts, each once. */
static void outputs_that_are_no_numbers_choose_experts(void **state) {
    static const float bad[][3] = {{NAN, NAN, NAN}, {INFINITY, INFINITY, 1}, {-INFINITY, NAN, 2}};
    const struct expert_config config = {
        .count = 3, .used = 2, .gate = EXPERTS_SOFTMAX, .normalised = true, .scale = 1};
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        float scratch[3];
        struct routed out[2];
        route_token(&config, bad[i], NULL, 0, scratch, out);
        assert_true(out[0].expert < out[1].expert && out[1].expert < 3);
    }
}

static void pairs_are_sorted_by_expert_and_token(void **state) {
    enum { N = 200, EXPERTS = 7 };
    struct routed pairs[N], sorted[N];
    size_t first[EXPERTS + 1];
    struct rng rng = {3};
    (void)state;
    for (uint32_t i = 0; i < N; i++)
        pairs[i] =
            (struct routed){.expert = (uint32_t)rng_below(&rng, EXPERTS) / 2 * 2, .token = i};
    route_sort(pairs, N, EXPERTS, first, sorted);
    assert_int_equal(first[0], 0);
    assert_int_equal(first[EXPERTS], N);
    for (uint32_t e = 0; e < EXPERTS; e++)
        for (size_t i = first[e]; i < first[e + 1]; i++) {
            assert_int_equal(sorted[i].expert, e);
            assert_true(i == first[e] || sorted[i].token > sorted[i - 1].token);
        }
}

/* ---- models --------------------------------------------------------------------------------- */

static const struct tiny_decoder *next_with_experts(const struct tiny_decoder *d) {
    while (d->name && d->experts == 0)
        d++;
    return d;
}

/* ---- what is refused ------------------------------------------------------------------------ */

static void refuse(void (*change)(struct gguf *file), wisp_status status, const char *field,
                   const char *says) {
    struct gguf file;
    struct bytes bytes = {0};
    decoder_make(&file, next_with_experts(tiny_decoders));
    change(&file);
    gguf_settle(&file);
    gguf_write_bytes(&file, &bytes);
    gguf_release(&file);
    expect_opening(&bytes, status, field, says);
    bytes_release(&bytes);
}

static void share_an_expert(struct gguf *file) {
    gguf_set_u32(file, "qwen3moe.expert_shared_count", 1);
}

static void use_too_many(struct gguf *file) {
    gguf_set_u32(file, "qwen3moe.expert_used_count", 7);
}

static void use_none(struct gguf *file) {
    gguf_set_u32(file, "qwen3moe.expert_used_count", 0);
}

static void have_too_many(struct gguf *file) {
    gguf_set_u32(file, "qwen3moe.expert_count", 1u << 31);
}

static void have_others(struct gguf *file) {
    gguf_set_u32(file, "qwen3moe.expert_count", 5);
}

static void gate_otherwise(struct gguf *file) {
    gguf_set_u32(file, "qwen3moe.expert_gating_func", 3);
}

static void be_dense(struct gguf *file) {
    gguf_set_u32(file, "qwen3moe.leading_dense_block_count", DECODER_LAYERS);
}

static void be_large(struct gguf *file) {
    gguf_set_u32(file, "qwen3moe.expert_feed_forward_length", 1u << 20);
}

static void other_models_are_refused(void **state) {
    (void)state;
    refuse(share_an_expert, WISP_ERROR_UNSUPPORTED, "qwen3moe.expert_shared_count", "only 0");
    refuse(use_too_many, WISP_ERROR_FORMAT, "qwen3moe.expert_used_count", "not between 1 and 6");
    refuse(use_none, WISP_ERROR_FORMAT, "qwen3moe.expert_used_count", "not between");
    refuse(have_too_many, WISP_ERROR_FORMAT, "qwen3moe.expert_count", "not between");
    refuse(have_others, WISP_ERROR_FORMAT, "blk.0.ffn_gate_inp.weight", "expected [5, 32]");
    refuse(gate_otherwise, WISP_ERROR_UNSUPPORTED, "qwen3moe.expert_gating_func", "3");
    refuse(be_dense, WISP_ERROR_FORMAT, "qwen3moe.leading_dense_block_count", "between 0 and 2");
    refuse(be_large, WISP_ERROR_FORMAT, "qwen3moe.expert_feed_forward_length", "neurons");
}

static void predictors_and_texts_are_refused(void **state) {
    const char *path = write_decoder(next_with_experts(tiny_decoders), "refused.gguf");
    const wisp_text text = wisp_text_of("a text to calibrate by");
    wisp_model *model;
    (void)state;
    for (int p = WISP_PREDICTOR_EXACT; wisp_predictor_name((size_t)p); p++) {
        const wisp_model_options options = {.compute = WISP_COMPUTE_INT8,
                                            .predictor = (wisp_predictor)p};
        assert_int_equal(wisp_model_open(path, &options, &model, &error), WISP_ERROR_UNSUPPORTED);
        assert_string_equal(error.field, "predictor");
    }
    assert_int_equal(wisp_calibrate(path, temporary_path("c.gguf"), &text, 1, NULL, &error),
                     WISP_ERROR_UNSUPPORTED);
    assert_string_equal(error.field, "expert_count");
    assert_int_equal(
        wisp_quantize_for_texts(path, temporary_path("q.gguf"), "q8_0", &text, 1, NULL, &error),
        WISP_ERROR_UNSUPPORTED);
    assert_string_equal(error.field, "texts");
}

/* llama.cpp adds biases of experts as floats, and a rounded router would choose other experts. */
static void biases_and_routers_stay_floats(void **state) {
    static const wisp_convert_options options = {.type = "q8_0"};
    (void)state;
    for (const struct tiny_decoder *d = tiny_decoders; (d = next_with_experts(d))->name; d++) {
        const char *output = temporary_path("converted.gguf");
        wisp_file *file;
        wisp_tensor tensor;
        if (wisp_convert(write_decoder(d, "floats.gguf"), output, &options, &error) != WISP_OK ||
            wisp_file_open(output, &file, &error) != WISP_OK)
            fail_msg("%s: %s", d->name, error.message);
        for (size_t i = 0; wisp_file_get_tensor(file, i, &tensor); i++) {
            const bool stays =
                strstr(tensor.name, ".bias") || strstr(tensor.name, ".ffn_gate_inp.");
            const bool changes = !stays && strstr(tensor.name, "_exps.weight");
            if ((stays || changes) && stays != (strcmp(tensor.type, "F32") == 0))
                fail_msg("%s: %s is %s", d->name, tensor.name, tensor.type);
        }
        wisp_file_close(file);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_use_the_experts_of_the_largest_scores),
        cmocka_unit_test(outputs_that_are_no_numbers_choose_experts),
        cmocka_unit_test(pairs_are_sorted_by_expert_and_token),
        cmocka_unit_test(other_models_are_refused),
        cmocka_unit_test(predictors_and_texts_are_refused),
        cmocka_unit_test(biases_and_routers_stay_floats),
    };
    return cmocka_run_group_tests_name("experts", tests, NULL, tear_down_temporary_folder);
}

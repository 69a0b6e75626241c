/* SPDX-License-Identifier: Apache-2.0
 * Decoders whose layers choose neurons by their gates (the predictors gate and topk): the layer by
 * a plain computation in doubles, what a pass does with prompts, threads and batches, calibration,
 * and what is refused. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "engine/model.h"
#include "formats/schema.h"
#include "kernels/kernels.h"
#include "models/network.h"
#include "support/decoders.h"
#include "support/golden.h"
#include "support/opening.h"
#include "support/sparse_models.h"

#undef fail /* base/status.h has another */
#include <cmocka.h>

enum { TOKENS = 40, VALUES = TOKENS * DECODER_VOCABULARY, LINES = 24 };

static wisp_error error;

static bool is_gathered(const wisp_model *model) {
    const struct model_config *config = &model->network.config;
    return config_is_gated(config) && !config->has_bias && !config->has_sub_norms &&
           config->experts.count == 0;
}

static void logits_of(wisp_session *session, float *logits) {
    if (decoder_logits(session, TOKENS, logits, &error) != WISP_OK)
        fail_msg("%s", error.message);
}

static void set_sparsity(wisp_session *session, float sparsity) {
    if (wisp_session_set_sparsity(session, sparsity, &error) != WISP_OK)
        fail_msg("%s", error.message);
}

static uint64_t computed_by(const wisp_session *session) {
    uint64_t computed = 0;
    wisp_layer_stats stats;
    for (uint32_t l = 0; wisp_session_get_layer_stats(session, l, &stats); l++)
        computed += stats.computed;
    return computed;
}

/* ---- one layer ------------------------------------------------------------------------------ */

static int compare_floats(const void *a, const void *b) {
    const float x = *(const float *)a, y = *(const float *)b;
    return (x < y) - (x > y);
}

/* The layer is what its definition says, but for rounding to int8, and computes the neurons with
 * the largest scores. */
static void layers_are_as_defined(void **state) {
    enum { K = DECODER_HIDDEN, N = DECODER_WIDE };
    (void)state;
    const char *path = write_decoder(find_tiny("llama"), "layer.gguf");
    wisp_model *model = open_with(path, WISP_COMPUTE_INT8, WISP_PREDICTOR_TOPK, NULL);
    const struct gathered_ffn *ffn = &model->network.feed_forward[1].gathered;
    float x[K], gates[N], scores[N], sorted[N], y[K], *up = NULL, *down = NULL;
    char name[TENSOR_NAME_BYTES];
    layer_tensor_name(name, 1, TENSOR_FFN_UP, TENSOR_WEIGHT);
    assert_int_equal(directory_load_floats(&model->dir, name, N, K, &up, &error), WISP_OK);
    layer_tensor_name(name, 1, TENSOR_FFN_DOWN, TENSOR_WEIGHT);
    assert_int_equal(directory_load_floats(&model->dir, name, K, N, &down, &error), WISP_OK);
    struct workspace space = {0};
    const size_t bytes = gathered_workspace_bytes(K, N);
    assert_int_equal(workspace_reserve(&space, bytes, &error), WISP_OK);
    for (uint32_t most = 1; most <= N; most += 9) {
        struct gather_active active[N / GATHER_BLOCK];
        double want[K] = {0}, all = 0, wrong = 0;
        for (int i = 0; i < K; i++)
            x[i] = sinf((float)(i * 37 + (int)most));
        for (int j = 0; j < N; j++) {
            double length = 0;
            gates[j] = cosf((float)(j * 53 + (int)most));
            for (int i = 0; i < K; i++)
                length += (double)down[i * N + j] * (double)down[i * N + j];
            scores[j] = sorted[j] = fabsf(gates[j]) * sqrtf((float)length);
        }
        qsort(sorted, N, sizeof *sorted, compare_floats);
        size_t expected = 0;
        for (int j = 0; j < N; j++) {
            double product = 0;
            if (scores[j] < sorted[most - 1] * (1 - 1e-6f))
                continue;
            expected++;
            for (int i = 0; i < K; i++)
                product += (double)up[j * K + i] * (double)x[i];
            for (int i = 0; i < K; i++)
                want[i] += (double)gates[j] * product * (double)down[i * N + j];
        }
        const float least = gathered_least(ffn, (struct gate_limit){.most = most}, gates, scores);
        assert_int_equal(gathered_apply(ffn, x, gates, least, 0, N, active, space), expected);
        gathered_outputs(ffn, active, 0, K, y);
        for (int i = 0; i < K; i++) {
            all += want[i] * want[i];
            wrong += ((double)y[i] - want[i]) * ((double)y[i] - want[i]);
        }
        if (!(wrong <= 4e-4 * all))
            fail_msg("%u neurons: an error of %g of %g", most, wrong, all);
    }
    workspace_release(&space);
    memory_free(up);
    memory_free(down);
    wisp_model_close(model);
}

/* The k-th largest of values with equal ones, zeros and values of any size. */
static void the_largest_are_selected(void **state) {
    float values[200], sorted[200];
    (void)state;
    for (int i = 0; i < 200; i++)
        values[i] = sorted[i] = i % 7 == 0 ? 0 : ldexpf((float)(i % 13), i % 60 - 30);
    qsort(sorted, 200, sizeof *sorted, compare_floats);
    for (size_t k = 1; k <= 200; k++)
        if (!(gathered_select(values, 200, k) == sorted[k - 1]))
            fail_msg("%zu", k);
}

/* ---- passes --------------------------------------------------------------------------------- */

/* With all neurons the logits are those of dense layers but for rounding; with half of them they
 * have the same bits for any number of threads, and whether tokens come together or alone. */
static void logits_do_not_depend_on_threads_or_batches(void **state) {
    static float dense[VALUES], all[VALUES], half[VALUES], again[VALUES];
    (void)state;
    for (const struct tiny_decoder *tiny = tiny_decoders; tiny->name; tiny++) {
        const char *path = write_decoder(tiny, "pass.gguf");
        wisp_model *model = open_with(path, WISP_COMPUTE_INT8, WISP_PREDICTOR_DENSE, NULL);
        wisp_session *session = open_session_or_fail(model, 1);
        const bool gathered = is_gathered(model);
        logits_of(session, dense);
        wisp_session_close(session);
        wisp_model_close(model);
        if (!gathered)
            continue;
        model = open_with(path, WISP_COMPUTE_INT8, WISP_PREDICTOR_TOPK, NULL);
        session = open_session_or_fail(model, 1);
        set_sparsity(session, 0);
        logits_of(session, all);
        const double likeness = cosine(dense, all, VALUES);
        if (!(likeness > (kernels_at(0)->gemm_int8 ? 0.998 : 0.99))) /* narrow products */
            fail_msg("%s: a cosine of %g to the dense logits", tiny->name, likeness);
        wisp_session_close(session);
        session = open_session_or_fail(model, 1);
        set_sparsity(session, 0.5f);
        logits_of(session, half);
        assert_true(cosine(dense, half, VALUES) < 0.9999);
        for (uint32_t threads = 1; threads <= 3; threads++) {
            wisp_session *other = open_session_or_fail(model, threads);
            set_sparsity(other, 0.5f);
            assert_int_equal(decoder_logits_one_by_one(other, TOKENS, again, &error), WISP_OK);
            assert_memory_equal(half, again, sizeof half);
            wisp_session_close(other);
        }
        wisp_session_close(session);
        wisp_model_close(model);
    }
}

/* A prompt takes all neurons, and each token that is generated a part of them. */
static void prompts_are_dense(void **state) {
    enum { MOST = 6 };
    (void)state;
    const char *path = write_decoder(find_tiny("llama"), "prompt.gguf");
    wisp_model *model = open_with(path, WISP_COMPUTE_INT8, WISP_PREDICTOR_TOPK, NULL);
    const uint32_t layers = model->network.config.layers;
    for (uint32_t threads = 1; threads <= 2; threads++) {
        wisp_session *session = open_session_or_fail(model, threads);
        const wisp_generate_options options = {.max_tokens = MOST};
        wisp_generation made;
        set_sparsity(session, 0.75f);
        assert_int_equal(
            wisp_generate(session, wisp_text_of("a text of some tokens"), &options, &made, &error),
            WISP_OK);
        const uint64_t read = made.tokens - (made.end == WISP_END_LENGTH);
        assert_true(made.tokens > 2);
        assert_int_equal(computed_by(session),
                         layers * (made.prompt_tokens * DECODER_WIDE + read * DECODER_WIDE / 4));
        wisp_session_close(session);
    }
    wisp_model_close(model);
}

/* Matrices of other types than those that are kept become Q8_0; all kernel sets are near, if their
 * keys and values are not rounded as well. */
static void sets_agree(void **state) {
    static float first[VALUES], other[VALUES];
    const wisp_session_options options = {.cache_type = WISP_CACHE_F32};
    (void)state;
    const char *path = write_decoder(find_tiny("qwen3"), "sets.gguf");
    for (size_t s = 0; wisp_kernels_name(s); s++) {
        wisp_model *model =
            open_with(path, WISP_COMPUTE_INT8, WISP_PREDICTOR_TOPK, wisp_kernels_name(s));
        wisp_session *session;
        assert_int_equal(wisp_session_open(model, &options, &session, &error), WISP_OK);
        set_sparsity(session, 0.001f);
        logits_of(session, s ? other : first);
        if (s && !(cosine(first, other, VALUES) > 0.998))
            fail_msg("%s: %g", wisp_kernels_name(s), cosine(first, other, VALUES));
        wisp_session_close(session);
        wisp_model_close(model);
    }
}

/* ---- calibration ---------------------------------------------------------------------------- */

struct told {
    uint32_t layers;
    wisp_calibrated_gate half;
};

static void keep(void *context, uint32_t layer, const wisp_calibrated_gates *found) {
    struct told *told = context;
    assert_int_equal(layer, told->layers++);
    for (size_t i = 0; i < found->levels; i++) {
        const wisp_calibrated_gate *g = &found->level[i], *before = g - 1;
        assert_true(g->active >= 0 && g->active <= 1 && g->loss >= 0 && g->recall <= 1);
        if (i > 0)
            assert_true(g->share > before->share && g->least <= before->least &&
                        g->active >= before->active && g->loss <= before->loss &&
                        g->recall >= before->recall);
        if (g->share == 0.5f)
            told->half = *g;
    }
    for (size_t i = 1; i < WISP_GATE_THRESHOLDS; i++)
        assert_true(found->above[i] <= found->above[i - 1]);
}

static void calibrated_models_compute_their_share(void **state) {
    static float logits[VALUES];
    static char lines[LINES][64];
    wisp_text texts[LINES];
    (void)state;
    for (int i = 0; i < LINES; i++) {
        for (int j = 0; j < 40; j++)
            lines[i][j] = (char)('a' + (i * j * j + 3 * j + i) % 26);
        texts[i] = wisp_text_of(lines[i]);
    }
    for (const struct tiny_decoder *tiny = tiny_decoders; tiny->name; tiny++) {
        char input[256], output[256], plain[256];
        struct told told = {0};
        const wisp_calibrate_options o = {.sparsity = 0.5f, .context = &told, .gates = keep};
        snprintf(input, sizeof input, "%s", write_decoder(tiny, "input.gguf"));
        snprintf(output, sizeof output, "%s", temporary_path("gates.gguf"));
        snprintf(plain, sizeof plain, "%s", temporary_path("plain.gguf"));
        wisp_model *model = open_with(input, WISP_COMPUTE_AUTO, WISP_PREDICTOR_DENSE, NULL);
        const bool gathered = is_gathered(model);
        wisp_model_close(model);
        const wisp_status status = wisp_calibrate(input, output, texts, LINES, &o, &error);
        if (!gathered) {
            assert_int_equal(status, WISP_ERROR_UNSUPPORTED);
            continue;
        }
        if (status != WISP_OK)
            fail_msg("%s: %s", tiny->name, error.message);
        model = open_with(output, WISP_COMPUTE_INT8, WISP_PREDICTOR_GATE, NULL);
        wisp_model_info info;
        wisp_model_get_info(model, &info);
        assert_true(info.sparsity == 0.5f && told.layers == info.layers);
        wisp_session *session = open_session_or_fail(model, 1);
        logits_of(session, logits);
        const double share = (double)computed_by(session) / (info.layers * TOKENS * DECODER_WIDE);
        if (!(share > 0.3 && share < 0.7))
            fail_msg("%s: computed %g of the neurons", tiny->name, share);
        wisp_session_close(session);
        wisp_model_close(model);
        const wisp_convert_options without = {.plain = true};
        assert_int_equal(wisp_convert(output, plain, &without, &error), WISP_OK);
        assert_int_equal(wisp_convert(input, output, &without, &error), WISP_OK);
        size_t size, other_size;
        char *bytes = read_file(plain, &size), *others = read_file(output, &other_size);
        assert_int_equal(size, other_size);
        assert_memory_equal(bytes, others, size);
        free(bytes);
        free(others);
    }
}

/* ---- what is refused ------------------------------------------------------------------------ */

static void expect_refused(const char *path, wisp_compute compute, wisp_predictor predictor,
                           wisp_status status, const char *field) {
    const wisp_model_options options = {.compute = compute, .predictor = predictor};
    wisp_model *model;
    assert_int_equal(wisp_model_open(path, &options, &model, &error), status);
    assert_string_equal(error.field, field);
    assert_null(model);
}

static void what_cannot_be_is_refused(void **state) {
    (void)state;
    const char *path = write_decoder(find_tiny("llama"), "refused.gguf");
    expect_refused(path, WISP_COMPUTE_INT8, WISP_PREDICTOR_GATE, WISP_ERROR_NOT_FOUND,
                   "wisp.gate.shares");
    expect_refused(path, WISP_COMPUTE_F32, WISP_PREDICTOR_TOPK, WISP_ERROR_UNSUPPORTED,
                   "predictor");
    path = write_decoder(find_tiny("gpt2"), "refused.gguf");
    expect_refused(path, WISP_COMPUTE_INT8, WISP_PREDICTOR_TOPK, WISP_ERROR_UNSUPPORTED,
                   "predictor");
    path = write_decoder(find_tiny("llama"), "refused.gguf");
    const wisp_text texts[] = {wisp_text_of("a"), wisp_text_of("b")};
    const wisp_calibrate_options ranked = {.rank = 27}, typed = {.predictor_type = "f32"};
    const wisp_calibrate_options hot = {.hot_tokens = 1}, plain = {0};
    const char *output = temporary_path("refused-output.gguf");
    assert_int_equal(wisp_calibrate(path, output, texts, 2, &ranked, &error), WISP_ERROR_ARGUMENT);
    assert_string_equal(error.field, "rank");
    assert_non_null(strstr(error.message, "27; this model allows 1 to 26"));
    assert_int_equal(wisp_calibrate(path, output, texts, 2, &typed, &error), WISP_ERROR_ARGUMENT);
    assert_string_equal(error.field, "predictor_type");
    assert_int_equal(wisp_calibrate(path, output, texts, 2, &hot, &error), WISP_ERROR_UNSUPPORTED);
    assert_string_equal(error.field, "hot_tokens");
    assert_int_equal(wisp_calibrate(path, output, texts, 2, &plain, &error), WISP_ERROR_ARGUMENT);
    assert_string_equal(error.field, "texts");
}

/* Keys and values of some neurons are not those of all. `exact` leaves out zeros alone. */
static void states_are_of_one_predictor(void **state) {
    static const wisp_predictor predictors[] = {WISP_PREDICTOR_DENSE, WISP_PREDICTOR_EXACT,
                                                WISP_PREDICTOR_TOPK};
    enum { PREDICTORS = 3 };
    wisp_model *models[PREDICTORS];
    wisp_session *sessions[PREDICTORS];
    float *logits = malloc(VALUES * sizeof *logits);
    (void)state;
    assert_non_null(logits);
    const char *path = write_decoder(find_tiny("llama"), "states.gguf");
    for (int i = 0; i < PREDICTORS; i++) {
        models[i] = open_with(path, WISP_COMPUTE_INT8, predictors[i], NULL);
        sessions[i] = open_session_or_fail(models[i], 1);
    }
    for (int from = 0; from < PREDICTORS; from++) {
        size_t size;
        logits_of(sessions[from], logits);
        assert_int_equal(wisp_session_save_bytes(sessions[from], NULL, 0, &size, &error), WISP_OK);
        unsigned char *bytes = malloc(size);
        assert_non_null(bytes);
        assert_int_equal(wisp_session_save_bytes(sessions[from], bytes, size, &size, &error),
                         WISP_OK);
        for (int to = 0; to < PREDICTORS; to++) {
            const bool fits = (from == 2) == (to == 2);
            assert_int_equal(wisp_session_load_bytes(sessions[to], bytes, size, &error),
                             fits ? WISP_OK : WISP_ERROR_ARGUMENT);
            if (fits)
                continue;
            assert_string_equal(error.field, "predictor");
            assert_non_null(strstr(error.message, "saved with another predictor"));
            assert_non_null(strstr(error.message, wisp_predictor_name((size_t)predictors[to])));
        }
        free(bytes);
    }
    for (int i = 0; i < PREDICTORS; i++) {
        wisp_session_close(sessions[i]);
        wisp_model_close(models[i]);
    }
    free(logits);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_are_as_defined),
        cmocka_unit_test(the_largest_are_selected),
        cmocka_unit_test(logits_do_not_depend_on_threads_or_batches),
        cmocka_unit_test(prompts_are_dense),
        cmocka_unit_test(sets_agree),
        cmocka_unit_test(calibrated_models_compute_their_share),
        cmocka_unit_test(what_cannot_be_is_refused),
        cmocka_unit_test(states_are_of_one_predictor),
    };
    return cmocka_run_group_tests_name("gate", tests, NULL, tear_down_temporary_folder);
}

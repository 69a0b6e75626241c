/* SPDX-License-Identifier: Apache-2.0
 * Compares the real models in ../shared with PyTorch: hidden states and embeddings. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "models/network_load.h"
#include "models/pass.h"
#include "native/open_path.h"
#include "support/agreement.h"
#include "support/golden.h"

#undef fail /* base/status.h has another */
#include <cmocka.h>

enum { TEXTS = 522, SIZE = 384 };

static const char minilm[] = "all-MiniLM-L6-v2", twin[] = "minilm-l6-relu";

static wisp_text *golden_texts(struct arena *arena, char **raw) {
    char path[GOLDEN_PATH_BYTES];
    size_t n;
    const struct json *root =
        read_json_file(shared_path("golden/all-MiniLM-L6-v2/texts.json", path), arena, raw);
    wisp_text *texts = texts_of_json(root, &n);
    assert_int_equal(n, TEXTS);
    return texts;
}

static float *golden_rows(const char *name) {
    char path[GOLDEN_PATH_BYTES], file[GOLDEN_PATH_BYTES];
    size_t length;
    snprintf(file, sizeof file, "golden/%s/embeddings.f32", name);
    float *rows = read_floats(shared_path(file, path), &length);
    assert_int_equal(length, TEXTS * SIZE);
    return rows;
}

/* Embeds the golden texts with the model at `path`. The scalar kernels are slow, so they get a
 * sample of the texts; in `make test` the other sets get a sample too. */
static struct agreement measure_model(const char *path, const char *reference,
                                      const wisp_model_options *options) {
    const char *kernels = options->kernels;
    struct arena arena = {0};
    char *raw;
    wisp_text *texts = golden_texts(&arena, &raw);
    float *expected = golden_rows(reference);
    wisp_model *model;
    wisp_error error;
    if (wisp_model_open(path, options, &model, &error) != WISP_OK)
        fail_msg("%s", error.message);
    wisp_session *session = open_session_or_fail(model, 2);
    struct sampling sampling = sampling_of("golden texts", 8);
    if (strcmp(kernels, "scalar") == 0)
        sampling.mean_stride *= 10;
    const struct agreement result = agreement_of(session, texts, TEXTS, expected, SIZE, sampling);
    print_message("%s %s %s: mean %.7f, min %.7f of %zu\n", path, kernels,
                  options->portable ? "portable" : wisp_compute_name((size_t)options->compute),
                  result.mean, result.min, result.n);
    wisp_session_close(session);
    wisp_model_close(model);
    free(expected);
    free(texts);
    free(raw);
    arena_release(&arena);
    return result;
}

static struct agreement measure(const char *path, const char *reference, wisp_compute compute,
                                const char *kernels) {
    return measure_model(path, reference,
                         &(wisp_model_options){.compute = compute, .kernels = kernels});
}

static void f32_agrees_with_pytorch(void **state) {
    (void)state;
    char path[GOLDEN_PATH_BYTES];
    const char *kernels;
    if (!shared_is_there())
        skip();
    for (size_t i = 0; (kernels = wisp_kernels_name(i)) != NULL; i++)
        assert_true(
            measure(shared_path("models/all-MiniLM-L6-v2", path), minilm, WISP_COMPUTE_F32, kernels)
                .min >= 0.99999);
    assert_true(measure(shared_path("models/minilm-l6-relu", path), twin, WISP_COMPUTE_F32,
                        wisp_kernels_name(0))
                    .min >= 0.99999);
}

static void bf16_is_close_to_pytorch(void **state) {
    (void)state;
    char path[GOLDEN_PATH_BYTES];
    const char *kernels;
    if (!shared_is_there())
        skip();
    for (size_t i = 0; (kernels = wisp_kernels_name(i)) != NULL; i++)
        if (computes_bf16(kernels))
            assert_true(measure(shared_path("models/all-MiniLM-L6-v2", path), minilm,
                                WISP_COMPUTE_BF16, kernels)
                            .min >= 0.9999);
}

static void assert_close(struct agreement a) {
    assert_true(mean_reaches(&a, 0.999));
    assert_true(a.min >= 0.995);
}

static void check_int8(const char *path, const char *reference, wisp_compute compute,
                       const char *kernels) {
    assert_close(measure(path, reference, compute, kernels));
}

static void int8_is_close_to_pytorch(void **state) {
    (void)state;
    char path[GOLDEN_PATH_BYTES];
    const char *kernels;
    if (!shared_is_there())
        skip();
    for (size_t i = 0; (kernels = wisp_kernels_name(i)) != NULL; i++)
        check_int8(shared_path("models/all-MiniLM-L6-v2", path), minilm, WISP_COMPUTE_INT8,
                   kernels);
    check_int8(shared_path("models/minilm-l6-relu", path), twin, WISP_COMPUTE_INT8,
               wisp_kernels_name(0));
}

/* Every kernel set has the same bits (test_portable.c), so one is enough. */
static void portable_is_close_to_pytorch(void **state) {
    (void)state;
    char path[GOLDEN_PATH_BYTES];
    const wisp_model_options options = {.kernels = wisp_kernels_name(0), .portable = true};
    if (!shared_is_there())
        skip();
    assert_close(measure_model(shared_path("models/all-MiniLM-L6-v2", path), minilm, &options));
}

static void q8_0_is_close_to_pytorch(void **state) {
    (void)state;
    static const char *const names[] = {minilm, twin};
    if (!shared_is_there())
        skip();
    for (int i = 0; i < 2; i++) {
        char path[GOLDEN_PATH_BYTES], folder[GOLDEN_PATH_BYTES], file[] = "/tmp/wisp-test-XXXXXX";
        const wisp_convert_options options = {.type = "q8_0"};
        wisp_error error;
        close(mkstemp(file));
        snprintf(folder, sizeof folder, "models/%s", names[i]);
        if (wisp_convert(shared_path(folder, path), file, &options, &error) != WISP_OK)
            fail_msg("%s", error.message);
        check_int8(file, names[i], WISP_COMPUTE_INT8, wisp_kernels_name(0));
        check_int8(file, names[i], WISP_COMPUTE_F32, wisp_kernels_name(0));
        unlink(file);
    }
}

/* ---- hidden states -------------------------------------------------------------------------- */

struct expected_states {
    const float *values;   /* [layers + 1, tokens, SIZE] */
    size_t tokens, layers; /* the number of layers compared so far */
    double worst;          /* the largest difference */
};

/* The hook of a pass. It gets the hidden states before each attention block and before pooling. */
static wisp_status compare_states(void *context, struct cursor at, const float *states,
                                  wisp_error *error) {
    struct expected_states *expected = context;
    const size_t n = expected->tokens * SIZE, layer = at.layer;
    (void)error;
    if (at.block != PASS_ATTENTION && at.block != PASS_OUTPUT)
        return WISP_OK;
    expected->layers++;
    for (size_t i = 0; i < n; i++)
        expected->worst = fmax(expected->worst,
                               fabs((double)states[i] - (double)expected->values[layer * n + i]));
    return WISP_OK;
}

/* NumPy's header takes 128 bytes in these files, and the data follows it. */
static void check_states(const struct network *network, const char *file, const int32_t *ids,
                         size_t n) {
    char path[GOLDEN_PATH_BYTES];
    size_t length;
    wisp_error error;
    float *npy = read_floats(shared_path(file, path), &length);
    assert_int_equal(length, 32 + 7 * n * SIZE);
    struct expected_states expected = {.values = npy + 32, .tokens = n};
    const size_t starts[] = {0, n};
    const struct pass_size size = {.texts = 1, .tokens = n, .longest = n, .members = 1};
    struct workspace space = {0};
    float row[SIZE];
    struct pass pass = {.network = network,
                        .batch = {.texts = 1, .ids = ids, .starts = starts},
                        .rows = row,
                        .hook = compare_states,
                        .hook_context = &expected};
    assert_int_equal(workspace_reserve(&space, pass_workspace_bytes(network, &size), &error),
                     WISP_OK);
    pass_begin(&pass, &space);
    assert_int_equal(pass_run(&pass, &error), WISP_OK);
    assert_int_equal(expected.layers, network->config.layers + 1);
    workspace_release(&space);
    free(npy);
    print_message("%s: worst difference %.2g\n", file, expected.worst);
    assert_true(expected.worst < 2e-4);
}

static void hidden_states_agree_layer_by_layer(void **state) {
    (void)state;
    char path[GOLDEN_PATH_BYTES], *raw;
    static const size_t numbers[] = {0, 1, 310};
    struct directory dir;
    struct network network;
    struct arena arena = {0};
    wisp_error error;
    if (!shared_is_there())
        skip();
    if (directory_open_path(&dir, shared_path("models/all-MiniLM-L6-v2", path), &error) !=
            WISP_OK ||
        network_open(&network, &dir, &error) != WISP_OK ||
        network_load(&network, kernels_at(0), WISP_COMPUTE_F32, NULL, &error) != WISP_OK)
        fail_msg("%s", error.message);
    const struct json *root =
        read_json_file(shared_path("golden/all-MiniLM-L6-v2/ids.json", path), &arena, &raw);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        const struct json *list = root->first;
        for (size_t skip_count = numbers[i]; skip_count > 0; skip_count--)
            list = list->next;
        int32_t ids[512];
        size_t n = 0;
        for (const struct json *id = list->first; id; id = id->next) {
            int64_t value;
            assert_true(json_to_i64(id, &value));
            ids[n++] = (int32_t)value;
        }
        char file[GOLDEN_PATH_BYTES];
        snprintf(file, sizeof file, "golden/all-MiniLM-L6-v2/hidden_%03zu.npy", numbers[i]);
        check_states(&network, file, ids, n);
    }
    free(raw);
    arena_release(&arena);
    network_release(&network);
    directory_release(&dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(f32_agrees_with_pytorch),
        cmocka_unit_test(bf16_is_close_to_pytorch),
        cmocka_unit_test(int8_is_close_to_pytorch),
        cmocka_unit_test(portable_is_close_to_pytorch),
        cmocka_unit_test(q8_0_is_close_to_pytorch),
        cmocka_unit_test(hidden_states_agree_layer_by_layer),
    };
    return cmocka_run_group_tests_name("golden", tests, NULL, NULL);
}

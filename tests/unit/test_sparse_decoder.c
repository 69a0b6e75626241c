/* SPDX-License-Identifier: Apache-2.0
 * Decoders whose feed-forward layers skip neurons (the predictor exact): their logits are those of
 * the dense model but for the rounding to int8, and neurons that ReLU closes are skipped, in layers
 * with and without gates. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/kernels.h"
#include "support/decoders.h"
#include "support/golden.h"

#undef fail /* base/status.h has another */
#include <cmocka.h>

enum { TOKENS = 60, VALUES = TOKENS * DECODER_VOCABULARY };

struct opened {
    wisp_model *model;
    wisp_session *session;
};

static struct opened open_tiny(const struct bytes *file, wisp_compute compute,
                               wisp_predictor predictor, uint32_t threads) {
    const wisp_source source = {.size = file->size, .data = file->data, .name = "tiny"};
    const wisp_model_options options = {.compute = compute, .predictor = predictor};
    struct opened o;
    wisp_error error;
    if (wisp_model_open_source(&source, &options, &o.model, &error) != WISP_OK)
        fail_msg("%s", error.message);
    o.session = open_session_or_fail(o.model, threads);
    return o;
}

static void close_opened(struct opened o) {
    wisp_session_close(o.session);
    wisp_model_close(o.model);
}

static void logits_of(struct opened o, float *logits) {
    wisp_error error;
    if (decoder_logits(o.session, TOKENS, logits, &error) != WISP_OK)
        fail_msg("%s", error.message);
}

/* Returns the share of neurons that contributed. */
static double contributing(struct opened o) {
    uint64_t neurons = 0, some = 0;
    wisp_layer_stats stats;
    for (uint32_t l = 0; wisp_session_get_layer_stats(o.session, l, &stats); l++) {
        neurons += stats.neurons;
        some += stats.contributing;
    }
    return (double)some / (double)neurons;
}

static bool has_sub_norms(const struct tiny_decoder *tiny) {
    return strncmp(tiny->architecture, "bitnet", strlen("bitnet")) == 0;
}

/* Exact layers skip what rounds to 0, and round to int8 in other places than dense ones. So their
 * logits are about as near to those of floats as the dense ones of int8 are. */
static void exact_logits_are_those_of_the_dense_model(void **state) {
    static float floats[VALUES], dense[VALUES], exact[VALUES], again[VALUES];
    const double most = kernels_at(0)->gemm_int8 ? 0.002 : 0.005; /* narrow products */
    (void)state;
    for (const struct tiny_decoder *tiny = tiny_decoders; tiny->name; tiny++) {
        struct gguf made;
        struct bytes file = {0};
        if (tiny->experts > 0 || has_sub_norms(tiny)) /* have no predictors: test_experts, below */
            continue;
        decoder_make(&made, tiny);
        gguf_write_bytes(&made, &file);
        gguf_release(&made);
        struct opened o = open_tiny(&file, WISP_COMPUTE_F32, WISP_PREDICTOR_DENSE, 1);
        logits_of(o, floats);
        close_opened(o);
        o = open_tiny(&file, WISP_COMPUTE_INT8, WISP_PREDICTOR_DENSE, 1);
        logits_of(o, dense);
        close_opened(o);
        o = open_tiny(&file, WISP_COMPUTE_INT8, WISP_PREDICTOR_EXACT, 1);
        logits_of(o, exact);
        const double likeness = cosine(dense, exact, VALUES), share = contributing(o);
        const double off = 1 - cosine(floats, exact, VALUES),
                     own = 1 - cosine(floats, dense, VALUES);
        if (!(1 - likeness < fmax(most, own / 5) && off < 1.5 * own + 1e-4))
            fail_msg("%s: cosines of %g to the dense logits, of %g to those of floats", tiny->name,
                     likeness, 1 - off);
        if (strstr(tiny->name, "ReLU") && !(share > 0.2 && share < 0.7))
            fail_msg("%s: %g of the neurons contributed", tiny->name, share);
        close_opened(o);
        o = open_tiny(&file, WISP_COMPUTE_INT8, WISP_PREDICTOR_EXACT, 3);
        logits_of(o, again);
        assert_memory_equal(exact, again, sizeof exact);
        close_opened(o);
        bytes_release(&file);
    }
}

/* The file says nothing about a predictor, so a model that generates stays dense. */
static void decoders_are_dense_unless_asked(void **state) {
    (void)state;
    for (const struct tiny_decoder *tiny = tiny_decoders; tiny->name; tiny++) {
        struct gguf made;
        struct bytes file = {0};
        wisp_model_info info;
        decoder_make(&made, tiny);
        gguf_write_bytes(&made, &file);
        gguf_release(&made);
        const struct opened o = open_tiny(&file, WISP_COMPUTE_INT8, WISP_PREDICTOR_AUTO, 1);
        wisp_model_get_info(o.model, &info);
        assert_string_equal(info.predictor, "dense");
        close_opened(o);
        bytes_release(&file);
    }
}

/* A norm of the values of neurons needs all of them. */
static void norms_of_neurons_need_dense_layers(void **state) {
    static const wisp_predictor predictors[] = {WISP_PREDICTOR_EXACT, WISP_PREDICTOR_GATE,
                                                WISP_PREDICTOR_TOPK};
    size_t found = 0;
    (void)state;
    for (const struct tiny_decoder *tiny = tiny_decoders; tiny->name; tiny++)
        for (size_t i = 0; i < 3 && has_sub_norms(tiny); i++, found++) {
            const wisp_model_options options = {.predictor = predictors[i]};
            struct gguf made;
            struct bytes file = {0};
            wisp_model *model;
            wisp_error error;
            decoder_make(&made, tiny);
            gguf_write_bytes(&made, &file);
            gguf_release(&made);
            const wisp_source source = {.size = file.size, .data = file.data, .name = "tiny"};
            assert_int_equal(wisp_model_open_source(&source, &options, &model, &error),
                             WISP_ERROR_UNSUPPORTED);
            assert_string_equal(error.field, "predictor");
            assert_non_null(strstr(error.message, "go through a norm: use dense"));
            bytes_release(&file);
        }
    assert_int_equal(found, 6);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(norms_of_neurons_need_dense_layers),
        cmocka_unit_test(exact_logits_are_those_of_the_dense_model),
        cmocka_unit_test(decoders_are_dense_unless_asked),
    };
    return cmocka_run_group_tests_name("sparse_decoder", tests, NULL, NULL);
}

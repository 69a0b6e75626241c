/* SPDX-License-Identifier: Apache-2.0
 * Each step of sampling beside transformers' logits processors, on logits and options that
 * tests/oracle/make_sampling_golden.py writes; then the draw, and choices without any token. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "engine/sampler.h"
#include "support/golden.h"

#undef fail /* base/status.h has another */
#include <cmocka.h>

enum { VOCABULARY = 100, MOST_BIASES = 4 };

static float float_of(const struct json *value) {
    double number;
    assert_true(json_to_double(value, &number));
    return (float)number;
}

/* Reads the options of a case. A bias of null is -INFINITY. */
static wisp_sampling options_of(const struct json *object, wisp_token_value bias[MOST_BIASES]) {
    wisp_sampling o = {.temperature = 1, .bias = bias};
    const struct {
        const char *name;
        float *value;
    } floats[] = {{"temperature", &o.temperature},
                  {"top_p", &o.top_p},
                  {"min_p", &o.min_p},
                  {"typical_p", &o.typical_p},
                  {"repetition_penalty", &o.repetition_penalty},
                  {"presence_penalty", &o.presence_penalty},
                  {"frequency_penalty", &o.frequency_penalty}};
    size_t known = 0;
    for (size_t i = 0; i < sizeof floats / sizeof *floats; i++)
        if (json_get(object, floats[i].name)) {
            *floats[i].value = float_of(json_get(object, floats[i].name));
            known++;
        }
    int64_t number;
    if (json_to_i64(json_get(object, "top_k"), &number)) {
        o.top_k = (uint32_t)number;
        known++;
    }
    if (json_to_i64(json_get(object, "penalty_window"), &number)) {
        o.penalty_window = (uint32_t)number;
        known++;
    }
    known += json_to_bool(json_get(object, "temperature_last"), &o.temperature_last);
    if (json_get(object, "bias")) {
        for (const struct json *pair = json_get(object, "bias")->first; pair; pair = pair->next) {
            assert_true(o.biases < MOST_BIASES && json_to_i64(pair->first, &number));
            const struct json *value = pair->first->next;
            bias[o.biases++] = (wisp_token_value){
                (int32_t)number, json_is(value, JSON_NULL) ? -INFINITY : float_of(value)};
        }
        known++;
    }
    assert_int_equal(known, object->count);
    return o;
}

static int by_id(const void *a, const void *b) {
    return ((const struct candidate *)a)->id - ((const struct candidate *)b)->id;
}

static void check_case(const struct json *at, const float *logits, size_t index) {
    wisp_token_value bias[MOST_BIASES];
    const wisp_sampling options = options_of(json_get(at, "options"), bias);
    struct sampler sampler;
    wisp_error error;
    int64_t id;
    size_t n, i = 0;
    assert_int_equal(sampler_check(&options, VOCABULARY, &error), WISP_OK);
    assert_int_equal(sampler_open(&sampler, &options, VOCABULARY, &error), WISP_OK);
    for (const struct json *token = json_get(at, "text")->first; token; token = token->next) {
        assert_true(json_to_i64(token, &id));
        assert_int_equal(sampler_count(&sampler, (int32_t)id, &error), WISP_OK);
    }
    assert_int_equal(sampler_narrow(&sampler, logits, NULL, &n, &error), WISP_OK);
    struct candidate *c = sampler.candidates;
    double sum = 0;
    for (size_t k = 0; k < n; k++)
        sum += c[k].weight;
    qsort(c, n, sizeof *c, by_id);
    if (n != json_get(at, "left")->count)
        fail_msg("case %zu: %zu tokens are left, not %u", index, n, json_get(at, "left")->count);
    for (const struct json *pair = json_get(at, "left")->first; pair; pair = pair->next, i++) {
        const double got = c[i].weight / sum;
        double expected;
        assert_true(json_to_i64(pair->first, &id) && json_to_double(pair->first->next, &expected));
        if (c[i].id != id || fabs(got - expected) > 1e-5 * expected)
            fail_msg("case %zu: token %d has %g, not token %d with %g", index, c[i].id, got,
                     (int)id, expected);
    }
    sampler_release(&sampler);
}

static void steps_are_those_of_transformers(void **state) {
    char path[GOLDEN_PATH_BYTES], *text;
    struct arena arena = {0};
    static float logits[8][VOCABULARY];
    size_t sets = 0, cases = 0;
    (void)state;
    const struct json *golden =
        read_json_file(data_path("golden-sampling.json", path), &arena, &text);
    for (const struct json *set = json_get(golden, "logits")->first; set; set = set->next) {
        size_t n = 0;
        for (const struct json *logit = set->first; logit; logit = logit->next)
            logits[sets][n++] = float_of(logit);
        assert_int_equal(n, VOCABULARY);
        sets++;
    }
    for (const struct json *at = json_get(golden, "cases")->first; at; at = at->next) {
        int64_t set;
        assert_true(json_to_i64(json_get(at, "logits"), &set));
        check_case(at, logits[set], cases++);
    }
    assert_true(cases > 80);
    arena_release(&arena);
    free(text);
}

/* Tokens are drawn as often as their probabilities say. The seed is fixed, so that the test always
 * sees the same numbers. */
static void draws_follow_the_probabilities(void **state) {
    enum { DRAWS = 100000, TOKENS = 5 };
    static const float shares[TOKENS] = {0.5f, 0.25f, 0.15f, 0.09f, 0.01f};
    float logits[TOKENS];
    size_t counts[TOKENS] = {0};
    struct sampler sampler;
    wisp_error error;
    (void)state;
    for (size_t i = 0; i < TOKENS; i++)
        logits[i] = logf(shares[i]);
    assert_int_equal(
        sampler_open(&sampler, &(wisp_sampling){.temperature = 1, .seed = 5}, TOKENS, &error),
        WISP_OK);
    for (size_t i = 0; i < DRAWS; i++) {
        int32_t id;
        assert_int_equal(sampler_next(&sampler, logits, NULL, &id, &error), WISP_OK);
        counts[id]++;
    }
    double chi_squared = 0;
    for (size_t i = 0; i < TOKENS; i++) {
        const double expected = (double)shares[i] * (double)DRAWS, got = (double)counts[i];
        chi_squared += (got - expected) * (got - expected) / expected;
    }
    assert_true(chi_squared < 14.9); /* the 0.995 quantile of 4 degrees of freedom */
    sampler_release(&sampler);
}

static void masks_and_bias_leave_tokens_out(void **state) {
    static const float logits[10] = {9, 8, 7, 6, 5, 4, 3, 2, 1, 0};
    static const uint8_t third_and_last[] = {1 << 2, 1 << 1}, none[2] = {0};
    wisp_token_value bias[10];
    struct sampler sampler;
    wisp_error error;
    int32_t id;
    (void)state;
    assert_int_equal(sampler_open(&sampler, &(wisp_sampling){0}, 10, &error), WISP_OK);
    assert_int_equal(sampler_next(&sampler, logits, third_and_last, &id, &error), WISP_OK);
    assert_int_equal(id, 2);
    assert_int_equal(sampler_next(&sampler, logits, none, &id, &error), WISP_ERROR_ARGUMENT);
    assert_string_equal(error.field, "grammar");
    sampler_release(&sampler);

    for (int32_t i = 0; i < 10; i++)
        bias[i] = (wisp_token_value){i, -INFINITY};
    const wisp_sampling all = {.bias = bias, .biases = 10}, but_one = {.bias = bias, .biases = 9};
    assert_int_equal(sampler_open(&sampler, &all, 10, &error), WISP_OK);
    assert_int_equal(sampler_next(&sampler, logits, NULL, &id, &error), WISP_ERROR_ARGUMENT);
    assert_string_equal(error.field, "bias");
    sampler_release(&sampler);
    assert_int_equal(sampler_open(&sampler, &but_one, 10, &error), WISP_OK);
    assert_int_equal(sampler_next(&sampler, logits, NULL, &id, &error), WISP_OK);
    assert_int_equal(id, 9);
    sampler_release(&sampler);
}

/* A weight so small that its share of the sum is 0 does not count for the typical information. */
static void typical_tokens_beside_one_that_is_impossible(void **state) {
    static const float logits[] = {0, 0, 0, -744.75f, -5};
    struct sampler sampler;
    wisp_error error;
    size_t n;
    (void)state;
    assert_true(exp(-744.75) > 0 && exp(-744.75) / 3 == 0);
    assert_int_equal(
        sampler_open(&sampler, &(wisp_sampling){.temperature = 1, .typical_p = 0.9f}, 5, &error),
        WISP_OK);
    assert_int_equal(sampler_narrow(&sampler, logits, NULL, &n, &error), WISP_OK);
    assert_int_equal(n, 3);
    for (size_t i = 0; i < n; i++)
        assert_true(sampler.candidates[i].id < 3);
    sampler_release(&sampler);
}

static void options_out_of_range_are_errors(void **state) {
    static const wisp_token_value past[] = {{10, 1}}, negative[] = {{-1, 1}}, nan[] = {{0, NAN}},
                                  endless[] = {{0, INFINITY}};
    static const struct {
        wisp_sampling sampling;
        const char *field;
    } faults[] = {{{.temperature = -1}, "temperature"},
                  {{.temperature = NAN}, "temperature"},
                  {{.top_p = 1.5f}, "top_p"},
                  {{.min_p = -0.1f}, "min_p"},
                  {{.typical_p = 2}, "typical_p"},
                  {{.repetition_penalty = -1}, "repetition_penalty"},
                  {{.presence_penalty = INFINITY}, "presence_penalty"},
                  {{.frequency_penalty = NAN}, "frequency_penalty"},
                  {{.bias = NULL, .biases = 1}, "bias"},
                  {{.bias = past, .biases = 1}, "bias"},
                  {{.bias = negative, .biases = 1}, "bias"},
                  {{.bias = nan, .biases = 1}, "bias"},
                  {{.bias = endless, .biases = 1}, "bias"}};
    (void)state;
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        wisp_error error = {0};
        const wisp_status status = sampler_check(&faults[i].sampling, 10, &error);
        assert_int_equal(status, WISP_ERROR_ARGUMENT);
        if (faults[i].sampling.biases == 0 || faults[i].sampling.bias)
            assert_string_equal(error.field, faults[i].field);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_are_those_of_transformers),
        cmocka_unit_test(draws_follow_the_probabilities),
        cmocka_unit_test(masks_and_bias_leave_tokens_out),
        cmocka_unit_test(typical_tokens_beside_one_that_is_impossible),
        cmocka_unit_test(options_out_of_range_are_errors),
    };
    return cmocka_run_group_tests_name("sampler", tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0
 * Tokens that are drawn while drafts are verified have the model's distribution: a chi-squared test
 * of 100,000 draws. test_drafts shows that each text is the one without drafts. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/builder.h"
#include "support/decoders.h"
#include "support/golden.h"

#undef fail /* base/status.h has another */
#include <cmocka.h>

/* A text is drawn of the letters a, b and c. The vocabulary has a token for each, and a byte token,
 * which a bias excludes. */
enum { LENGTH = 5, CHOICES = 3, CELLS = CHOICES * CHOICES * CHOICES * CHOICES * CHOICES };
enum { TEXTS = 20000, DRAWS = TEXTS * LENGTH };
#define TEMPERATURE 4 /* at which many texts are likely */
enum { BYTE_A = 3 + 'a', LETTER_A = 3 + 256 };

/* Any two letters stand in it one behind the other, so that there are guesses. */
static const char prompt[] = "abcaabbccacbabcabacbcabca";

static wisp_error error;

/* ---- what is expected ----------------------------------------------------------------------- */

struct expected {
    wisp_session *session;
    int32_t ids[64];
    size_t n; /* of the prompt */
    double temperature;
    double *cells; /* [CELLS] */
};

/* Writes the probabilities of all texts that go on from `depth` tokens with the number `cell`. */
static void spread(struct expected *e, size_t depth, size_t cell, double probability) {
    float logits[DECODER_VOCABULARY];
    double shares[CHOICES], sum = 0;
    if (depth == LENGTH) {
        e->cells[cell] = probability;
        return;
    }
    if (wisp_next_logits(e->session, e->ids, e->n + depth, logits, &error) != WISP_OK)
        fail_msg("%s", error.message);
    for (int i = 0; i < CHOICES; i++)
        sum += shares[i] = exp((double)logits[LETTER_A + i] / e->temperature);
    for (int i = 0; i < CHOICES; i++) {
        e->ids[e->n + depth] = LETTER_A + i;
        spread(e, depth + 1, cell * CHOICES + (size_t)i, probability * shares[i] / sum);
    }
}

/* ---- what is drawn -------------------------------------------------------------------------- */

struct drawn {
    size_t cell, length;
};

static bool keep_token(void *context, const wisp_piece *piece) {
    struct drawn *d = context;
    if (piece->id < 0)
        return true;
    assert_in_range(piece->id, LETTER_A, LETTER_A + CHOICES - 1);
    d->cell = d->cell * CHOICES + (size_t)(piece->id - LETTER_A);
    d->length++;
    return true;
}

static size_t draw(const wisp_model *model, const wisp_grammar *grammar, size_t *counts) {
    const wisp_token_value bias[CHOICES] = {
        {BYTE_A, -INFINITY}, {BYTE_A + 1, -INFINITY}, {BYTE_A + 2, -INFINITY}};
    wisp_session *session = open_session_or_fail(model, 1);
    size_t accepted = 0;
    for (uint64_t seed = 0; seed < TEXTS; seed++) {
        struct drawn drawn = {0};
        wisp_generation result;
        const wisp_generate_options options = {
            .max_tokens = LENGTH,
            .sampling = {.temperature = TEMPERATURE, .seed = seed, .bias = bias, .biases = CHOICES},
            .grammar = grammar,
            .drafts = 4,
            .piece = keep_token,
            .context = &drawn};
        if (wisp_generate(session, wisp_text_of(prompt), &options, &result, &error) != WISP_OK)
            fail_msg("%s", error.message);
        assert_int_equal(drawn.length, LENGTH);
        counts[drawn.cell]++;
        accepted += result.accepted;
    }
    wisp_session_close(session);
    return accepted;
}

/* ---- the test ------------------------------------------------------------------------------- */

/* Returns by how many of its standard deviations chi-squared exceeds its mean. Cells that few texts
 * fall into are one. Source: Pearson (1900). */
static double excess(const double *expected, const size_t *counts) {
    double chi = 0, rest = 0, rest_seen = 0;
    int cells = 0;
    for (size_t i = 0; i < CELLS; i++) {
        const double mean = (double)TEXTS * expected[i], seen = (double)counts[i];
        if (mean < 5) {
            rest += mean;
            rest_seen += seen;
            continue;
        }
        chi += (seen - mean) * (seen - mean) / mean;
        cells++;
    }
    if (rest >= 5) {
        chi += (rest_seen - rest) * (rest_seen - rest) / rest;
        cells++;
    }
    const double freedom = cells - 1;
    assert_true(freedom >= 20);
    return (chi - freedom) / sqrt(2 * freedom);
}

static void drawn_texts_have_the_distribution(void **state) {
    static const char gbnf[] = "root ::= [abc] [abc] [abc] [abc] [abc]";
    static double expected[CELLS];
    static size_t counts[CELLS];
    struct gguf made;
    struct opened_decoder decoder;
    wisp_grammar *grammar;
    (void)state;
    decoder_make(&made, &tiny_decoders[0]);
    if (decoder_open(&made, &decoder, &error) != WISP_OK)
        fail_msg("%s", error.message);
    assert_int_equal(wisp_grammar_open(wisp_text_of(gbnf), &grammar, &error), WISP_OK);
    const size_t accepted = draw(decoder.model, grammar, counts);
    struct expected e = {.session = open_session_or_fail(decoder.model, 1), .cells = expected};
    assert_int_equal(wisp_tokenize(decoder.model, wisp_text_of(prompt), e.ids, 64, &e.n, &error),
                     WISP_OK);
    const double temperatures[] = {TEMPERATURE, 1.1 * TEMPERATURE};
    double off[2];
    for (int i = 0; i < 2; i++) {
        e.temperature = temperatures[i];
        spread(&e, 0, 0, 1);
        off[i] = excess(expected, counts);
    }
    printf("%d draws, %zu of them drafted: chi-squared %.2f deviations from its mean, %.1f from "
           "that of another temperature\n",
           DRAWS, accepted, off[0], off[1]);
    assert_true(accepted > DRAWS / 20);
    assert_true(off[0] < 4);
    assert_true(off[1] > 10); /* the test would see so small a difference */
    wisp_session_close(e.session);
    wisp_grammar_close(grammar);
    decoder_release(&decoder);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(drawn_texts_have_the_distribution)};
    return cmocka_run_group_tests_name("draft distribution", tests, NULL, NULL);
}

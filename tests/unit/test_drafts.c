/* SPDX-License-Identifier: Apache-2.0
 * Drafts (engine/draft.h): texts are the same with them as without, whether the likeliest tokens
 * are taken or tokens drawn, alone, in batches, with grammars and at the end of the context; what
 * is guessed, and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/draft.h"
#include "support/builder.h"
#include "support/decoders.h"
#include "support/golden.h"

#undef fail /* base/status.h has another */
#include <cmocka.h>

enum { PROMPTS = 5, MOST = 60, TEXT_BYTES = 1024 };

static wisp_error error;

/* ---- guesses -------------------------------------------------------------------------------- */

static void expect_guess(const int32_t *ids, size_t n, int32_t last, size_t limit,
                         const int32_t *want, size_t wanted) {
    struct draft draft = {0};
    draft_guess(&draft, ids, n, last, limit);
    assert_int_equal(draft.n, wanted);
    assert_int_equal(draft.ids[0], last);
    assert_memory_equal(draft.ids + 1, want, wanted * sizeof *want);
}

static void what_followed_is_guessed(void **state) {
    static const int32_t text[] = {1, 2, 3, 4, 5, 9, 2, 3, 7, 8, 6, 1, 2};
    static const int32_t same[] = {5, 5, 5, 5};
    (void)state;
    /* 1 2 3 stands at the beginning; 2 3 alone came later. */
    expect_guess(text, 13, 3, 16, (const int32_t[]){4, 5, 9}, 3);
    expect_guess(text, 13, 3, 2, (const int32_t[]){4, 5}, 2);
    expect_guess(text, 13, 3, 0, NULL, 0);
    expect_guess(text, 7, 3, 16, (const int32_t[]){4, 5, 9}, 3);
    expect_guess(text, 13, 12, 16, NULL, 0); /* one that was not there */
    expect_guess(text, 12, 7, 16, NULL, 0);  /* it was there behind another */
    expect_guess(same, 4, 5, 16, (const int32_t[]){5}, 1);
    expect_guess(NULL, 0, 5, 16, NULL, 0);
}

static void guesses_follow_their_success(void **state) {
    int32_t text[100];
    struct draft draft = {0};
    (void)state;
    for (int i = 0; i < 100; i++)
        text[i] = i % 25;
    draft_guess(&draft, text, 100, 0, 16);
    assert_int_equal(draft.n, 3);
    draft_learn(&draft, 3);
    draft_guess(&draft, text, 100, 0, 16);
    assert_int_equal(draft.n, 6);
    draft_learn(&draft, 2);
    draft_guess(&draft, text, 100, 0, 16);
    assert_int_equal(draft.n, 3);
    draft_learn(&draft, 0);
    draft_guess(&draft, text, 100, 0, 16);
    assert_int_equal(draft.n, 1);
    draft_learn(&draft, 0);
    for (int i = 0; i < 8; i++) {
        draft_guess(&draft, text, 100, 0, 16);
        assert_int_equal(draft.n, 0);
        draft_learn(&draft, 0);
    }
    draft_guess(&draft, text, 100, 0, 16);
    assert_int_equal(draft.n, 1);
}

/* ---- texts ---------------------------------------------------------------------------------- */

struct written {
    char text[TEXT_BYTES];
    size_t length;
};

static bool keep_piece(void *context, const wisp_piece *piece) {
    struct written *w = context;
    if (w->length + piece->text.length + 16 < sizeof w->text) {
        memcpy(w->text + w->length, piece->text.bytes, piece->text.length);
        w->length += piece->text.length;
        w->length += (size_t)snprintf(w->text + w->length, sizeof w->text - w->length, "|%d %.9g",
                                      piece->id, (double)piece->logprob);
    }
    return true;
}

/* Generates all prompts, some at a time. */
static void generate(const wisp_model *model, uint32_t threads, size_t at_once, uint32_t drafts,
                     float temperature, const wisp_grammar *grammar, struct written *written,
                     wisp_generation *results) {
    static const char *const prompts[PROMPTS] = {"abcabcabc", "a rose is a rose is a rose",
                                                 "the cat the dog the cat the", "x",
                                                 "one two one two one two one two"};
    wisp_generate_options options[PROMPTS];
    wisp_request requests[PROMPTS];
    wisp_session *session = open_session_or_fail(model, threads);
    for (size_t i = 0; i < PROMPTS; i++) {
        written[i] = (struct written){0};
        options[i] = (wisp_generate_options){
            .max_tokens = MOST,
            .sampling = {.temperature = temperature, .seed = i, .frequency_penalty = 0.01f},
            .grammar = grammar,
            .drafts = drafts,
            .logprobs = 1,
            .piece = keep_piece,
            .context = &written[i]};
        requests[i] = (wisp_request){.prompt = wisp_text_of(prompts[i]), .options = &options[i]};
    }
    if (wisp_generate_batch(session, requests, PROMPTS, at_once, results, &error) != WISP_OK)
        fail_msg("%s", error.message);
    wisp_session_close(session);
}

static void texts_are_the_same(void **state) {
    static const char gbnf[] = "root ::= ([a-z] [a-z] \" \")+";
    static struct written without[PROMPTS], with[PROMPTS];
    wisp_generation results[PROMPTS], plain[PROMPTS];
    wisp_grammar *grammar;
    size_t accepted = 0, wrong = 0;
    (void)state;
    assert_int_equal(wisp_grammar_open(wisp_text_of(gbnf), &grammar, &error), WISP_OK);
    for (const struct tiny_decoder *tiny = tiny_decoders; tiny->name; tiny++) {
        struct gguf made;
        struct opened_decoder decoder;
        decoder_make(&made, tiny);
        if (decoder_open(&made, &decoder, &error) != WISP_OK)
            fail_msg("%s", error.message);
        for (int kind = 0; kind < 4; kind++) {
            const float temperature = kind % 2 ? 0.3f : 0;
            const wisp_grammar *follows = kind > 1 ? grammar : NULL;
            generate(decoder.model, 1, 1, 0, temperature, follows, without, plain);
            for (uint32_t threads = 1; threads <= 2; threads++) {
                generate(decoder.model, threads, threads == 1 ? 1 : 3, 12, temperature, follows,
                         with, results);
                for (size_t i = 0; i < PROMPTS; i++) {
                    if (strcmp(with[i].text, without[i].text) != 0)
                        fail_msg("%s, kind %d: %s\nin place of %s", tiny->name, kind, with[i].text,
                                 without[i].text);
                    assert_int_equal(results[i].tokens, plain[i].tokens);
                    assert_int_equal(results[i].end, plain[i].end);
                    assert_true(results[i].accepted <= results[i].drafted &&
                                results[i].accepted < results[i].tokens + 1);
                    accepted += results[i].accepted;
                    wrong += results[i].drafted - results[i].accepted;
                }
            }
        }
        decoder_release(&decoder);
    }
    wisp_grammar_close(grammar);
    assert_true(accepted > 100 && wrong > 100);
}

/* The state of a short convolution cannot be cut back to a token before. */
static void convolutions_refuse_them(void **state) {
    struct gguf made;
    struct bytes file = {0};
    wisp_model *model;
    (void)state;
    gguf_make_lfm2(&made);
    gguf_write_bytes(&made, &file);
    gguf_release(&made);
    const wisp_source source = {.size = file.size, .data = file.data, .name = "lfm2"};
    assert_int_equal(wisp_model_open_source(&source, NULL, &model, &error), WISP_OK);
    wisp_session *session = open_session_or_fail(model, 1);
    const wisp_generate_options options = {.drafts = 4};
    assert_int_equal(wisp_generate(session, wisp_text_of("a"), &options, NULL, &error),
                     WISP_ERROR_UNSUPPORTED);
    assert_string_equal(error.field, "drafts");
    wisp_session_close(session);
    wisp_model_close(model);
    bytes_release(&file);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_followed_is_guessed),
        cmocka_unit_test(guesses_follow_their_success),
        cmocka_unit_test(texts_are_the_same),
        cmocka_unit_test(convolutions_refuse_them),
    };
    return cmocka_run_group_tests_name("drafts", tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0
 * A context that slides: the text is that of new prompts of the tokens that are left, of models
 * with attention alone and of one with short convolutions, alone and beside others. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "support/builder.h"
#include "support/decoders.h"
#include "support/golden.h"
#include "wisp.h"

#undef fail /* base/status.h has another */
#include <cmocka.h>

enum { MOST = 1200, FIRST = 1, LAST = 2 };

struct context {
    struct opened_decoder decoder;
    size_t positions;
};

static struct context open_made(struct gguf *file, size_t positions) {
    struct context c = {.positions = positions};
    wisp_error error;
    if (decoder_open(file, &c.decoder, &error) != WISP_OK)
        fail_msg("%s", error.message);
    return c;
}

static struct context open_tiny(size_t index) {
    struct gguf file;
    decoder_make(&file, &tiny_decoders[index]);
    return open_made(&file, DECODER_POSITIONS);
}

static struct context open_lfm2(void) {
    struct gguf file;
    gguf_make_lfm2(&file);
    gguf_set_u32(&file, "lfm2.context_length", 2 * DECODER_POSITIONS);
    return open_made(&file, 2 * DECODER_POSITIONS);
}

/* The ids of a text. */
struct ids {
    int32_t id[2 * MOST];
    size_t n;
};

static bool take(void *context, const wisp_piece *piece) {
    struct ids *ids = context;
    assert_true(ids->n < 2 * MOST);
    if (piece->id >= 0)
        ids->id[ids->n++] = piece->id;
    return true;
}

/* No token ends the text. */
static const wisp_token_value no_end[] = {{LAST, -INFINITY}};

static wisp_generation generate(wisp_session *session, const int32_t *prompt, size_t n,
                                wisp_generate_options options, struct ids *ids) {
    wisp_generation result;
    wisp_error error;
    options.piece = take;
    options.context = ids;
    options.sampling.bias = no_end;
    options.sampling.biases = 1;
    const wisp_request request = {.ids = prompt, .n_ids = n, .options = &options};
    if (wisp_generate_batch(session, &request, 1, 1, &result, &error) != WISP_OK)
        fail_msg("%s", error.message);
    return result;
}

/* Drops tokens after the first `kept` as long as there are more than the context has: each time
 * half of what it has besides those. Returns how many. */
static size_t drop(struct ids *ids, size_t kept, size_t positions) {
    const size_t before = ids->n, half = (positions - kept) / 2;
    while (ids->n > positions) {
        memmove(ids->id + kept, ids->id + kept + half, (ids->n - kept - half) * sizeof *ids->id);
        ids->n -= half;
    }
    return before - ids->n;
}

/* Generates `most` tokens by prompts that fit, each in a session of its own. */
static size_t generate_anew(const struct context *c, const int32_t *prompt, size_t n, size_t kept,
                            size_t most, struct ids *generated) {
    static struct ids text;
    size_t dropped;
    memcpy(text.id, prompt, n * sizeof *prompt);
    text.n = n;
    dropped = drop(&text, kept, c->positions);
    while (generated->n < most) {
        wisp_session *session = open_session_or_fail(c->decoder.model, 1);
        const size_t before = generated->n, left = most - before;
        const wisp_generation result =
            generate(session, text.id, text.n,
                     (wisp_generate_options){.max_tokens = (uint32_t)left}, generated);
        assert_true(generated->n == most || result.end == WISP_END_CONTEXT);
        memcpy(text.id + text.n, generated->id + before, (generated->n - before) * sizeof *text.id);
        text.n += generated->n - before;
        if (generated->n < most)
            dropped += drop(&text, kept, c->positions);
        wisp_session_close(session);
    }
    return dropped;
}

static void make_prompt(int32_t *prompt, size_t n) {
    for (size_t i = 0; i < n; i++)
        prompt[i] = i == 0 ? FIRST : (int32_t)(3 + (i * i * 7 + i * 5) % 60);
}

/* Compares texts of `most` tokens after prompts of several lengths, of which `keep` tokens stay. */
static void check(const struct context *c, uint32_t keep, size_t most) {
    const size_t lengths[] = {3, c->positions - 1, c->positions, c->positions + 1,
                              3 * c->positions + 5};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        static struct ids slid, anew;
        static int32_t prompt[2 * MOST];
        const size_t n = lengths[i], begin = 1, kept = keep + begin < n ? keep + begin : n;
        wisp_session *session = open_session_or_fail(c->decoder.model, 1 + i % 2);
        slid.n = anew.n = 0;
        make_prompt(prompt, n);
        const wisp_generate_options options = {
            .max_tokens = (uint32_t)most, .context_shift = true, .keep_tokens = keep};
        const wisp_generation result = generate(session, prompt, n, options, &slid);
        const size_t dropped = generate_anew(c, prompt, n, kept, most, &anew);
        assert_int_equal(result.end, WISP_END_LENGTH);
        assert_int_equal(result.tokens, most);
        assert_int_equal(result.dropped_tokens, dropped);
        assert_true(result.prompt_tokens <= c->positions);
        assert_int_equal(slid.n, anew.n);
        assert_memory_equal(slid.id, anew.id, most * sizeof *slid.id);
        wisp_session_close(session);
    }
}

static void texts_are_those_of_the_tokens_left(void **state) {
    (void)state;
    for (size_t i = 0; tiny_decoders[i].name; i++) {
        struct context c = open_tiny(i);
        check(&c, i % 2 ? 9 : 0, i == 0 ? 400 : 150);
        decoder_release(&c.decoder);
    }
}

static void convolutions_slide_too(void **state) {
    struct context c = open_lfm2();
    (void)state;
    check(&c, 20, 700);
    decoder_release(&c.decoder);
}

/* Texts that are generated together, one of which waits for the prompt of another. */
static void texts_slide_beside_others(void **state) {
    enum { TEXTS = 4, TOKENS = 300 };
    static struct ids slid[TEXTS], anew;
    static int32_t prompts[TEXTS][2 * DECODER_POSITIONS];
    wisp_generate_options options[TEXTS];
    wisp_request requests[TEXTS];
    wisp_generation results[TEXTS];
    wisp_error error;
    (void)state;
    struct context c = open_tiny(0);
    wisp_session *session = open_session_or_fail(c.decoder.model, 2);
    for (size_t i = 0; i < TEXTS; i++) {
        const size_t n = i * DECODER_POSITIONS / 2 + 20;
        make_prompt(prompts[i], n);
        options[i] = (wisp_generate_options){.max_tokens = TOKENS,
                                             .context_shift = true,
                                             .keep_tokens = (uint32_t)i,
                                             .piece = take,
                                             .context = &slid[i],
                                             .sampling = {.bias = no_end, .biases = 1}};
        requests[i] = (wisp_request){.ids = prompts[i], .n_ids = n, .options = &options[i]};
    }
    if (wisp_generate_batch(session, requests, TEXTS, 3, results, &error) != WISP_OK)
        fail_msg("%s", error.message);
    for (size_t i = 0; i < TEXTS; i++) {
        anew.n = 0;
        generate_anew(&c, prompts[i], requests[i].n_ids, i + 1, TOKENS, &anew);
        assert_int_equal(slid[i].n, TOKENS);
        assert_memory_equal(slid[i].id, anew.id, TOKENS * sizeof *anew.id);
    }
    wisp_session_close(session);
    decoder_release(&c.decoder);
}

static wisp_status try(const struct context *c, size_t n, wisp_generate_options options,
                       wisp_error *error) {
    static int32_t prompt[2 * DECODER_POSITIONS];
    wisp_session *session = open_session_or_fail(c->decoder.model, 1);
    options.max_tokens = 2;
    make_prompt(prompt, n);
    const wisp_request request = {.ids = prompt, .n_ids = n, .options = &options};
    const wisp_status status = wisp_generate_batch(session, &request, 1, 1, NULL, error);
    wisp_session_close(session);
    return status;
}

static void what_cannot_slide_is_an_error(void **state) {
    wisp_error error;
    (void)state;
    struct context c = open_tiny(0);
    const size_t positions = c.positions;
    const wisp_generate_options slides = {.context_shift = true};
    wisp_generate_options keeps = {.context_shift = true, .keep_tokens = DECODER_POSITIONS - 2};
    assert_int_equal(try(&c, positions + 1, (wisp_generate_options){0}, &error),
                     WISP_ERROR_ARGUMENT);
    assert_string_equal(error.field, "prompt");
    assert_int_equal(try(&c, positions + 1, slides, &error), WISP_OK);
    assert_int_equal(try(&c, 0, slides, &error), WISP_ERROR_ARGUMENT);
    assert_string_equal(error.field, "prompt");
    assert_int_equal(try(&c, positions, keeps, &error), WISP_ERROR_ARGUMENT);
    assert_string_equal(error.field, "keep_tokens");
    assert_int_equal(try(&c, positions - 2, keeps, &error), WISP_OK); /* all of it may stay */
    keeps.keep_tokens--;
    assert_int_equal(try(&c, positions + 1, keeps, &error), WISP_OK);
    keeps.keep_tokens = UINT32_MAX;
    assert_int_equal(try(&c, positions - 1, keeps, &error), WISP_ERROR_ARGUMENT);
    decoder_release(&c.decoder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_are_those_of_the_tokens_left),
        cmocka_unit_test(convolutions_slide_too),
        cmocka_unit_test(texts_slide_beside_others),
        cmocka_unit_test(what_cannot_slide_is_an_error),
    };
    return cmocka_run_group_tests_name("a context that slides", tests, NULL, NULL);
}

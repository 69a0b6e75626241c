/* SPDX-License-Identifier: Apache-2.0
 * LongRoPE: texts of more tokens than the model was trained with have angles of their own. A text
 * that grows across that length goes on as a prompt of all its tokens does. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "quant/blocks.h"
#include "support/builder.h"
#include "support/decoders.h"
#include "support/golden.h"
#include "wisp.h"

#undef fail /* base/status.h has another */
#include <cmocka.h>

enum { ORIGINAL = 50, TOKENS = 40, LAST = 2, PAIRS = 4 };

/* The factors of the two tensors. */
static const char SHORT[] = "rope_factors_short.weight", LONG[] = "rope_factors_long.weight",
                  ALL[] = "rope_freqs.weight", TYPE[] = "llama.rope.scaling.type",
                  CONTEXT[] = "llama.rope.scaling.original_context_length";

static void add_factors(struct gguf *file, const char *name, float first, float times) {
    tiny_add_tensor(file, name, PAIRS, 1, BLOCK_F32);
    gguf_settle(file);
    for (size_t i = 0; i < PAIRS; i++) {
        bytes_set_f32(&gguf_tensor(file, name)->data, i * sizeof first, first);
        first *= times;
    }
}

/* Makes tiny_decoders[index], which is a Llama. */
static void make(struct gguf *file, size_t index) {
    decoder_make(file, &tiny_decoders[index]);
    gguf_set_text(file, TYPE, "longrope");
    gguf_set_u32(file, CONTEXT, ORIGINAL);
    gguf_set_f32(file, "llama.rope.scaling.attn_factor", 1.2f);
    add_factors(file, SHORT, 1, 1.2f);
    add_factors(file, LONG, 1.5f, 2);
}

static struct opened_decoder open_index(size_t index) {
    struct gguf file;
    struct opened_decoder c;
    wisp_error error;
    make(&file, index);
    if (decoder_open(&file, &c, &error) != WISP_OK)
        fail_msg("%s", error.message);
    return c;
}

struct ids {
    int32_t id[4 * DECODER_POSITIONS];
    size_t n;
};

static void make_prompt(int32_t *prompt, size_t n) {
    for (size_t i = 0; i < n; i++)
        prompt[i] = (int32_t)(3 + (i * i * 7 + i * 5) % 60);
}

/* Generates the likeliest tokens, each in a session that knows nothing. */
static void generate_anew(const struct opened_decoder *c, const int32_t *prompt, size_t n,
                          size_t most, struct ids *generated) {
    static int32_t text[2 * DECODER_POSITIONS];
    static float logits[DECODER_VOCABULARY];
    memcpy(text, prompt, n * sizeof *text);
    for (generated->n = 0; generated->n < most; n++) {
        wisp_session *session = open_session_or_fail(c->model, 1);
        int32_t best = 0;
        assert_int_equal(wisp_next_logits(session, text, n, logits, NULL), WISP_OK);
        for (int32_t id = 1; id < DECODER_VOCABULARY; id++)
            if (id != LAST && logits[id] > logits[best])
                best = id;
        text[n] = generated->id[generated->n++] = best;
        wisp_session_close(session);
    }
}

static bool take(void *context, const wisp_piece *piece) {
    struct ids *ids = context;
    if (piece->id >= 0)
        ids->id[ids->n++] = piece->id;
    return true;
}

/* No token ends the text. */
static const wisp_token_value no_end[] = {{LAST, -INFINITY}};

static wisp_generate_options options_of(struct ids *ids, uint32_t most) {
    ids->n = 0;
    return (wisp_generate_options){.max_tokens = most,
                                   .piece = take,
                                   .context = ids,
                                   .sampling = {.bias = no_end, .biases = 1}};
}

static wisp_generation generate(wisp_session *session, const int32_t *prompt, size_t n,
                                struct ids *ids) {
    wisp_generation result;
    wisp_error error;
    const wisp_generate_options options = options_of(ids, TOKENS);
    const wisp_request request = {.ids = prompt, .n_ids = n, .options = &options};
    if (wisp_generate_batch(session, &request, 1, 1, &result, &error) != WISP_OK)
        fail_msg("%s", error.message);
    return result;
}

static void expect_ids(const struct ids *got, const struct ids *expected) {
    assert_int_equal(got->n, expected->n);
    assert_memory_equal(got->id, expected->id, got->n * sizeof *got->id);
}

/* Prompts that end before, at and after the length, in one session: what a call knows of a long
 * text is of no use to a short one. */
static void texts_grow_across_the_length(void **state) {
    static const size_t lengths[] = {ORIGINAL - 9, ORIGINAL - 1, ORIGINAL,     ORIGINAL + 1,
                                     ORIGINAL,     60,           ORIGINAL - 9, 3};
    static int32_t prompt[DECODER_POSITIONS];
    (void)state;
    make_prompt(prompt, DECODER_POSITIONS);
    for (size_t index = 0; index < 2; index++) { /* the second has local layers */
        struct opened_decoder c = open_index(index);
        wisp_session *session = open_session_or_fail(c.model, 2);
        for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
            static struct ids got, expected;
            const wisp_generation result = generate(session, prompt, lengths[i], &got);
            assert_int_equal(result.prompt_tokens, lengths[i]);
            assert_int_equal(result.dropped_tokens, 0);
            generate_anew(&c, prompt, lengths[i], TOKENS, &expected);
            expect_ids(&got, &expected);
        }
        wisp_session_close(session);
        decoder_release(&c);
    }
}

/* Some of the texts become long while others are read, and they begin alike. */
static void texts_grow_beside_others(void **state) {
    enum { TEXTS = 5 };
    static struct ids got[TEXTS], expected;
    static int32_t prompt[DECODER_POSITIONS];
    wisp_generate_options options[TEXTS];
    wisp_request requests[TEXTS];
    wisp_error error;
    (void)state;
    make_prompt(prompt, DECODER_POSITIONS);
    struct opened_decoder c = open_index(0);
    wisp_session *session = open_session_or_fail(c.model, 3);
    for (size_t i = 0; i < TEXTS; i++) {
        options[i] = options_of(&got[i], TOKENS - (uint32_t)i);
        options[i].keep_tokens = UINT32_MAX; /* counts only if the context slides */
        requests[i] =
            (wisp_request){.ids = prompt, .n_ids = 20 + (TEXTS - i) * 9, .options = &options[i]};
    }
    if (wisp_generate_batch(session, requests, TEXTS, 3, NULL, &error) != WISP_OK)
        fail_msg("%s", error.message);
    for (size_t i = 0; i < TEXTS; i++) {
        generate_anew(&c, prompt, requests[i].n_ids, TOKENS - i, &expected);
        expect_ids(&got[i], &expected);
    }
    wisp_session_close(session);
    decoder_release(&c);
}

static void take_best(void *context, const wisp_hypothesis *hypothesis) {
    struct ids *ids = context;
    ids->n = hypothesis->tokens;
    memcpy(ids->id, hypothesis->ids, ids->n * sizeof *ids->id);
}

/* One beam is the likeliest token each time; of several each is scored as its tokens are. */
static void beams_grow_across_the_length(void **state) {
    static const char text[] = "a text of letters, whose tokens are few";
    static struct ids one, greedy;
    wisp_error error;
    (void)state;
    struct opened_decoder c = open_index(0);
    for (uint32_t beams = 1; beams <= 3; beams += 2) {
        wisp_session *session = open_session_or_fail(c.model, 2);
        const wisp_beam_options options = {
            .beams = beams, .max_tokens = TOKENS, .hypothesis = take_best, .context = &one};
        if (wisp_beam_search(session, wisp_text_of(text), &options, &error) != WISP_OK)
            fail_msg("%s", error.message);
        assert_true(one.n > 0);
        wisp_generate_options likeliest = options_of(&greedy, TOKENS);
        likeliest.sampling.biases = 0;
        if (wisp_generate(session, wisp_text_of(text), &likeliest, NULL, &error) != WISP_OK)
            fail_msg("%s", error.message);
        assert_true(greedy.n > ORIGINAL - sizeof text); /* so that it crosses the length */
        if (beams == 1)
            expect_ids(&one, &greedy);
        wisp_session_close(session);
    }
    decoder_release(&c);
}

/* A session that is saved in the middle of texts of both kinds goes on with the same logits. */
static void saved_texts_keep_their_kind(void **state) {
    static int32_t prompt[DECODER_POSITIONS];
    static struct ids got, expected;
    (void)state;
    make_prompt(prompt, DECODER_POSITIONS);
    struct opened_decoder c = open_index(0);
    for (size_t n = ORIGINAL - 1; n <= ORIGINAL + 1; n++) {
        wisp_session *session = open_session_or_fail(c.model, 1),
                     *other = open_session_or_fail(c.model, 1);
        size_t size, same;
        generate(session, prompt, n, &got);
        /* Leaves a short beginning of a long text. */
        if (n == ORIGINAL) {
            static float logprobs[DECODER_POSITIONS];
            wisp_session_cancel(session);
            assert_int_equal(wisp_score(session, prompt, n + 20, 1, logprobs, NULL),
                             WISP_ERROR_CANCELLED);
        }
        assert_int_equal(wisp_session_save_bytes(session, NULL, 0, &size, NULL), WISP_OK);
        unsigned char *bytes = malloc(size);
        assert_non_null(bytes);
        assert_int_equal(wisp_session_save_bytes(session, bytes, size, &same, NULL), WISP_OK);
        assert_int_equal(size, same);
        assert_int_equal(wisp_session_load_bytes(other, bytes, size, NULL), WISP_OK);
        free(bytes);
        for (size_t longer = n; longer < n + 30; longer += 7) {
            generate(other, prompt, longer, &got);
            generate_anew(&c, prompt, longer, TOKENS, &expected);
            expect_ids(&got, &expected);
        }
        wisp_session_close(session);
        wisp_session_close(other);
    }
    decoder_release(&c);
}

/* A context that slides keeps half of a text and a token, which may be short, and grow again. */
static void a_context_that_slides_may_become_short(void **state) {
    static struct ids slid, anew, part;
    static int32_t text[2 * DECODER_POSITIONS];
    enum { MOST = 200, START = 60, HALF = DECODER_POSITIONS / 2 };
    wisp_error error;
    struct gguf file;
    struct opened_decoder c;
    (void)state;
    make(&file, 0);
    gguf_set_u32(&file, CONTEXT, HALF + 5);
    assert_int_equal(decoder_open(&file, &c, &error), WISP_OK);
    wisp_session *session = open_session_or_fail(c.model, 1);
    wisp_generate_options options = options_of(&slid, MOST);
    options.context_shift = true;
    make_prompt(text, START);
    const wisp_request request = {.ids = text, .n_ids = START, .options = &options};
    assert_int_equal(wisp_generate_batch(session, &request, 1, 1, NULL, NULL), WISP_OK);
    wisp_session_close(session);
    for (size_t n = START; anew.n < MOST;) {
        const size_t left = MOST - anew.n, room = DECODER_POSITIONS + 1 - n;
        generate_anew(&c, text, n, left < room ? left : room, &part);
        memcpy(anew.id + anew.n, part.id, part.n * sizeof *part.id);
        anew.n += part.n;
        memcpy(text + n, part.id, part.n * sizeof *part.id);
        n += part.n;
        if (n > DECODER_POSITIONS)
            memmove(text, text + HALF, (n -= HALF) * sizeof *text);
    }
    expect_ids(&slid, &anew);
    decoder_release(&c);
}

/* ---- what is refused ------------------------------------------------------------------------ */

static void expect_refusal(struct gguf *file, wisp_status expected, const char *field) {
    struct opened_decoder c;
    wisp_error error = {.message = "it opened"};
    const wisp_status status = decoder_open(file, &c, &error);
    if (status != expected || strcmp(error.field, field) != 0)
        fail_msg("%s: %d, %s: %s", field, (int)status, error.field, error.message);
    decoder_release(&c);
}

static void bad_settings_are_named(void **state) {
    static const char attention[] = "llama.rope.scaling.attn_factor",
                      factor[] = "llama.rope.scaling.factor", old[] = "llama.rope.scale_linear";
    struct gguf file;
    (void)state;
    make(&file, 0);
    gguf_drop_tensor(&file, LONG);
    expect_refusal(&file, WISP_ERROR_NOT_FOUND, LONG);
    make(&file, 0);
    gguf_drop_tensor(&file, SHORT);
    expect_refusal(&file, WISP_ERROR_NOT_FOUND, SHORT);
    make(&file, 0);
    bytes_set_f32(&gguf_tensor(&file, LONG)->data, 4, 0.5f);
    expect_refusal(&file, WISP_ERROR_FORMAT, LONG);
    make(&file, 0);
    bytes_set_f32(&gguf_tensor(&file, SHORT)->data, 4, NAN);
    expect_refusal(&file, WISP_ERROR_FORMAT, SHORT);
    make(&file, 0);
    gguf_drop_tensor(&file, LONG);
    tiny_add_tensor(&file, LONG, PAIRS + 1, 1, BLOCK_F32);
    gguf_settle(&file);
    expect_refusal(&file, WISP_ERROR_FORMAT, LONG);
    make(&file, 0);
    add_factors(&file, ALL, 1, 1);
    expect_refusal(&file, WISP_ERROR_UNSUPPORTED, ALL);
    make(&file, 0);
    gguf_set_u32(&file, CONTEXT, 0);
    expect_refusal(&file, WISP_ERROR_FORMAT, CONTEXT);
    make(&file, 0);
    gguf_set_f32(&file, attention, 0);
    expect_refusal(&file, WISP_ERROR_FORMAT, attention);
    make(&file, 0);
    gguf_set_f32(&file, factor, 2);
    expect_refusal(&file, WISP_ERROR_UNSUPPORTED, factor);
    make(&file, 0);
    gguf_set_f32(&file, old, 2);
    expect_refusal(&file, WISP_ERROR_UNSUPPORTED, old);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_grow_across_the_length),
        cmocka_unit_test(texts_grow_beside_others),
        cmocka_unit_test(beams_grow_across_the_length),
        cmocka_unit_test(saved_texts_keep_their_kind),
        cmocka_unit_test(a_context_that_slides_may_become_short),
        cmocka_unit_test(bad_settings_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0
 * Generating text with the model that comes with wisp: compared with transformers on files of the
 * repository (tests/oracle/make_stories_golden.py writes them), and with itself in every way a text
 * can be computed. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "support/golden.h"

#undef fail /* base/status.h has another */
#include <cmocka.h>

enum { VOCABULARY = 512, CONTEXT = 512, TEXT_BYTES = 4096 };

static const char stories[] = "models/wisp-stories.gguf";

/* ---- the golden ----------------------------------------------------------------------------- */

struct fixture {
    struct arena arena;
    char *bytes;
    const struct json *golden;
    float *logits; /* [positions, VOCABULARY] */
};

static int set_up(void **state) {
    struct fixture *f = calloc(1, sizeof *f);
    char path[GOLDEN_PATH_BYTES];
    assert_non_null(f);
    f->logits = read_file(data_path("golden-stories.f32", path), NULL);
    f->golden = read_json_file(data_path("golden-stories.json", path), &f->arena, &f->bytes);
    *state = f;
    return 0;
}

static int tear_down(void **state) {
    struct fixture *f = *state;
    arena_release(&f->arena);
    free(f->bytes);
    free(f->logits);
    free(f);
    return 0;
}

static wisp_text text_of(const struct fixture *f, const char *key) {
    const struct json *text = json_get(f->golden, key);
    assert_true(json_is(text, JSON_STRING));
    return (wisp_text){text->text, text->text_length};
}

/* Copies an array of numbers and returns its length. */
static size_t numbers_of(const struct fixture *f, const char *key, int32_t *numbers) {
    size_t n = 0;
    for (const struct json *item = json_get(f->golden, key)->first; item; item = item->next) {
        int64_t value;
        assert_true(json_to_i64(item, &value) && n < CONTEXT);
        numbers[n++] = (int32_t)value;
    }
    return n;
}

/* ---- calls ---------------------------------------------------------------------------------- */

struct opened {
    wisp_model *model;
    wisp_session *session;
};

static struct opened open_stories(wisp_compute compute, const char *kernels, uint32_t threads) {
    struct opened o = {.model = open_model_or_fail(stories, compute, kernels)};
    const wisp_session_options options = {.threads = threads};
    wisp_error error;
    assert_int_equal(wisp_session_open(o.model, &options, &o.session, &error), WISP_OK);
    return o;
}

static void close_stories(struct opened o) {
    wisp_session_close(o.session);
    wisp_model_close(o.model);
}

/* The text of one call, in the pieces that were handed out. */
struct story {
    char text[TEXT_BYTES];
    size_t length, pieces;
    size_t most_pieces; /* the callback ends the text after so many; 0: never */
    wisp_generation result;
};

static bool take_piece(void *context, const wisp_piece *piece) {
    struct story *story = context;
    assert_true(story->length + piece->text.length < TEXT_BYTES);
    memcpy(story->text + story->length, piece->text.bytes, piece->text.length);
    story->length += piece->text.length;
    story->text[story->length] = '\0';
    return ++story->pieces != story->most_pieces;
}

static void tell(wisp_session *session, const char *prompt, wisp_generate_options options,
                 struct story *story) {
    wisp_error error;
    story->length = story->pieces = 0;
    story->text[0] = '\0';
    options.piece = take_piece;
    options.context = story;
    if (wisp_generate(session, wisp_text_of(prompt), &options, &story->result, &error) != WISP_OK)
        fail_msg("%s", error.message);
}

/* ---- beside transformers -------------------------------------------------------------------- */

static void token_ids_are_those_of_hugging_face(void **state) {
    const struct fixture *f = *state;
    wisp_model *model = open_model_or_fail(stories, WISP_COMPUTE_AUTO, NULL);
    static const char *const texts[] = {"text", "prompt"}, *const ids[] = {"ids", "prompt_ids"};
    for (size_t i = 0; i < 2; i++) {
        int32_t expected[CONTEXT], got[CONTEXT];
        size_t n;
        wisp_error error;
        const size_t count = numbers_of(f, ids[i], expected);
        assert_int_equal(wisp_tokenize(model, text_of(f, texts[i]), got, CONTEXT, &n, &error),
                         WISP_OK);
        assert_int_equal(n, count);
        assert_memory_equal(got, expected, n * sizeof *got);
    }
    wisp_model_close(model);
}

static double perplexity_of(const float *logits, const int32_t *ids, size_t n) {
    double loss = 0;
    for (size_t t = 0; t + 1 < n; t++) {
        const float *row = logits + t * VOCABULARY;
        double sum = 0;
        for (size_t i = 0; i < VOCABULARY; i++)
            sum += exp((double)row[i]);
        loss += log(sum) - (double)row[ids[t + 1]];
    }
    return exp(loss / (double)(n - 1));
}

static void logits_are_those_of_pytorch(void **state) {
    const struct fixture *f = *state;
    static float logits[CONTEXT * VOCABULARY];
    int32_t ids[CONTEXT], positions[CONTEXT];
    const size_t n = numbers_of(f, "ids", ids), rows = numbers_of(f, "positions", positions);
    double perplexity;
    assert_true(json_to_double(json_get(f->golden, "perplexity"), &perplexity));
    const char *name;
    for (size_t set = 0; (name = wisp_kernels_name(set)) != NULL; set++) {
        const struct opened o = open_stories(WISP_COMPUTE_F32, name, 1);
        wisp_error error;
        assert_int_equal(wisp_logits(o.session, ids, n, logits, &error), WISP_OK);
        for (size_t r = 0; r < rows; r++) {
            const float *row = logits + (size_t)positions[r] * VOCABULARY;
            const float *expected = f->logits + r * VOCABULARY;
            double largest = 0;
            for (size_t i = 0; i < VOCABULARY; i++)
                largest = fmax(largest, fabs((double)expected[i]));
            for (size_t i = 0; i < VOCABULARY; i++)
                if (fabs((double)row[i] - (double)expected[i]) > 1e-5 * largest)
                    fail_msg("%s, position %d, token %zu: %g, where PyTorch has %g", name,
                             positions[r], i, (double)row[i], (double)expected[i]);
        }
        assert_true(fabs(perplexity_of(logits, ids, n) / perplexity - 1) < 1e-5);
        close_stories(o);
    }
}

static void greedy_text_is_that_of_transformers(void **state) {
    const struct fixture *f = *state;
    const wisp_text prompt = text_of(f, "prompt"), expected = text_of(f, "greedy_text");
    const char *name;
    for (size_t set = 0; (name = wisp_kernels_name(set)) != NULL; set++) {
        const struct opened o = open_stories(WISP_COMPUTE_F32, name, 1);
        struct story story = {0};
        tell(o.session, prompt.bytes, (wisp_generate_options){0}, &story);
        assert_string_equal(story.text, expected.bytes);
        assert_int_equal(story.result.end, WISP_END_TOKEN);
        close_stories(o);
    }
}

/* ---- the same bits -------------------------------------------------------------------------- */

/* Logits of a text do not depend on the number of threads, nor on how much of the text a call
 * computes: the first n tokens have the logits that they have in the whole text. */
static void logits_do_not_depend_on_the_call(void **state) {
    const struct fixture *f = *state;
    static float whole[CONTEXT * VOCABULARY], again[CONTEXT * VOCABULARY];
    int32_t ids[CONTEXT];
    const size_t n = numbers_of(f, "ids", ids);
    for (int compute = WISP_COMPUTE_F32; compute <= WISP_COMPUTE_INT8; compute++) {
        const struct opened one = open_stories((wisp_compute)compute, NULL, 1);
        const struct opened four = open_stories((wisp_compute)compute, NULL, 4);
        wisp_error error;
        assert_int_equal(wisp_logits(one.session, ids, n, whole, &error), WISP_OK);
        assert_int_equal(wisp_logits(four.session, ids, n, again, &error), WISP_OK);
        assert_memory_equal(whole, again, n * VOCABULARY * sizeof *whole);
        for (size_t length = 1; length < n; length += 13) {
            assert_int_equal(wisp_logits(one.session, ids, length, again, &error), WISP_OK);
            assert_memory_equal(whole, again, length * VOCABULARY * sizeof *whole);
        }
        close_stories(one);
        close_stories(four);
    }
}

/* A prompt that is read at once gives the text that it gives after parts of it were generated token
 * by token, or read before. */
static void reused_tokens_change_nothing(void **state) {
    static const char *const prompts[] = {"Once upon a time", "Once upon a time, there was a dog",
                                          "Once", "The moon", "Once upon a time"};
    (void)state;
    for (int compute = WISP_COMPUTE_F32; compute <= WISP_COMPUTE_INT8; compute++) {
        const struct opened kept = open_stories((wisp_compute)compute, NULL, 1);
        for (size_t i = 0; i < sizeof prompts / sizeof *prompts; i++) {
            const struct opened fresh = open_stories((wisp_compute)compute, NULL, 2);
            struct story first = {0}, second = {0};
            tell(fresh.session, prompts[i], (wisp_generate_options){0}, &first);
            tell(kept.session, prompts[i], (wisp_generate_options){0}, &second);
            assert_string_equal(first.text, second.text);
            assert_int_equal(first.result.reused_tokens, 0);
            if (i > 0 && prompts[i][0] == 'O' && prompts[i - 1][0] == 'O')
                assert_true(second.result.reused_tokens > 0);
            close_stories(fresh);
        }
        close_stories(kept);
    }
}

/* Each pass after the prompt's reads the weights, and the keys and values of 5 layers with 4 heads
 * of 8 values: of 5 positions of the prompt and those generated before. */
static void bytes_that_are_read_are_counted(void **state) {
    const uint64_t position = 5 * 2 * 4 * 8;
    uint64_t weights = 0;
    (void)state;
    for (int i = 0; i < 2; i++) {
        const wisp_cache_type type = i == 0 ? WISP_CACHE_F32 : WISP_CACHE_F16;
        struct opened o = {.model = open_model_or_fail(stories, WISP_COMPUTE_F32, NULL)};
        const wisp_session_options options = {.threads = 1, .cache_type = type};
        struct story one = {0}, three = {0};
        wisp_error error;
        assert_int_equal(wisp_session_open(o.model, &options, &o.session, &error), WISP_OK);
        tell(o.session, "Once upon a time", (wisp_generate_options){.max_tokens = 1}, &one);
        assert_int_equal(one.result.read_bytes, 0);
        assert_int_equal(one.result.prompt_tokens, 5);
        tell(o.session, "Once upon a time", (wisp_generate_options){.max_tokens = 3}, &three);
        const uint64_t cached = (6 + 7) * position * (type == WISP_CACHE_F32 ? 4 : 2);
        assert_true(three.result.read_bytes > cached);
        if (type == WISP_CACHE_F32)
            weights = three.result.read_bytes - cached;
        assert_int_equal(three.result.read_bytes - cached, weights);
        close_stories(o);
    }
}

/* ---- how a text ends ------------------------------------------------------------------------ */

static void texts_end_where_they_should(void **state) {
    const struct opened o = open_stories(WISP_COMPUTE_F32, NULL, 1);
    static const char *const stops[] = {"xyzzy", "red ball. She", "never"};
    struct story whole = {0}, story = {0};
    (void)state;
    tell(o.session, "Once upon a time", (wisp_generate_options){0}, &whole);
    tell(o.session, "Once upon a time", (wisp_generate_options){.max_tokens = 7}, &story);
    assert_int_equal(story.result.end, WISP_END_LENGTH);
    assert_int_equal(story.result.tokens, 7);
    assert_memory_equal(story.text, whole.text, story.length);

    tell(o.session, "Once upon a time", (wisp_generate_options){.stop = stops, .stops = 3}, &story);
    assert_int_equal(story.result.end, WISP_END_STOP);
    const char *stop = strstr(whole.text, stops[1]);
    assert_int_equal(story.length, stop - whole.text);
    assert_memory_equal(story.text, whole.text, story.length);

    story.most_pieces = 3;
    tell(o.session, "Once upon a time", (wisp_generate_options){0}, &story);
    assert_int_equal(story.result.end, WISP_END_CALLER);
    assert_int_equal(story.pieces, 3);
    story.most_pieces = 0;

    /* A penalty makes each token come once; the one that ends texts, </s>, comes as well. */
    tell(o.session, "Once upon a time, there was a little dog",
         (wisp_generate_options){.sampling = {.presence_penalty = 1e6f}}, &story);
    assert_int_equal(story.result.end, WISP_END_TOKEN);

    /* A prompt that nearly fills the context. */
    char prompt[TEXT_BYTES];
    size_t length = 0;
    for (size_t tokens = 0; tokens < CONTEXT - 20;) {
        length += (size_t)snprintf(prompt + length, sizeof prompt - length,
                                   "Once upon a time, there was a little dog. ");
        assert_int_equal(wisp_tokenize(o.model, wisp_text_of(prompt), NULL, 0, &tokens, NULL),
                         WISP_OK);
        assert_true(tokens < CONTEXT && length < TEXT_BYTES - 64);
    }
    tell(o.session, prompt, (wisp_generate_options){0}, &story);
    assert_int_equal(story.result.end, WISP_END_CONTEXT);
    assert_int_equal(story.result.prompt_tokens + story.result.tokens, CONTEXT + 1);
    close_stories(o);
}

/* ---- sampling ------------------------------------------------------------------------------- */

static void a_seed_gives_one_text(void **state) {
    const struct opened o = open_stories(WISP_COMPUTE_F32, NULL, 1);
    static struct story stories_of[4];
    (void)state;
    for (uint64_t seed = 0; seed < 4; seed++) {
        const wisp_generate_options options = {
            .max_tokens = 60,
            .sampling = {.temperature = 1, .top_k = 40, .top_p = 0.95f, .seed = seed}};
        struct story again = {0};
        tell(o.session, "The", options, &stories_of[seed]);
        tell(o.session, "The", options, &again);
        assert_string_equal(stories_of[seed].text, again.text);
        for (uint64_t other = 0; other < seed; other++)
            assert_string_not_equal(stories_of[seed].text, stories_of[other].text);
    }
    close_stories(o);
}

/* With any of these settings only the most likely token is left. */
static void narrow_choices_are_greedy(void **state) {
    const struct opened o = open_stories(WISP_COMPUTE_F32, NULL, 1);
    static const wisp_sampling narrow[] = {{.temperature = 1, .top_k = 1},
                                           {.temperature = 1, .top_p = 1e-6f},
                                           {.temperature = 1, .min_p = 1},
                                           {.temperature = 1e-6f}};
    struct story greedy = {0}, story = {0};
    (void)state;
    tell(o.session, "Tom", (wisp_generate_options){.max_tokens = 50}, &greedy);
    for (size_t i = 0; i < sizeof narrow / sizeof *narrow; i++) {
        const wisp_generate_options options = {.max_tokens = 50, .sampling = narrow[i]};
        tell(o.session, "Tom", options, &story);
        assert_string_equal(story.text, greedy.text);
    }
    close_stories(o);
}

/* ---- bad calls ------------------------------------------------------------------------------ */

static void bad_calls_are_errors(void **state) {
    const struct opened o = open_stories(WISP_COMPUTE_F32, NULL, 1);
    static const struct {
        wisp_sampling sampling;
        const char *field;
    } faults[] = {{{.temperature = -1}, "temperature"},
                  {{.temperature = NAN}, "temperature"},
                  {{.top_p = 1.5f}, "top_p"},
                  {{.min_p = -0.1f}, "min_p"},
                  {{.repetition_penalty = -1}, "repetition_penalty"}};
    wisp_error error;
    (void)state;
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        const wisp_generate_options options = {.sampling = faults[i].sampling};
        assert_int_equal(wisp_generate(o.session, wisp_text_of("a"), &options, NULL, &error),
                         WISP_ERROR_ARGUMENT);
        assert_string_equal(error.field, faults[i].field);
    }
    char longest[2000];
    memset(longest, 'q', sizeof longest);
    assert_int_equal(
        wisp_generate(o.session, (wisp_text){longest, sizeof longest}, NULL, NULL, &error),
        WISP_ERROR_ARGUMENT);
    assert_string_equal(error.field, "prompt");
    float logits[VOCABULARY];
    assert_int_equal(wisp_logits(o.session, (const int32_t[]){VOCABULARY}, 1, logits, &error),
                     WISP_ERROR_ARGUMENT);
    assert_int_equal(wisp_logits(o.session, (const int32_t[]){-1}, 1, logits, &error),
                     WISP_ERROR_ARGUMENT);
    assert_int_equal(wisp_embed(o.session, &(wisp_text){"a", 1}, 1, NULL, logits, &error),
                     WISP_ERROR_UNSUPPORTED);
    assert_string_equal(error.field, "general.architecture");

    /* The session remains usable, and a cancelled call leaves it so. */
    struct story before = {0}, after = {0};
    tell(o.session, "One", (wisp_generate_options){.max_tokens = 20}, &before);
    wisp_session_cancel(o.session);
    assert_int_equal(wisp_generate(o.session, wisp_text_of("Two dogs"), NULL, NULL, &error),
                     WISP_ERROR_CANCELLED);
    tell(o.session, "One", (wisp_generate_options){.max_tokens = 20}, &after);
    assert_string_equal(before.text, after.text);
    close_stories(o);
}

static void encoders_generate_nothing(void **state) {
    wisp_model *model = open_model_or_fail("models/wisp-default.gguf", WISP_COMPUTE_AUTO, NULL);
    wisp_session *session;
    wisp_error error;
    (void)state;
    assert_int_equal(wisp_session_open(model, NULL, &session, &error), WISP_OK);
    assert_int_equal(wisp_generate(session, wisp_text_of("a"), NULL, NULL, &error),
                     WISP_ERROR_UNSUPPORTED);
    assert_string_equal(error.field, "general.architecture");
    wisp_session_close(session);
    wisp_model_close(model);
}

static void decoders_are_not_calibrated(void **state) {
    static const wisp_text texts[] = {{"One day.", 8}};
    wisp_error error;
    (void)state;
    assert_int_equal(wisp_calibrate(stories, "build/never.gguf", texts, 1, NULL, &error),
                     WISP_ERROR_UNSUPPORTED);
    assert_string_equal(error.field, "general.architecture");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(token_ids_are_those_of_hugging_face),
        cmocka_unit_test(logits_are_those_of_pytorch),
        cmocka_unit_test(greedy_text_is_that_of_transformers),
        cmocka_unit_test(logits_do_not_depend_on_the_call),
        cmocka_unit_test(reused_tokens_change_nothing),
        cmocka_unit_test(bytes_that_are_read_are_counted),
        cmocka_unit_test(texts_end_where_they_should),
        cmocka_unit_test(a_seed_gives_one_text),
        cmocka_unit_test(narrow_choices_are_greedy),
        cmocka_unit_test(bad_calls_are_errors),
        cmocka_unit_test(encoders_generate_nothing),
        cmocka_unit_test(decoders_are_not_calibrated),
    };
    return cmocka_run_group_tests_name("generate", tests, set_up, tear_down);
}

/* SPDX-License-Identifier: Apache-2.0
 * Pieces of generated texts with their ids and log-probabilities, many texts at a time, and scores
 * of given texts. Every number has the bits that it has if its text is computed alone. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/allocations.h"
#include "support/golden.h"

#undef fail /* base/status.h has another */
#include <cmocka.h>

enum { VOCABULARY = 512, TEXT_BYTES = 4096, MOST_PIECES = 600, LIKELY = 3, REQUESTS = 9 };

static const char stories[] = "models/wisp-stories.gguf";

/* Pieces that the callback received. */
struct heard {
    char text[TEXT_BYTES];
    size_t length, pieces;
    int32_t ids[MOST_PIECES];
    float logprobs[MOST_PIECES];
    wisp_token_value likely[MOST_PIECES][LIKELY];
    size_t held; /* pieces without text */
    size_t failures;
    wisp_session *cancels;
};

static bool hear(void *context, const wisp_piece *piece) {
    struct heard *h = context;
    assert_true(h->length + piece->text.length < TEXT_BYTES && h->pieces < MOST_PIECES);
    memcpy(h->text + h->length, piece->text.bytes, piece->text.length);
    h->length += piece->text.length;
    h->text[h->length] = '\0';
    h->held += piece->text.length == 0;
    h->ids[h->pieces] = piece->id;
    h->logprobs[h->pieces] = piece->logprob;
    if (piece->likely_count > 0) {
        assert_int_equal(piece->likely_count, LIKELY);
        memcpy(h->likely[h->pieces], piece->likely, sizeof h->likely[0]);
    }
    h->pieces++;
    if (h->cancels)
        wisp_session_cancel(h->cancels);
    return true;
}

struct opened {
    wisp_model *model;
    wisp_session *session;
};

static struct opened open_stories(wisp_compute compute, uint32_t threads) {
    struct opened o = {.model = open_model_or_fail(stories, compute, NULL)};
    o.session = open_session_or_fail(o.model, threads);
    return o;
}

static void close_stories(struct opened o) {
    wisp_session_close(o.session);
    wisp_model_close(o.model);
}

static wisp_generation generate(wisp_session *session, const char *prompt,
                                wisp_generate_options options, struct heard *heard) {
    wisp_generation result;
    wisp_error error;
    *heard = (struct heard){0};
    options.piece = hear;
    options.context = heard;
    if (wisp_generate(session, wisp_text_of(prompt), &options, &result, &error) != WISP_OK)
        fail_msg("%s", error.message);
    return result;
}

/* ---- pieces --------------------------------------------------------------------------------- */

static void pieces_have_tokens_and_probabilities(void **state) {
    const struct opened o = open_stories(WISP_COMPUTE_F32, 1);
    const wisp_generate_options options = {
        .max_tokens = 60, .logprobs = LIKELY, .sampling = {.temperature = 1.2f, .seed = 3}};
    static struct heard heard;
    static int32_t ids[MOST_PIECES];
    static float scores[MOST_PIECES];
    char joined[TEXT_BYTES] = "";
    size_t n;
    wisp_error error;
    (void)state;
    const wisp_generation result = generate(o.session, "One day", options, &heard);
    assert_int_equal(heard.pieces, result.tokens);
    assert_int_equal(wisp_tokenize(o.model, wisp_text_of("One day"), ids, MOST_PIECES, &n, &error),
                     WISP_OK);
    assert_int_equal(n, result.prompt_tokens);
    bool unlikely = false;
    for (size_t i = 0; i < heard.pieces; i++) {
        wisp_text text;
        assert_true(wisp_token_text(o.model, heard.ids[i], &text));
        strncat(joined, text.bytes, text.length);
        ids[n + i] = heard.ids[i];
        const wisp_token_value *likely = heard.likely[i];
        bool among = false;
        for (size_t k = 0; k < LIKELY; k++) {
            assert_true(likely[k].value <= 0 && (k == 0 || likely[k].value <= likely[k - 1].value));
            if (likely[k].id == heard.ids[i]) {
                assert_true(likely[k].value == heard.logprobs[i]);
                among = true;
            }
        }
        assert_true(among || heard.logprobs[i] <= likely[LIKELY - 1].value);
        unlikely = unlikely || !among;
    }
    assert_string_equal(joined, heard.text);
    assert_true(unlikely); /* with this temperature some token is not among the likeliest */

    assert_int_equal(wisp_score(o.session, ids, n + heard.pieces, n, scores, &error), WISP_OK);
    assert_memory_equal(scores, heard.logprobs, heard.pieces * sizeof *scores);
    close_stories(o);
}

/* Text that may begin a stop text is held back, and comes when it does not become one or when the
 * text ends. */
static void text_is_held_back(void **state) {
    const struct opened o = open_stories(WISP_COMPUTE_F32, 1);
    static struct heard whole, heard;
    static const char *const begins[] = {"the end of all days"};
    char last[64] = "";
    (void)state;
    wisp_generation result =
        generate(o.session, "Once upon a time", (wisp_generate_options){0}, &whole);
    assert_int_equal(result.end, WISP_END_TOKEN);
    assert_int_equal(whole.held, 0);

    /* A stop text that the story begins often but never completes. */
    result = generate(o.session, "Once upon a time",
                      (wisp_generate_options){.stop = begins, .stops = 1}, &heard);
    assert_int_equal(result.end, WISP_END_TOKEN);
    assert_true(heard.held > 0);
    assert_string_equal(heard.text, whole.text);

    /* The stop text begins with the story's last words: they come in a piece without a token. */
    snprintf(last, sizeof last, "%s and more", whole.text + whole.length - 10);
    const char *const ends[] = {last};
    result = generate(o.session, "Once upon a time",
                      (wisp_generate_options){.stop = ends, .stops = 1}, &heard);
    assert_string_equal(heard.text, whole.text);
    assert_int_equal(heard.pieces, result.tokens + 1);
    assert_int_equal(heard.ids[heard.pieces - 1], -1);

    /* A token that ends the text is not part of it. */
    const int32_t stop_id = whole.ids[20];
    result = generate(o.session, "Once upon a time",
                      (wisp_generate_options){.stop_id = &stop_id, .stop_ids = 1}, &heard);
    assert_int_equal(result.end, WISP_END_TOKEN);
    assert_true(heard.pieces <= 20);
    for (size_t i = 0; i < heard.pieces; i++)
        assert_int_not_equal(heard.ids[i], stop_id);
    close_stories(o);
}

/* ---- many texts ----------------------------------------------------------------------------- */

static const char *const prompts[REQUESTS] = {
    "Once upon a time",
    "Once upon a time, there was a little dog who liked to run in the park",
    "The",
    "Once upon a time, there was a little dog who liked to sing",
    "One day, Tom and Lily went to the beach. They saw a big",
    "Once upon a time",
    "A",
    "Once upon a time, there was a little dog who liked to run in the park. He",
    "Tom"};

static wisp_generate_options options_of(size_t i) {
    return (wisp_generate_options){.max_tokens = (uint32_t)(5 + 37 * i % 90),
                                   .logprobs = LIKELY,
                                   .sampling = {.temperature = i % 3 == 0 ? 0 : 0.9f,
                                                .top_k = 40,
                                                .frequency_penalty = i % 2 ? 0.3f : 0,
                                                .seed = i}};
}

static void texts_are_those_that_come_alone(void **state) {
    static struct heard alone[REQUESTS], together[REQUESTS];
    static const size_t at_once[] = {0, 1, 2, 3, REQUESTS, 1000};
    (void)state;
    for (int compute = WISP_COMPUTE_F32; compute <= WISP_COMPUTE_INT8; compute++) {
        for (size_t i = 0; i < REQUESTS; i++) {
            const struct opened fresh = open_stories((wisp_compute)compute, 1);
            generate(fresh.session, prompts[i], options_of(i), &alone[i]);
            close_stories(fresh);
        }
        for (uint32_t threads = 1; threads <= 4; threads += 3) {
            const struct opened o = open_stories((wisp_compute)compute, threads);
            for (size_t k = 0; k < sizeof at_once / sizeof *at_once; k++) {
                wisp_generate_options options[REQUESTS];
                wisp_request requests[REQUESTS];
                wisp_generation results[REQUESTS];
                wisp_error error;
                memset(together, 0, sizeof together);
                for (size_t i = 0; i < REQUESTS; i++) {
                    options[i] = options_of(i);
                    options[i].piece = hear;
                    options[i].context = &together[i];
                    requests[i] =
                        (wisp_request){.prompt = wisp_text_of(prompts[i]), .options = &options[i]};
                }
                if (wisp_generate_batch(o.session, requests, REQUESTS, at_once[k], results,
                                        &error) != WISP_OK)
                    fail_msg("%s", error.message);
                for (size_t i = 0; i < REQUESTS; i++) {
                    if (memcmp(&alone[i], &together[i], sizeof alone[i]) != 0)
                        fail_msg("compute %d, %u threads, %zu at once, text %zu: \"%s\", alone "
                                 "\"%s\"",
                                 compute, threads, at_once[k], i, together[i].text, alone[i].text);
                    assert_int_equal(results[i].tokens,
                                     together[i].pieces -
                                         (together[i].ids[together[i].pieces - 1] < 0));
                }
            }
            close_stories(o);
        }
    }
}

/* Tokens that prompts begin with in common are computed once. */
static void prompts_share_what_they_begin_with(void **state) {
    enum { TEXTS = 5 };
    const struct opened o = open_stories(WISP_COMPUTE_F32, 1);
    wisp_generate_options options = {.max_tokens = 3};
    wisp_request requests[TEXTS];
    wisp_generation results[TEXTS];
    wisp_stats before, after;
    wisp_error error;
    (void)state;
    for (size_t i = 0; i < TEXTS; i++)
        requests[i] = (wisp_request){.prompt = wisp_text_of(prompts[1]), .options = &options};
    wisp_session_get_stats(o.session, &before);
    assert_int_equal(wisp_generate_batch(o.session, requests, TEXTS, TEXTS, results, &error),
                     WISP_OK);
    wisp_session_get_stats(o.session, &after);
    assert_int_equal(results[0].reused_tokens, 0);
    for (size_t i = 1; i < TEXTS; i++)
        assert_int_equal(results[i].reused_tokens, results[i].prompt_tokens - 1);
    /* The prompt, its last token again for each other text, and two tokens of each text. */
    assert_int_equal(after.tokens - before.tokens,
                     results[0].prompt_tokens + (TEXTS - 1) + 2 * TEXTS);

    /* Prompts of ids are those of the texts. */
    static struct heard text, ids;
    int32_t prompt[64];
    size_t n;
    options = (wisp_generate_options){.max_tokens = 20};
    generate(o.session, "The moon", options, &text);
    assert_int_equal(wisp_tokenize(o.model, wisp_text_of("The moon"), prompt, 64, &n, &error),
                     WISP_OK);
    options.piece = hear;
    options.context = &ids;
    assert_int_equal(wisp_generate_batch(
                         o.session, &(wisp_request){.ids = prompt, .n_ids = n, .options = &options},
                         1, 0, NULL, &error),
                     WISP_OK);
    assert_string_equal(text.text, ids.text);
    close_stories(o);
}

static void bad_batches_generate_nothing(void **state) {
    const struct opened o = open_stories(WISP_COMPUTE_F32, 1);
    static struct heard heard, after;
    static char longest[3000];
    const int32_t past = VOCABULARY;
    wisp_generate_options good = {.max_tokens = 5, .piece = hear, .context = &heard};
    const wisp_generate_options hot = {.sampling = {.temperature = -1}};
    wisp_error error;
    (void)state;
    memset(longest, 'q', sizeof longest);
    const wisp_request faults[] = {
        {.prompt = {longest, sizeof longest}, .options = &good},
        {.prompt = {NULL, 3}, .options = &good},
        {.prompt = {"a", 1}, .options = &hot},
        {.ids = &past, .n_ids = 1, .options = &good},
        {.ids = &past, .n_ids = 0, .options = &good},
    };
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        const wisp_request requests[] = {{.prompt = {"a", 1}, .options = &good}, faults[i]};
        assert_int_equal(wisp_generate_batch(o.session, requests, 2, 0, NULL, &error),
                         WISP_ERROR_ARGUMENT);
        assert_memory_equal(error.message, "request 1: ", 11);
        assert_int_equal(heard.pieces, 0);
    }
    assert_int_equal(wisp_generate_batch(o.session, NULL, 0, 0, NULL, &error), WISP_OK);

    /* A batch that is cancelled from its callback leaves the session usable. */
    heard.cancels = o.session;
    const wisp_request cancelled[] = {{.prompt = {"a", 1}, .options = &good},
                                      {.prompt = {"b", 1}, .options = &good}};
    assert_int_equal(wisp_generate_batch(o.session, cancelled, 2, 0, NULL, &error),
                     WISP_ERROR_CANCELLED);
    generate(o.session, "a", (wisp_generate_options){.max_tokens = 5}, &heard);
    const struct opened fresh = open_stories(WISP_COMPUTE_F32, 1);
    generate(fresh.session, "a", (wisp_generate_options){.max_tokens = 5}, &after);
    assert_string_equal(heard.text, after.text);
    close_stories(fresh);
    close_stories(o);
}

static void ignore_hypothesis(void *context, const wisp_hypothesis *hypothesis) {
    (void)context;
    (void)hypothesis;
}

/* Tokens of a prompt beyond the context are counted up to a bound, so that a text of megabytes is
 * refused soon. Where the context slides, all count. */
static void long_prompts_are_refused_soon(void **state) {
    const struct opened o = open_stories(WISP_COMPUTE_F32, 1);
    enum { WORDS = 200000, BOUND = 4 * 512 + 4096 };
    static char text[4 * WORDS];
    wisp_generation result;
    wisp_generate_options options = {.max_tokens = 1};
    wisp_beam_options beams = {.beams = 2};
    const wisp_message messages[] = {{WISP_ROLE_USER, {text, sizeof text}}};
    const wisp_conversation conversation = {.messages = messages, .n = 1, .format = "plain"};
    wisp_error error;
    (void)state;
    for (size_t i = 0; i < WORDS; i++)
        memcpy(text + 4 * i, "the ", 4);
    const wisp_text long_text = {text, sizeof text}, shorter = {text, 4 * 1000};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(i == 0 ? wisp_generate(o.session, long_text, &options, NULL, &error)
                                : wisp_chat(o.session, &conversation, &options, NULL, &error),
                         WISP_ERROR_ARGUMENT);
        assert_string_equal(error.field, "prompt");
        assert_non_null(strstr(error.message, "more than 6144 tokens"));
    }
    beams.hypothesis = ignore_hypothesis;
    assert_int_equal(wisp_beam_search(o.session, long_text, &beams, &error), WISP_ERROR_ARGUMENT);
    assert_non_null(strstr(error.message, "more than 6144 tokens"));
    assert_int_equal(wisp_generate(o.session, shorter, &options, NULL, &error),
                     WISP_ERROR_ARGUMENT);
    assert_non_null(strstr(error.message, " tokens, but the model's context has 512"));
    options.context_shift = true;
    assert_int_equal(wisp_generate(o.session, long_text, &options, &result, &error), WISP_OK);
    assert_true(result.dropped_tokens + result.prompt_tokens > BOUND);
    close_stories(o);
}

static void count_failure(void *context, const wisp_error *error) {
    struct heard *h = context;
    assert_int_equal(error->status, WISP_ERROR_ARGUMENT);
    h->failures++;
}

/* With `failed` a bad request, wherever it stands, leaves the others as they are. A request that
 * fails in mid-text by its bias and grammar is one of these. */
static void bad_requests_fail_alone(void **state) {
    const struct opened o = open_stories(WISP_COMPUTE_F32, 1);
    enum { BAD = 4, ALL = BAD + 1 };
    static struct heard heard[ALL], alone;
    static char longest[3000];
    const int32_t past = VOCABULARY;
    wisp_token_value never[VOCABULARY];
    wisp_generate_options options[ALL];
    wisp_generation results[ALL];
    wisp_grammar *grammar;
    wisp_error error;
    (void)state;
    memset(longest, 'q', sizeof longest);
    for (int32_t i = 0; i < VOCABULARY; i++)
        never[i] = (wisp_token_value){i, -INFINITY};
    assert_int_equal(wisp_grammar_open(wisp_text_of("root ::= \"a\""), &grammar, &error), WISP_OK);
    generate(o.session, "One day", (wisp_generate_options){.max_tokens = 5}, &alone);
    for (size_t good = 0; good <= ALL; good++) /* with ALL none is good */
        for (size_t at_once = 1; at_once <= 3; at_once += 2) {
            const wisp_request faults[BAD] = {{.prompt = {longest, sizeof longest}},
                                              {.prompt = {NULL, 3}},
                                              {.ids = &past, .n_ids = 1},
                                              {.prompt = {"a", 1}}};
            wisp_request requests[ALL];
            for (size_t i = 0; i < ALL; i++) {
                heard[i] = (struct heard){0};
                options[i] = (wisp_generate_options){
                    .max_tokens = 5, .piece = hear, .failed = count_failure, .context = &heard[i]};
                requests[i] =
                    i == good ? (wisp_request){.prompt = {"One day", 7}} : faults[i % BAD];
                requests[i].options = &options[i];
                if (i != good && i % BAD == 3) {
                    options[i].grammar = grammar;
                    options[i].sampling.bias = never;
                    options[i].sampling.biases = VOCABULARY;
                }
            }
            assert_int_equal(
                wisp_generate_batch(o.session, requests, ALL, at_once, results, &error), WISP_OK);
            for (size_t i = 0; i < ALL; i++) {
                assert_int_equal(heard[i].failures, i != good);
                assert_string_equal(heard[i].text, i == good ? alone.text : "");
                assert_int_equal(results[i].tokens, i == good ? 5 : 0);
            }
        }
    wisp_grammar_close(grammar);
    close_stories(o);
}

/* ---- scores --------------------------------------------------------------------------------- */

static void scores_are_those_of_the_logits(void **state) {
    enum { TOKENS = 200 };
    static float logits[TOKENS * VOCABULARY], next[VOCABULARY], scores[TOKENS], again[TOKENS];
    int32_t ids[TOKENS];
    wisp_error error;
    (void)state;
    for (size_t i = 0; i < TOKENS; i++)
        ids[i] = (int32_t)(i == 0 ? 1 : 3 + (i * i * 31 + i * 7) % 500);
    for (int compute = WISP_COMPUTE_F32; compute <= WISP_COMPUTE_INT8; compute++) {
        const struct opened o = open_stories((wisp_compute)compute, 2);
        assert_int_equal(wisp_score(o.session, ids, TOKENS, 1, scores, &error), WISP_OK);
        /* The session has the text now; each call computes from where it may. */
        for (size_t first = 1; first < TOKENS; first += 33) {
            assert_int_equal(wisp_score(o.session, ids, TOKENS, first, again, &error), WISP_OK);
            assert_memory_equal(again, scores + first - 1, (TOKENS - first) * sizeof *again);
        }
        assert_int_equal(wisp_logits(o.session, ids, TOKENS, logits, &error), WISP_OK);
        for (size_t t = 1; t < TOKENS; t++) {
            const float *row = logits + (t - 1) * VOCABULARY;
            double sum = 0;
            for (size_t i = 0; i < VOCABULARY; i++)
                sum += exp((double)row[i]);
            const double expected = (double)row[ids[t]] - log(sum);
            assert_true(fabs((double)scores[t - 1] - expected) < 1e-5);
        }
        for (size_t n = TOKENS; n > 0; n -= 40) {
            assert_int_equal(wisp_next_logits(o.session, ids, n, next, &error), WISP_OK);
            assert_memory_equal(next, logits + (n - 1) * VOCABULARY, sizeof next);
        }
        close_stories(o);
    }
}

static void bad_scores_are_errors(void **state) {
    const struct opened o = open_stories(WISP_COMPUTE_F32, 1);
    static int32_t ids[600];
    static float scores[600], logits[VOCABULARY];
    wisp_error error;
    (void)state;
    assert_int_equal(wisp_score(o.session, ids, 5, 0, scores, &error), WISP_ERROR_ARGUMENT);
    assert_string_equal(error.field, "first");
    assert_int_equal(wisp_score(o.session, ids, 5, 5, scores, &error), WISP_ERROR_ARGUMENT);
    assert_int_equal(wisp_score(o.session, ids, 600, 1, scores, &error), WISP_ERROR_ARGUMENT);
    assert_string_equal(error.field, "prompt");
    assert_int_equal(wisp_score(o.session, NULL, 5, 1, scores, &error), WISP_ERROR_ARGUMENT);
    assert_int_equal(wisp_next_logits(o.session, ids, 0, logits, &error), WISP_ERROR_ARGUMENT);
    ids[4] = -1;
    assert_int_equal(wisp_score(o.session, ids, 5, 1, scores, &error), WISP_ERROR_ARGUMENT);
    assert_string_equal(error.field, "ids");
    /* The last token is only predicted, so that it may be one more than the context has. */
    ids[4] = 0;
    assert_int_equal(wisp_score(o.session, ids, 513, 500, scores, &error), WISP_OK);
    close_stories(o);
}

/* ---- memory --------------------------------------------------------------------------------- */

static void hear_hypothesis(void *context, const wisp_hypothesis *hypothesis) {
    (void)context;
    (void)hypothesis;
}

/* Makes every kind of call once. Returns the first failure. */
static wisp_status call_all(wisp_session *session, struct heard *heard, wisp_error *error) {
    static const char schema[] = "{\"properties\": {\"a\": {\"type\": \"string\"}, \"b\": "
                                 "{\"enum\": [1, 2]}}, \"required\": [\"b\"]}";
    static const char *const stops[] = {"xyz"};
    static const int32_t ids[] = {1, 5, 9, 13};
    float scores[3];
    wisp_grammar *grammar = NULL;
    wisp_status status = wisp_grammar_open_schema(wisp_text_of(schema), &grammar, error);
    wisp_generate_options free_text = {.max_tokens = 6,
                                       .stop = stops,
                                       .stops = 1,
                                       .logprobs = LIKELY,
                                       .sampling = {.temperature = 1, .penalty_window = 3},
                                       .piece = hear,
                                       .context = heard};
    wisp_generate_options json = free_text;
    json.grammar = grammar;
    const wisp_request requests[] = {{.prompt = {"Once upon", 9}, .options = &free_text},
                                     {.prompt = {"Once upon a", 11}, .options = &json},
                                     {.prompt = {"The", 3}, .options = &json}};
    const wisp_beam_options beams = {.beams = 3, .max_tokens = 5, .hypothesis = hear_hypothesis};
    *heard = (struct heard){0};
    if (status == WISP_OK)
        status = wisp_generate_batch(session, requests, 3, 2, NULL, error);
    if (status == WISP_OK)
        status = wisp_beam_search(session, wisp_text_of("A"), &beams, error);
    if (status == WISP_OK)
        status = wisp_score(session, ids, 4, 1, scores, error);
    wisp_grammar_close(grammar);
    return status;
}

/* Whichever allocation fails, the call says so, frees what it took and leaves the session usable.
 */
static void no_memory_is_an_error(void **state) {
    static struct heard expected, heard;
    wisp_model *model = open_model_or_fail(stories, WISP_COMPUTE_F32, NULL);
    wisp_session *session = open_session_or_fail(model, 1);
    wisp_error error;
    (void)state;
    assert_true(allocations_are_watched());
    assert_int_equal(call_all(session, &expected, &error), WISP_OK);
    wisp_session_close(session);
    for (uint64_t n = 0;; n += 1 + n / 60) {
        session = open_session_or_fail(model, 1);
        allocations_watch();
        allocations_fail_after(n, false);
        const wisp_status status = call_all(session, &heard, &error);
        const bool failed = allocations_seen().failed;
        allocations_succeed();
        assert_int_equal(status, failed ? WISP_ERROR_MEMORY : WISP_OK);
        assert_int_equal(call_all(session, &heard, &error), WISP_OK);
        assert_string_equal(heard.text, expected.text);
        wisp_session_close(session);
        assert_true(allocations_seen().live <= 0); /* the session was opened before */
        if (!failed)
            break;
    }
    wisp_model_close(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_have_tokens_and_probabilities),
        cmocka_unit_test(text_is_held_back),
        cmocka_unit_test(texts_are_those_that_come_alone),
        cmocka_unit_test(prompts_share_what_they_begin_with),
        cmocka_unit_test(bad_batches_generate_nothing),
        cmocka_unit_test(long_prompts_are_refused_soon),
        cmocka_unit_test(bad_requests_fail_alone),
        cmocka_unit_test(scores_are_those_of_the_logits),
        cmocka_unit_test(bad_scores_are_errors),
        cmocka_unit_test(no_memory_is_an_error),
    };
    return cmocka_run_group_tests_name("generate_batch", tests, NULL, NULL);
}

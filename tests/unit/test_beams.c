/* SPDX-License-Identifier: Apache-2.0
 * Beam search beside transformers (tests/oracle/make_beams_golden.py). */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "engine/beams.h"
#include "support/allocations.h"
#include "support/builder.h"
#include "support/golden.h"

#undef fail /* base/status.h has another */
#include <cmocka.h>

enum { MOST_TEXTS = 64, MOST_TOKENS = 512 };

static const char stories[] = "models/wisp-stories.gguf";

struct found {
    size_t n;
    struct {
        int32_t ids[MOST_TOKENS];
        size_t tokens;
        double score, logprob;
        wisp_end end;
        char text[4096];
    } text[MOST_TEXTS];
};

static void take(void *context, const wisp_hypothesis *h) {
    struct found *found = context;
    assert_true(found->n < MOST_TEXTS && h->tokens <= MOST_TOKENS && h->text.length < 4096);
    memcpy(found->text[found->n].ids, h->ids, h->tokens * sizeof *h->ids);
    memcpy(found->text[found->n].text, h->text.bytes, h->text.length);
    found->text[found->n].text[h->text.length] = '\0';
    found->text[found->n].tokens = h->tokens;
    found->text[found->n].score = h->score;
    found->text[found->n].logprob = h->logprob;
    found->text[found->n++].end = h->end;
}

static void search(wisp_session *session, const char *prompt, wisp_beam_options options,
                   struct found *found) {
    wisp_error error;
    found->n = 0;
    options.hypothesis = take;
    options.context = found;
    if (wisp_beam_search(session, wisp_text_of(prompt), &options, &error) != WISP_OK)
        fail_msg("%s", error.message);
}

static double number_of(const struct json *object, const char *key) {
    double number;
    assert_true(json_to_double(json_get(object, key), &number));
    return number;
}

static void check_case(wisp_session *session, const struct json *at) {
    static struct found found;
    const wisp_beam_options options = {.beams = (uint32_t)number_of(at, "beams"),
                                       .max_tokens = (uint32_t)number_of(at, "max_tokens"),
                                       .length_penalty = (float)number_of(at, "length_penalty")};
    const char *prompt = json_get(at, "prompt")->text;
    search(session, prompt, options, &found);
    assert_int_equal(found.n, options.beams);
    size_t i = 0;
    for (const struct json *text = json_get(at, "texts")->first; text; text = text->next, i++) {
        const struct json *ids = json_get(text, "ids");
        bool ended;
        size_t t = 0;
        assert_true(json_to_bool(json_get(text, "ended"), &ended));
        if (ids->count != found.text[i].tokens)
            fail_msg("%s: text %zu has %zu tokens, not %u", prompt, i, found.text[i].tokens,
                     ids->count);
        for (const struct json *id = ids->first; id; id = id->next, t++) {
            int64_t expected;
            assert_true(json_to_i64(id, &expected));
            if (found.text[i].ids[t] != expected)
                fail_msg("%s: text %zu, token %zu is %d, not %d", prompt, i, t,
                         found.text[i].ids[t], (int)expected);
        }
        assert_true(fabs(found.text[i].score - number_of(text, "score")) <
                    1e-4 * fmax(1, fabs(found.text[i].score)));
        assert_int_equal(found.text[i].end, ended ? WISP_END_TOKEN : WISP_END_LENGTH);
    }
}

static void texts_are_those_of_transformers(void **state) {
    char path[GOLDEN_PATH_BYTES], *raw;
    struct arena arena = {0};
    (void)state;
    const struct json *golden = read_json_file(data_path("golden-beams.json", path), &arena, &raw);
    wisp_model *model = open_model_or_fail(stories, WISP_COMPUTE_F32, NULL);
    for (uint32_t threads = 1; threads <= 3; threads += 2) {
        wisp_session *session = open_session_or_fail(model, threads);
        for (const struct json *at = golden->first; at; at = at->next)
            check_case(session, at);
        wisp_session_close(session);
    }
    wisp_model_close(model);
    arena_release(&arena);
    free(raw);
}

/* The log-probabilities are those that the texts have by themselves, and a session that has
 * searched generates as one that has not. */
static void check_scores(const wisp_model *model, size_t vocabulary) {
    static struct found found;
    wisp_session *session = open_session_or_fail(model, 1), *fresh = open_session_or_fail(model, 1);
    int32_t ids[MOST_TOKENS];
    float scores[MOST_TOKENS];
    size_t n;
    wisp_error error;
    search(session, "The cat", (wisp_beam_options){.beams = 6, .max_tokens = 20}, &found);
    assert_int_equal(wisp_tokenize(model, wisp_text_of("The cat"), ids, MOST_TOKENS, &n, &error),
                     WISP_OK);
    for (size_t i = 0; i < found.n; i++) {
        double sum = 0;
        memcpy(ids + n, found.text[i].ids, found.text[i].tokens * sizeof *ids);
        if (found.text[i].tokens > 0) /* a text may end at once */
            assert_int_equal(wisp_score(fresh, ids, n + found.text[i].tokens, n, scores, &error),
                             WISP_OK);
        for (size_t t = 0; t < found.text[i].tokens; t++)
            sum += (double)scores[t];
        if (found.text[i].end == WISP_END_TOKEN) /* whose log-probability counts, too */
            assert_true(sum > found.text[i].logprob);
        else if (fabs(sum - found.text[i].logprob) > 1e-4)
            fail_msg("text %zu: %g, not %g", i, found.text[i].logprob, sum);
        assert_true(i == 0 || found.text[i].score <= found.text[i - 1].score);
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(found.text[i].text, found.text[k].text);
    }
    static float after[512], before[512];
    assert_int_equal(wisp_next_logits(session, ids, n + 5, after, &error), WISP_OK);
    assert_int_equal(wisp_next_logits(fresh, ids, n + 5, before, &error), WISP_OK);
    assert_memory_equal(after, before, vocabulary * sizeof *after);
    wisp_session_close(fresh);
    wisp_session_close(session);
}

static void scores_are_those_of_the_texts(void **state) {
    wisp_model *model = open_model_or_fail(stories, WISP_COMPUTE_INT8, NULL);
    (void)state;
    check_scores(model, 512);
    wisp_model_close(model);
}

/* The state of short convolutions goes with a beam that is copied. */
static void convolutions_go_with_their_beams(void **state) {
    struct gguf file;
    struct bytes bytes = {0};
    wisp_model *model;
    wisp_error error;
    (void)state;
    gguf_make_lfm2(&file);
    gguf_write_bytes(&file, &bytes);
    const wisp_source source = {.size = bytes.size, .data = bytes.data, .name = "lfm2.gguf"};
    if (wisp_model_open_source(&source, NULL, &model, &error) != WISP_OK)
        fail_msg("%s", error.message);
    check_scores(model, LFM2_TOKENS);
    wisp_model_close(model);
    bytes_release(&bytes);
    gguf_release(&file);
}

/* Searches in slices of no time, each of which computes one block, and gives up after `most`. */
static size_t search_in_slices(wisp_session *session, const char *prompt, size_t most,
                               struct found *found) {
    const wisp_beam_options options = {
        .beams = 3, .max_tokens = 20, .hypothesis = take, .context = found};
    struct beam_search *slices;
    wisp_error error;
    size_t runs = 0;
    found->n = 0;
    if (beams_open(&slices, session, wisp_text_of(prompt), &options, &error) != WISP_OK)
        fail_msg("%s", error.message);
    for (; !beams_ended(slices) && runs < most; runs++)
        if (beams_run(slices, 0, &error) != WISP_OK)
            fail_msg("%s", error.message);
    beams_close(slices);
    return runs;
}

/* In slices a search finds the texts of one call, also after one that was given up anywhere. */
static void a_search_in_slices_finds_the_same(void **state) {
    wisp_model *model = open_model_or_fail(stories, WISP_COMPUTE_AUTO, NULL);
    wisp_session *session = open_session_or_fail(model, 1);
    static struct found whole, found;
    static char prompt[500];
    (void)state;
    for (size_t i = 0; i + 1 < sizeof prompt; i++)
        prompt[i] = i % 3 == 2 ? ' ' : (char)('a' + i * i % 23);
    search(session, prompt, (wisp_beam_options){.beams = 3, .max_tokens = 20}, &whole);
    assert_int_equal(whole.n, 3);
    wisp_session *fresh = open_session_or_fail(model, 3);
    const size_t runs = search_in_slices(fresh, prompt, SIZE_MAX, &found);
    assert_true(runs > 100); /* of a pass, at least its layers */
    for (size_t most = 1; most <= runs; most += runs / 7) {
        if (most > 1)
            search_in_slices(fresh, prompt + most % 2, most, &found);
        search_in_slices(fresh, prompt, SIZE_MAX, &found);
        assert_int_equal(found.n, whole.n);
        for (size_t i = 0; i < whole.n; i++) {
            assert_string_equal(found.text[i].text, whole.text[i].text);
            assert_true(found.text[i].score == whole.text[i].score);
        }
    }
    wisp_session_close(fresh);
    wisp_session_close(session);
    wisp_model_close(model);
}

static void bad_searches_are_errors(void **state) {
    wisp_model *model = open_model_or_fail(stories, WISP_COMPUTE_F32, NULL);
    wisp_session *session = open_session_or_fail(model, 1);
    static struct found found;
    static char longest[3000];
    const wisp_text prompt = wisp_text_of("a");
    wisp_error error;
    (void)state;
    memset(longest, 'q', sizeof longest);
    const struct {
        wisp_text prompt;
        wisp_beam_options options;
        const char *field;
    } faults[] = {{prompt, {.beams = 65, .hypothesis = take}, "beams"},
                  {prompt, {.length_penalty = NAN, .hypothesis = take}, "length_penalty"},
                  {{longest, sizeof longest}, {.hypothesis = take}, "prompt"}};
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        assert_int_equal(wisp_beam_search(session, faults[i].prompt, &faults[i].options, &error),
                         WISP_ERROR_ARGUMENT);
        assert_string_equal(error.field, faults[i].field);
    }
    assert_int_equal(wisp_beam_search(session, prompt, NULL, &error), WISP_ERROR_ARGUMENT);
    assert_int_equal(wisp_beam_search(session, prompt, &(wisp_beam_options){0}, &error),
                     WISP_ERROR_ARGUMENT);
    wisp_session_cancel(session);
    assert_int_equal(wisp_beam_search(session, prompt,
                                      &(wisp_beam_options){.hypothesis = take, .context = &found},
                                      &error),
                     WISP_ERROR_CANCELLED);
    assert_int_equal(found.n, 0);
    /* Beams to the end of the context. */
    search(session, "Once upon a time", (wisp_beam_options){.beams = 2, .length_penalty = 20},
           &found);
    assert_int_equal(found.n, 2);
    wisp_session_close(session);
    wisp_model_close(model);
}

/* Whichever allocation of a search fails, all that it took is freed with the session. */
static void no_memory_leaks_nothing(void **state) {
    wisp_model *model = open_model_or_fail(stories, WISP_COMPUTE_F32, NULL);
    static struct found found;
    const wisp_beam_options options = {
        .beams = 2, .max_tokens = 2, .hypothesis = take, .context = &found};
    bool failed = true;
    (void)state;
    assert_true(allocations_are_watched());
    for (uint64_t n = 0; failed; n++) {
        wisp_error error;
        found.n = 0;
        allocations_watch();
        wisp_session *session = open_session_or_fail(model, 1);
        allocations_fail_after(n, false);
        const wisp_status status = wisp_beam_search(session, wisp_text_of("A"), &options, &error);
        failed = allocations_seen().failed;
        allocations_succeed();
        assert_int_equal(status, failed ? WISP_ERROR_MEMORY : WISP_OK);
        wisp_session_close(session);
        assert_int_equal(allocations_seen().live, 0);
    }
    wisp_model_close(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_are_those_of_transformers),
        cmocka_unit_test(scores_are_those_of_the_texts),
        cmocka_unit_test(convolutions_go_with_their_beams),
        cmocka_unit_test(a_search_in_slices_finds_the_same),
        cmocka_unit_test(bad_searches_are_errors),
        cmocka_unit_test(no_memory_leaks_nothing),
    };
    return cmocka_run_group_tests_name("beams", tests, NULL, NULL);
}

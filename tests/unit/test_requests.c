/* SPDX-License-Identifier: Apache-2.0
 * Text that is generated in slices of time: it is that of one call, and what is left in the middle
 * does no harm. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "engine/requests.h"
#include "support/golden.h"

#undef fail /* base/status.h has another */
#include <cmocka.h>

enum { TEXT_BYTES = 4096, MOST_RUNS = 100000 };

struct story {
    char text[TEXT_BYTES];
    size_t length;
};

static bool take_piece(void *context, const wisp_piece *piece) {
    const wisp_text text = piece->text;
    struct story *story = context;
    assert_true(story->length + text.length < TEXT_BYTES);
    memcpy(story->text + story->length, text.bytes, text.length);
    story->length += text.length;
    return true;
}

/* Runs a request in slices of no time, each of which computes one block. Returns their number. */
static size_t write_in_slices(wisp_session *session, wisp_text prompt,
                              wisp_generate_options options, size_t most, struct story *story,
                              wisp_generation *result) {
    struct requests r;
    wisp_error error;
    size_t runs = 0;
    *story = (struct story){0};
    options.piece = take_piece;
    options.context = story;
    const wisp_request request = {.prompt = prompt, .options = &options};
    if (requests_open(&r, session, &request, 1, 1, result, &error) != WISP_OK)
        fail_msg("%s", error.message);
    for (; !requests_ended(&r) && runs < most; runs++)
        if (requests_run(&r, 0, &error) != WISP_OK)
            fail_msg("%s", error.message);
    requests_close(&r);
    return runs;
}

static void slices_give_the_text_of_one_call(void **state) {
    (void)state;
    wisp_model *model = open_model_or_fail("models/wisp-stories.gguf", WISP_COMPUTE_AUTO, NULL);
    static const char *const stops[] = {" park"};
    const wisp_sampling drawn = {.temperature = 1, .top_k = 20, .seed = 7};
    const wisp_generate_options cases[] = {
        {.max_tokens = 60}, {.stop = stops, .stops = 1}, {.max_tokens = 60, .sampling = drawn}};
    const wisp_text prompt = wisp_text_of("Once upon a time, in a big forest");
    for (uint32_t threads = 1; threads <= 3; threads += 2)
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            wisp_session *session = open_session_or_fail(model, threads);
            struct story whole = {0}, sliced;
            wisp_generation result, in_slices;
            wisp_error error;
            wisp_generate_options options = cases[i];
            options.piece = take_piece;
            options.context = &whole;
            assert_int_equal(wisp_generate(session, prompt, &options, &result, &error), WISP_OK);
            wisp_session_close(session);

            session = open_session_or_fail(model, threads);
            /* Texts that are left while the prompt is read and after some tokens. */
            const wisp_text other = wisp_text_of("Once upon a time there was a dog.");
            write_in_slices(session, other, cases[i], 4, &sliced, &in_slices);
            write_in_slices(session, other, cases[i], 100, &sliced, &in_slices);
            const size_t runs =
                write_in_slices(session, prompt, cases[i], MOST_RUNS, &sliced, &in_slices);
            assert_true(runs > 2 * result.tokens); /* a run computes less than a token */
            assert_string_equal(sliced.text, whole.text);
            assert_int_equal(in_slices.end, result.end);
            assert_int_equal(in_slices.tokens, result.tokens);
            assert_true(in_slices.prompt_seconds > 0 && in_slices.seconds > 0);
            wisp_session_close(session);
        }
    wisp_model_close(model);
}

static void a_cancelled_text_can_be_told_again(void **state) {
    (void)state;
    wisp_model *model = open_model_or_fail("models/wisp-stories.gguf", WISP_COMPUTE_AUTO, NULL);
    wisp_session *session = open_session_or_fail(model, 1);
    const wisp_text prompt = wisp_text_of("Once upon a time");
    const wisp_generate_options options = {.max_tokens = 20};
    struct requests r;
    struct story story;
    wisp_generation result;
    wisp_error error;
    const wisp_request request = {.prompt = prompt, .options = &options};
    assert_int_equal(requests_open(&r, session, &request, 1, 1, NULL, &error), WISP_OK);
    assert_int_equal(requests_run(&r, 0, &error), WISP_OK);
    wisp_session_cancel(session);
    assert_int_equal(requests_run(&r, 0, &error), WISP_ERROR_CANCELLED);
    requests_close(&r);
    assert_int_equal(wisp_generate(session, prompt, &options, NULL, &error), WISP_ERROR_CANCELLED);
    write_in_slices(session, prompt, options, MOST_RUNS, &story, &result);
    assert_int_equal(result.tokens, 20);
    wisp_session_close(session);
    wisp_model_close(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slices_give_the_text_of_one_call),
        cmocka_unit_test(a_cancelled_text_can_be_told_again),
    };
    return cmocka_run_group_tests_name("requests", tests, NULL, NULL);
}

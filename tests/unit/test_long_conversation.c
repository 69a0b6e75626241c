/* SPDX-License-Identifier: Apache-2.0
 * A conversation far beyond the context is refused by its first messages, before the others are
 * read, and only then: the first elements of an array in JSON, and what is made of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "support/golden.h"

#undef fail /* base/status.h has another */
#include <cmocka.h>

static const char stories[] = "models/wisp-stories.gguf";

/* Checks that all elements but the last are those of the array. Returns whether the last is, too;
 * if it is not, its text is the beginning of the other's. */
static bool is_whole(const struct json *cut, const struct json *whole) {
    const struct json *a = cut->first, *b = whole->first;
    assert_true(json_is(cut, JSON_ARRAY) && cut->count > 0 && cut->count <= whole->count);
    for (; a->next; a = a->next, b = b->next) {
        assert_int_equal(a->raw_length, b->raw_length);
        assert_memory_equal(a->raw, b->raw, a->raw_length);
    }
    if (a->raw_length == b->raw_length && memcmp(a->raw, b->raw, a->raw_length) == 0)
        return true;
    const struct json *text = json_get(a, "b"), *of = json_get(b, "b");
    if (text) {
        assert_true(text->text_length <= of->text_length);
        assert_memory_equal(text->text, of->text, text->text_length);
    }
    return false;
}

static void the_first_elements_of_an_array(void **state) {
    static const char json[] =
        " [ {\"a\": [1, {\"x\": \"],[\"}], \"b\": \"one \\\"two\\\" , \\u00e9 \\\\\"}, "
        "{\"b\": \"caf\xc3\xa9 \xf0\x9f\x98\x80 \\ud83d\\ude00\"} , "
        "{\"b\": \"a long text, which fills more than half of what there is, and is cut\", \"c\": "
        "1}]";
    struct arena arena = {0};
    const struct json *whole, *cut;
    wisp_error error;
    size_t whole_ones = 0, cut_ones = 0, none = 0;
    (void)state;
    assert_int_equal(json_parse(&arena, json, sizeof json - 1, NULL, &whole, &error), WISP_OK);
    for (size_t most = 0; most < sizeof json + 3; most++) {
        wisp_text beginning = {0};
        if (!json_begin_array(&arena, (wisp_text){json, sizeof json - 1}, most, &beginning)) {
            none++;
            continue;
        }
        assert_true(beginning.length <= most + 1 + JSON_MAX_DEPTH);
        /* A key that is cut has no value, and half of a surrogate pair is none. */
        if (json_parse(&arena, beginning.bytes, beginning.length, NULL, &cut, &error) != WISP_OK)
            continue;
        *(is_whole(cut, whole) ? &whole_ones : &cut_ones) += 1;
    }
    assert_true(none > 0 && whole_ones > 20 && cut_ones > 20);
    arena_release(&arena);
}

/* Whatever the bytes are, nothing beyond them is read. */
static void damaged_arrays(void **state) {
    static const char bytes[] = "[]{}\",\\u a";
    struct arena arena = {0};
    uint32_t random = 1;
    (void)state;
    for (int i = 0; i < 20000; i++) {
        char *text = malloc(200);
        assert_non_null(text);
        const size_t length = (size_t)i % 200;
        for (size_t k = 0; k < length; k++) {
            random = random * 1664525u + 1013904223u;
            text[k] = bytes[(random >> 16) % (sizeof bytes - 1)];
        }
        char *exact = malloc(length + 1);
        assert_non_null(exact);
        memcpy(exact, text, length);
        wisp_text beginning = {0};
        if (json_begin_array(&arena, (wisp_text){exact, length}, (size_t)i % 300, &beginning))
            assert_true(beginning.length > 0);
        free(exact);
        free(text);
        arena_release(&arena);
    }
}

/* ---- conversations -------------------------------------------------------------------------- */

static char *append(char *at, const char *text) {
    const size_t length = strlen(text);
    memcpy(at, text, length + 1);
    return at + length;
}

static void long_conversations_are_refused_by_their_beginning(void **state) {
    enum { MESSAGES = 30000, WORDS = 200000 };
    wisp_model *model = open_model_or_fail(stories, WISP_COMPUTE_F32, NULL);
    wisp_session *session = open_session_or_fail(model, 1);
    char *const json = malloc(60 * MESSAGES + 5 * WORDS);
    wisp_generate_options options = {.max_tokens = 1};
    wisp_generation result;
    wisp_error error;
    (void)state;
    assert_non_null(json);

    /* Malformed JSON behind so many messages, or in so long a text, is not reached. */
    char *at = append(json, "[");
    for (int i = 0; i < MESSAGES; i++)
        at = append(at, "{\"role\":\"user\",\"content\":\"the cat and the dog\"},");
    at = append(at, "{\"role\":");
    wisp_conversation conversation = {.json = wisp_text_of(json), .format = "plain"};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(wisp_chat(session, &conversation, &options, &result, &error),
                         WISP_ERROR_ARGUMENT);
        assert_string_equal(error.field, "prompt");
        assert_non_null(strstr(error.message, "more than 6144 tokens"));
        at = append(json, "[{\"role\":\"user\",\"content\":\"");
        for (int k = 0; k < WORDS; k++)
            at = append(at, "the ");
        append(at, "\", \"malformed");
        conversation.json = wisp_text_of(json);
    }

    /* A template may leave out what is long, and then all is read. */
    at = append(json, "[");
    for (int i = 0; i < MESSAGES; i++)
        at = append(at, "{\"role\":\"user\",\"content\":\"the cat and the dog\"},");
    append(at, "{\"role\":\"user\",\"content\":\"Once\"}]");
    conversation = (wisp_conversation){.json = wisp_text_of(json),
                                       .chat_template = wisp_text_of("{{ messages[-1].content }}")};
    assert_int_equal(wisp_chat(session, &conversation, &options, &result, &error), WISP_OK);
    assert_true(result.prompt_tokens < 10);
    /* An error in the beginning alone is none of the conversation. */
    conversation.chat_template = wisp_text_of(
        "{% if messages[-1].content != 'Once' %}{{ raise_exception('no') }}{% endif %}Two");
    assert_int_equal(wisp_chat(session, &conversation, &options, &result, &error), WISP_OK);

    free(json);
    wisp_session_close(session);
    wisp_model_close(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_elements_of_an_array),
        cmocka_unit_test(damaged_arrays),
        cmocka_unit_test(long_conversations_are_refused_by_their_beginning),
    };
    return cmocka_run_group_tests_name("long_conversation", tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0
 * Grammars and prompts that come from another module as bytes: they are those that are made here,
 * and malformed bytes are an error. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "binding/languages/languages.h"
#include "grammar/grammar_bytes.h"
#include "grammar/grammar_state.h"
#include "support/rng.h"

#undef fail /* base/status.h has another */
#include <cmocka.h>

static const struct {
    enum language language;
    const char *source;
} sources[] = {
    {LANGUAGE_GBNF, "root ::= \"[\" (number (\",\" number)*)? \"]\" | [^a-c\\u00e9]{2,4}\n"
                    "number ::= \"-\"? [0-9]{1,3}"},
    {LANGUAGE_JSON_SCHEMA, "true"},
    {LANGUAGE_JSON_SCHEMA, "{\"type\": \"string\", \"pattern\": \"^[a-f\\u00e9]+x?$\"}"},
    {LANGUAGE_JSON_SCHEMA,
     "{\"type\": \"object\", \"properties\": {\"a\": {\"type\": \"integer\"}, \"b\": {\"enum\": "
     "[1, "
     "\"x\"]}}, \"required\": [\"a\"], \"dependentRequired\": {\"b\": [\"a\"]}, "
     "\"patternProperties\": {\"^x\": {\"type\": \"array\", \"items\": {\"type\": \"null\"}}}}"},
    {LANGUAGE_JSON_SCHEMA,
     "{\"anyOf\": [{\"properties\": {\"kind\": {\"const\": \"p\"}, \"q\": {}}, "
     "\"required\": [\"kind\"], \"maxProperties\": 2}, {\"type\": \"number\", "
     "\"minimum\": 3.5}], \"not\": {\"required\": [\"q\", \"r\"]}}"},
};

enum { SOURCES = sizeof sources / sizeof *sources };

static wisp_grammar *open_here(size_t i) {
    wisp_grammar *grammar;
    wisp_error error;
    const wisp_text source = wisp_text_of(sources[i].source);
    if ((sources[i].language == LANGUAGE_GBNF ? wisp_grammar_open(source, &grammar, &error)
                                              : wisp_grammar_open_schema(source, &grammar, &error)))
        fail_msg("%s: %s", sources[i].source, error.message);
    return grammar;
}

/* Reads a random text of a grammar, byte by byte. `same` (NULL: none) has to read it likewise. */
static void read_text(const struct wisp_grammar *grammar, const struct wisp_grammar *same,
                      uint64_t seed, size_t most) {
    struct rng rng = {seed};
    struct grammar_state state, other;
    wisp_error error;
    if (grammar_state_open(&state, grammar, &error) != WISP_OK) {
        assert_null(same); /* a malformed one may have too many derivations */
        grammar_state_release(&state);
        return;
    }
    if (same)
        assert_int_equal(grammar_state_open(&other, same, &error), WISP_OK);
    for (size_t i = 0; i < most; i++) {
        unsigned char possible[256], byte;
        size_t n = 0;
        for (unsigned c = 0; c < 256; c++) {
            size_t items;
            if (grammar_state_push(&state, (unsigned char)c, &error) != WISP_OK)
                break; /* too many derivations */
            grammar_state_items(&state, &items);
            grammar_state_pop(&state, (uint32_t)i + 1);
            if (items > 0)
                possible[n++] = (unsigned char)c;
        }
        if (n == 0)
            break;
        byte = possible[rng_below(&rng, n)];
        if (grammar_state_push(&state, byte, &error) != WISP_OK)
            break;
        if (!same)
            continue;
        assert_int_equal(grammar_state_push(&other, byte, &error), WISP_OK);
        assert_int_equal(grammar_state_is_complete(&state), grammar_state_is_complete(&other));
        assert_int_equal(grammar_state_goes_on(&state), grammar_state_goes_on(&other));
        assert_int_equal(grammar_state_run(&state), grammar_state_run(&other));
    }
    grammar_state_release(&state);
    if (same)
        grammar_state_release(&other);
}

static void grammars_are_those_made_here(void **state) {
    (void)state;
    for (size_t i = 0; i < SOURCES; i++) {
        wisp_grammar *here = open_here(i), *asked;
        wisp_error error;
        struct arena arena = {0};
        wisp_text first, again;
        assert_int_equal(language_ask_grammar(sources[i].language, wisp_text_of(sources[i].source),
                                              &asked, &error),
                         WISP_OK);
        for (uint64_t seed = 1; seed <= 20; seed++)
            read_text(here, asked, seed, 40);
        assert_int_equal(grammar_to_bytes(here, &arena, &first, &error), WISP_OK);
        assert_int_equal(grammar_to_bytes(asked, &arena, &again, &error), WISP_OK);
        assert_int_equal(first.length, again.length);
        assert_memory_equal(first.bytes, again.bytes, first.length);
        arena_release(&arena);
        wisp_grammar_close(asked);
        wisp_grammar_close(here);
    }
}

/* Reads bytes at the end of an allocation, so that sanitizers see what lies beyond. */
static wisp_status read_bytes(wisp_text bytes, uint64_t seed) {
    wisp_grammar *grammar = calloc(1, sizeof *grammar);
    char *copy = malloc(bytes.length ? bytes.length : 1);
    wisp_error error = WISP_ERROR_NONE;
    assert_non_null(grammar);
    assert_non_null(copy);
    memcpy(copy, bytes.bytes, bytes.length);
    const wisp_status status = grammar_from_bytes((wisp_text){copy, bytes.length}, grammar, &error);
    free(copy);
    if (status == WISP_OK)
        read_text(grammar, NULL, seed, 3);
    else
        assert_int_equal(status, WISP_ERROR_FORMAT);
    wisp_grammar_close(grammar);
    return status;
}

static void malformed_grammars_are_errors(void **state) {
    static const uint32_t values[] = {0,       1,          2,          255,       0x1FFFFFFF,
                                      1 << 29, 0x7FFFFFFF, 0xFFFFFFFE, UINT32_MAX};
    size_t refused = 0;
    (void)state;
    for (size_t i = 0; i < SOURCES; i++) {
        wisp_grammar *here = open_here(i);
        struct arena arena = {0};
        wisp_error error;
        wisp_text bytes;
        struct rng rng = {i + 1};
        assert_int_equal(grammar_to_bytes(here, &arena, &bytes, &error), WISP_OK);
        char *words = (char *)(uintptr_t)bytes.bytes;
        const size_t step = bytes.length > 4000 ? bytes.length / 4000 * 4 + 4 : 4;
        for (size_t at = 0; at < bytes.length; at += at < 256 ? 4 : step) {
            uint32_t kept, changed;
            assert_int_equal(read_bytes((wisp_text){bytes.bytes, at}, 1), WISP_ERROR_FORMAT);
            memcpy(&kept, words + at, sizeof kept);
            for (size_t v = 0; v < sizeof values / sizeof *values + 3; v++) {
                const size_t own = v - sizeof values / sizeof *values;
                changed = v < sizeof values / sizeof *values ? values[v]
                          : own == 0                         ? kept + 1
                          : own == 1                         ? kept - 1
                                     : kept ^ UINT32_C(1) << rng_below(&rng, 32);
                memcpy(words + at, &changed, sizeof changed);
                refused += read_bytes(bytes, v) != WISP_OK;
            }
            memcpy(words + at, &kept, sizeof kept);
        }
        arena_release(&arena);
        wisp_grammar_close(here);
    }
    assert_true(refused > 5000);
}

static const char TEMPLATE[] =
    "{{ bos_token }}{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}"
    "{% if tools %}{{ tools | length }}{% endif %}{{ strftime_now('%Y') }}";

static void prompts_are_those_made_here(void **state) {
    static const char *const messages[] = {
        "[{\"role\": \"user\", \"content\": \"<|end|> \xC3\xA9\"}]",
        "[{\"role\": \"user\", \"content\": 1}, {\"role\": \"assistant\", \"content\": \"\"}]",
        "[]",
        "[{\"content\": \"a\"}]",
        "nothing",
    };
    (void)state;
    for (size_t i = 0; i < sizeof messages / sizeof *messages; i++) {
        const wisp_conversation conversation = {
            .json = wisp_text_of(messages[i]),
            .variables = i == 0 ? wisp_text_of("{\"tools\": [1, 2]}") : (wisp_text){0},
            .date = "2026-11-26",
            .no_thinking = i == 1};
        const struct prompt_call call = {.conversation = &conversation,
                                         .source = wisp_text_of(TEMPLATE),
                                         .source_with_tools = wisp_text_of(TEMPLATE),
                                         .tokens = {[PROMPT_BOS] = wisp_text_of("<s>")},
                                         .file = "a.gguf"};
        struct arena arena = {0};
        struct prompt here, asked;
        wisp_error error = WISP_ERROR_NONE, other = WISP_ERROR_NONE;
        const wisp_status status = prompt_make(&arena, &call, &here, &error);
        assert_int_equal(language_ask_prompt(&arena, &call, &asked, &other), status);
        assert_string_equal(other.message, error.message);
        assert_string_equal(other.field, error.field);
        if (status == WISP_OK) {
            assert_int_equal(asked.text.n, here.text.n);
            assert_memory_equal(asked.text.as.text, here.text.as.text, 4 * here.text.n);
            assert_int_equal(asked.trial.type, here.trial.type);
            assert_int_equal(asked.trial.n, here.trial.n);
        }
        assert_int_equal(status, i == 0 ? WISP_OK : WISP_ERROR_ARGUMENT);
        arena_release(&arena);
    }
}

static void malformed_prompts_are_errors(void **state) {
    static const struct {
        uint32_t words[6];
        size_t bytes;
        wisp_status status;
    } answers[] = {
        {{2, 1, 'a', JINJA_GIVEN | 'b', 'c'}, 20, WISP_OK},
        {{2, UINT32_MAX, 'a', 'b'}, 16, WISP_OK},
        {{0, UINT32_MAX}, 8, WISP_OK},
        {{2, 1, 'a', 'b'}, 16, WISP_ERROR_FORMAT},
        {{UINT32_MAX, 1, 'a', 'b'}, 16, WISP_ERROR_FORMAT},
        {{1, UINT32_MAX - 1, 'a', 'b'}, 16, WISP_ERROR_FORMAT},
        {{1}, 4, WISP_ERROR_FORMAT},
        {{0}, 0, WISP_ERROR_FORMAT},
        {{1, UINT32_MAX, 0x110000}, 12, WISP_ERROR_FORMAT},
        {{0, 1, JINJA_GIVEN | 0x7FFFFFFF}, 12, WISP_ERROR_FORMAT},
    };
    (void)state;
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        struct arena arena = {0};
        struct prompt prompt;
        wisp_error error;
        const wisp_text answer = {(const char *)answers[i].words, answers[i].bytes};
        assert_int_equal(language_take_prompt(&arena, answer, &prompt, &error), answers[i].status);
        arena_release(&arena);
    }
}

/* Messages that are not in JSON cannot be asked about, and questions have their texts. */
static void questions_are_whole(void **state) {
    const wisp_message message = {WISP_ROLE_USER, wisp_text_of("a")};
    const wisp_conversation conversation = {.messages = &message, .n = 1};
    const struct prompt_call call = {.conversation = &conversation,
                                     .source = wisp_text_of(TEMPLATE)};
    const wisp_text text = wisp_text_of("true");
    struct arena arena = {0};
    struct prompt prompt;
    wisp_text answer;
    wisp_error error;
    (void)state;
    assert_int_equal(language_ask_prompt(&arena, &call, &prompt, &error), WISP_ERROR_UNSUPPORTED);
    assert_int_equal(language_ask(LANGUAGE_TEMPLATE, &text, 1, &answer, &error),
                     WISP_ERROR_ARGUMENT);
    assert_string_equal(error.field, "texts");
    arena_release(&arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(grammars_are_those_made_here),
        cmocka_unit_test(malformed_grammars_are_errors),
        cmocka_unit_test(prompts_are_those_made_here),
        cmocka_unit_test(malformed_prompts_are_errors),
        cmocka_unit_test(questions_are_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

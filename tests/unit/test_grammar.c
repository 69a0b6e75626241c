/* SPDX-License-Identifier: Apache-2.0
 * Grammars: which texts they have, what is wrong with those that are none, and which tokens they
 * let come next. tests/oracle/grammars.py generates texts and validates them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "engine/model.h"
#include "engine/token_mask.h"
#include "grammar/grammar_state.h"
#include "support/golden.h"

#undef fail /* base/status.h has another */
#include <cmocka.h>

static const char stories[] = "models/wisp-stories.gguf";

static struct wisp_grammar *open_grammar(const char *gbnf) {
    struct wisp_grammar *grammar;
    wisp_error error;
    if (wisp_grammar_open(wisp_text_of(gbnf), &grammar, &error) != WISP_OK)
        fail_msg("%s: %s", gbnf, error.message);
    return grammar;
}

static struct wisp_grammar *open_schema(const char *schema) {
    struct wisp_grammar *grammar;
    wisp_error error;
    if (wisp_grammar_open_schema(wisp_text_of(schema), &grammar, &error) != WISP_OK)
        fail_msg("%s: %s", schema, error.message);
    return grammar;
}

/* The relations of a text to a grammar. */
enum match { IS_TEXT, BEGINS_TEXT, IS_NONE };

static enum match match(const struct wisp_grammar *grammar, const char *text) {
    struct grammar_state state;
    wisp_error error;
    bool accepted;
    assert_int_equal(grammar_state_open(&state, grammar, &error), WISP_OK);
    assert_int_equal(grammar_state_read(&state, wisp_text_of(text), &accepted, &error), WISP_OK);
    const bool complete = grammar_state_is_complete(&state);
    grammar_state_release(&state);
    return !accepted ? IS_NONE : complete ? IS_TEXT : BEGINS_TEXT;
}

static void check_texts(const struct wisp_grammar *grammar, const char *name,
                        const char *const *texts, enum match expected) {
    for (; *texts; texts++)
        if (match(grammar, *texts) != expected)
            fail_msg("%s: \"%s\" should be %d, is %d", name, *texts, expected,
                     match(grammar, *texts));
}

static void grammars_have_their_texts(void **state) {
    static const struct {
        const char *gbnf;
        const char *texts[8], *begins[6], *none[8];
    } cases[] = {
        {"root ::= \"ab\"", {"ab"}, {"", "a"}, {"b", "abc", "aB"}},
        {"root ::= \"\"", {""}, {NULL}, {"a"}},
        {"root ::= \"a\"* \"b\"+ \"c\"?",
         {"b", "ab", "aaabbbc", "bc"},
         {"", "a", "aaa"},
         {"c", "ba", "bcc", "abca"}},
        {"root ::= \"ab\"* | [0-9]{2,3}",
         {"", "ab", "abab", "12", "123"},
         {"a", "aba", "1"},
         {"b", "1234", "ab1"}},
        {"root ::= [a-c]{3}", {"abc", "ccc"}, {"ab"}, {"abcd", "abd"}},
        {"root ::= [a]{2,} \"!\"", {"aa!", "aaaaa!"}, {"aa", "a"}, {"a!", "!"}},
        {"root ::= \"x\"{0,2}", {"", "x", "xx"}, {NULL}, {"xxx"}},
        {"root ::= \"x\"{0}", {""}, {NULL}, {"x"}},
        {"root ::= [^a-y\\n] .",
         {"z\n", "\xC3\xA9q", "-\xF0\x9F\x98\x80"},
         {"\xC3", "z\xF0\x9F"},
         {"a", "\n", "zzz", "\x80"}},
        {"root ::= [\xC3\xA0-\xC3\xBF\xE2\x82\xAC]+",
         {"\xC3\xA9", "\xC3\xBF\xE2\x82\xAC", "\xC3\xA0"},
         {"\xC3", "\xE2\x82"},
         {"a", "\xC3\x9F", "\xC4\x80", "\xE2\x82\xAD"}},
        {"root ::= \"\\x41\\u00e9\\U0001F600\\t\\\\\\\"\"",
         {"A\xC3\xA9\xF0\x9F\x98\x80\t\\\""},
         {"A\xC3"},
         {"a"}},
        {"root ::= [\\]\\-\\\\a-]+", {"]-\\a"}, {""}, {"b"}},
        {"# a comment\nroot ::= a # another\n  | b\na ::= (\"x\" |\n \"y\")\n\nb ::=\n  \"z\"\n",
         {"x", "y", "z"},
         {""},
         {"xy"}},
        {"root ::= \"(\" root \")\" | \"\"", {"", "()", "((()))"}, {"(", "(()"}, {")", "())"}},
        {"root ::= list\nlist ::= \"a\" (\",\" list)?",
         {"a", "a,a", "a,a,a,a"},
         {"a,"},
         {",", "aa"}},
        {"root ::= (\"a\"? \"b\"?)* \"c\"", {"c", "abc", "babac"}, {"ab"}, {"cc"}},
        {"root ::= ((((\"\"))*)*)*", {""}, {NULL}, {"a"}},
        {"root ::= \"\"+ \"a\" \"\"{3}", {"a"}, {""}, {"aa"}},
        {"root ::= a a a\na ::= \"x\" | \"xx\"", {"xxx", "xxxxxx", "xxxx"}, {"xx"}, {"xxxxxxx"}},
        {"root ::= never | \"a\"\nnever ::= never", {"a"}, {""}, {"b"}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct wisp_grammar *grammar = open_grammar(cases[i].gbnf);
        check_texts(grammar, cases[i].gbnf, cases[i].texts, IS_TEXT);
        check_texts(grammar, cases[i].gbnf, cases[i].begins, BEGINS_TEXT);
        check_texts(grammar, cases[i].gbnf, cases[i].none, IS_NONE);
        wisp_grammar_close(grammar);
    }
}

#define MANY "\"a\"{100000} \"a\"{100000} "

static void faults_have_their_places(void **state) {
    static const struct {
        const char *gbnf, *message;
    } cases[] = {
        {"", "has no rule \"root\""},
        {"a ::= \"b\"", "has no rule \"root\""},
        {"root = \"a\"", "line 1, column 6: expected ::="},
        {"root ::= a", "line 1, column 10: a rule of this name is not defined"},
        {"root ::= \"a\nb\"", "line 1, column 12: the line ends within quotes or brackets"},
        {"root ::= [a", "line 1, column 12: the line ends within quotes or brackets"},
        {"root ::= [z-a]", "line 1, column 11: the range ends before it begins"},
        {"root ::= (\"a\"", "line 1, column 14: expected )"},
        {"root ::= \"a\")", "line 1, column 13: expected a literal, a set, a name or the end"},
        {"root ::= \"a\"{2", "line 1, column 15: expected }"},
        {"root ::= \"a\"{x}", "line 1, column 14: expected a number"},
        {"root ::= \"a\"{3,2}", "line 1, column 13: the most repetitions are fewer"},
        {"root ::= \"a\"{100001}", "line 1, column 14: the number of repetitions is too large"},
        {"root ::= \"\\q\"", "line 1, column 12: an unknown escape"},
        {"root ::= \"\\x4\"", "line 1, column 14: expected a hexadecimal digit"},
        {"root ::= \"\\ud800\"", "the number is not a character"},
        {"root ::= \"a\"\nroot ::= \"b\"", "line 2, column 1: the rule was defined before"},
        {"root ::= \"\xFF\"", "line 1, column 12: ill-formed UTF-8"},
        {"root ::= root \"a\" | \"b\"", "line 1, column 1: the rule can begin with itself"},
        {"root ::= e root \"a\" | \"b\"\ne ::= \"x\"*", "can begin with itself"},
        {"root ::= a \"x\"\na ::= b \"y\" | \"z\"\nb ::= a \"w\"", "can begin with itself"},
        {"root ::= \"a\" *{2}", "line 1, column 15: expected a literal, a set"},
        {"root ::= a a a a\na ::= b b b\nb ::= " MANY MANY MANY MANY MANY MANY, "is too large"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct wisp_grammar *grammar;
        wisp_error error;
        const wisp_status status = wisp_grammar_open(wisp_text_of(cases[i].gbnf), &grammar, &error);
        if (status == WISP_OK || !strstr(error.message, cases[i].message))
            fail_msg("%s: \"%s\"", cases[i].gbnf, status == WISP_OK ? "no error" : error.message);
        assert_string_equal(error.field, "grammar");
        assert_null(grammar);
    }
    /* A byte of 0 is not a repetition, though it ends the list of their signs. */
    struct wisp_grammar *none;
    wisp_error at_zero;
    assert_int_equal(wisp_grammar_open((wisp_text){"root ::= \"a\"\0", 13}, &none, &at_zero),
                     WISP_ERROR_FORMAT);
    assert_non_null(strstr(at_zero.message, "line 1, column 13: expected a literal, a set"));
    /* Groups may be nested to a bound. */
    char deep[400] = "root ::= ";
    memset(deep + 9, '(', 100);
    memset(deep + 109, ')', 100);
    struct wisp_grammar *grammar;
    wisp_error error;
    assert_int_equal(wisp_grammar_open(wisp_text_of(deep), &grammar, &error), WISP_ERROR_FORMAT);
    assert_non_null(strstr(error.message, "groups are nested too deep"));
}

/* Rules within rules end at a depth; a rule that ends with itself takes none. */
static void depth_is_bounded(void **state) {
    enum { LONG = 20000 };
    static char text[LONG + 1];
    (void)state;
    memset(text, '(', LONG);
    struct wisp_grammar *nested = open_grammar("root ::= \"(\" root \")\" | \"x\"");
    assert_int_equal(match(nested, text), IS_NONE);
    text[GRAMMAR_MOST_DEPTH] = '\0';
    assert_int_equal(match(nested, text), BEGINS_TEXT);
    struct wisp_grammar *tail = open_grammar("root ::= \"(\" root | \"x\"");
    memset(text, '(', LONG);
    assert_int_equal(match(tail, text), BEGINS_TEXT);
    wisp_grammar_close(nested);
    wisp_grammar_close(tail);
}

/* ---- size ----------------------------------------------------------------------------------- */

/* Appends a text that printf makes. */
static void append(char **at, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void append(char **at, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    *at += vsprintf(*at, format, arguments);
    va_end(arguments);
}

/* Compiling takes time that is linear in a grammar's size: were it quadratic, this test would take
 * minutes. */
static void large_grammars_take_linear_time(void **state) {
    enum { RULES = 16000, GROUPS = 20, REFERENCES = 400000, SETS = 20000, MEGABYTES = 4 << 20 };
    char *text = malloc(MEGABYTES), *at = text;
    struct wisp_grammar *grammar;
    wisp_error error;
    (void)state;
    assert_non_null(text);
    append(&at, "root ::= a{0,100000} (");
    for (int i = 0; i < REFERENCES; i++)
        append(&at, "x ");
    append(&at, ")\na ::= \"a\"\nx ::= \"\"\n");
    assert_int_equal(wisp_grammar_open(wisp_text_of(text), &grammar, &error),
                     WISP_ERROR_UNSUPPORTED);
    assert_non_null(strstr(error.message, "the rule root can begin in more than 4096 ways"));

    /* Each rule is empty because another is, which comes after or before it: then the root begins
     * with itself. */
    for (int backwards = 0; backwards < 2; backwards++) {
        at = text;
        append(&at, "root ::= r0 root \"x\" | \"y\"\n");
        for (int k = 0; k < RULES; k++) {
            const int i = backwards ? RULES - 1 - k : k;
            append(&at, "r%d ::= %.*s", i, GROUPS, "((((((((((((((((((((");
            if (i + 1 < RULES)
                append(&at, "r%d", i + 1);
            else
                append(&at, "\"\"");
            append(&at, "%.*s\n", GROUPS, "))))))))))))))))))))");
        }
        assert_int_equal(wisp_grammar_open(wisp_text_of(text), &grammar, &error),
                         WISP_ERROR_FORMAT);
        assert_non_null(strstr(error.message, "left recursion"));
    }

    at = text;
    append(&at, "root ::= ");
    for (int i = 0; i < SETS; i++) {
        append(&at, "[0");
        for (int bit = 0; bit < 15; bit++)
            if (i >> bit & 1)
                append(&at, "%c", 'a' + bit);
        append(&at, "] ");
    }
    assert_int_equal(wisp_grammar_open(wisp_text_of(text), &grammar, &error),
                     WISP_ERROR_UNSUPPORTED);
    assert_non_null(strstr(error.message, "more than 16384 sets of bytes"));
    free(text);
}

/* So many ways of going on are followed, and no more; texts are read in time that does not grow
 * with the number of ways once these are known. */
static void many_ways_are_followed(void **state) {
    enum { CLASSES = 900, TOO_MANY = 4200 };
    char *text = malloc(40 * TOO_MANY), *at = text;
    struct wisp_grammar *grammar;
    wisp_error error;
    (void)state;
    assert_non_null(text);
    append(&at, "root ::=");
    for (int i = 0; i < CLASSES; i++)
        append(&at, " [a%c]?", 'b' + i % 20);
    grammar = open_grammar(text);
    assert_int_equal(match(grammar, ""), IS_TEXT);
    assert_int_equal(match(grammar, "abcabcuta"), IS_TEXT);
    assert_int_equal(match(grammar, "abz"), IS_NONE);
    wisp_grammar_close(grammar);
    at = text;
    append(&at, "root ::= \"x\" most\nmost ::=");
    for (int i = 0; i < TOO_MANY; i++)
        append(&at, " [a%c]?", 'b' + i % 20);
    assert_int_equal(wisp_grammar_open(wisp_text_of(text), &grammar, &error),
                     WISP_ERROR_UNSUPPORTED);
    assert_non_null(strstr(error.message, "the rule most can begin in more than 4096 ways"));
    free(text);
}

/* ---- tokens --------------------------------------------------------------------------------- */

/* Pauses until its context, a number, is 0, and fails if it is less. */
static wisp_status wait_a_while(void *context, bool *paused, wisp_error *error) {
    int *left = context;
    *paused = *left > 0;
    if (*left < 0) {
        set_error(error, WISP_ERROR_CANCELLED, NULL, NULL, "cancelled");
        return WISP_ERROR_CANCELLED;
    }
    *left -= *left > 0;
    return WISP_OK;
}

/* A mask that was computed in slices, after one that was given up, is the same. */
static void masks_are_computed_in_slices(void **state) {
    struct wisp_grammar *grammar = open_grammar("root ::= [a-z ]{1,400} (\".\" | \"!\")+");
    wisp_model *model = open_model_or_fail(stories, WISP_COMPUTE_AUTO, NULL);
    struct token_order order;
    struct token_mask whole, sliced;
    wisp_error error;
    (void)state;
    assert_int_equal(token_order_open(&order, model->codec, &error), WISP_OK);
    assert_int_equal(token_mask_open(&whole, grammar, model->codec, &order, NULL, 0, &error),
                     WISP_OK);
    assert_int_equal(token_mask_open(&sliced, grammar, model->codec, &order, NULL, 0, &error),
                     WISP_OK);
    const uint8_t *expected, *found;
    bool paused;
    int slices = 0, left = -1, once = 1;
    assert_int_equal(token_mask_allowed(&whole, &expected, &error), WISP_OK);
    assert_int_equal(token_mask_prepare(&sliced, wait_a_while, &once, &paused, &error), WISP_OK);
    assert_true(paused);
    assert_int_equal(token_mask_prepare(&sliced, wait_a_while, &left, &paused, &error),
                     WISP_ERROR_CANCELLED);
    do {
        left = 1;
        assert_int_equal(token_mask_prepare(&sliced, wait_a_while, &left, &paused, &error),
                         WISP_OK);
        slices++;
    } while (paused);
    assert_true(slices > 3);
    assert_int_equal(token_mask_allowed(&sliced, &found, &error), WISP_OK);
    assert_memory_equal(found, expected, order.vocabulary_size / 8);
    token_mask_release(&whole);
    token_mask_release(&sliced);
    token_order_release(&order);
    wisp_model_close(model);
    wisp_grammar_close(grammar);
}

/* The mask has exactly the tokens that the machine accepts one by one, in every state of texts that
 * are drawn at random. */
static void masks_are_those_of_each_token(void **state) {
    static const char *const grammars[] = {
        "root ::= (\" \"? [a-z]+)+ [.!?]", "root ::= (\"(\" root \")\")? \" was\" | \"a\" | .",
        "root ::= [^a]{3,9} \"\xC3\xA9\"", "root ::= \"Once\" \" upon\" \" a\" \" time\""};
    /* Strings that go on for long, for a while, or only so; keys of members that may be or not. */
    static const char *const schemas[] = {
        "{\"properties\": {\"a\": {\"type\": \"array\"}, \"b\": {\"type\": \"string\"}}}",
        "{\"type\": \"string\", \"maxLength\": 40}",
        "{\"type\": \"string\", \"pattern\": \"^[a-z ]*w\"}",
        "{\"type\": \"object\", \"properties\": {\"was\": {\"const\": 1}, \"wall\": {\"const\": "
        "2}},"
        " \"maxProperties\": 2, \"patternProperties\": {\"^x\": {\"type\": \"null\"}},"
        " \"required\": [\"was\"]}"};
    wisp_model *model = open_model_or_fail(stories, WISP_COMPUTE_AUTO, NULL);
    struct token_order order;
    uint64_t random = 4;
    wisp_error error;
    (void)state;
    assert_int_equal(token_order_open(&order, model->codec, &error), WISP_OK);
    for (size_t i = 0; i < 8; i++) {
        struct wisp_grammar *grammar =
            i < 4 ? open_grammar(grammars[i]) : open_schema(schemas[i - 4]);
        const int32_t stop_id = 300;
        for (size_t round = 0; round < 4; round++) {
            struct token_mask mask;
            assert_int_equal(
                token_mask_open(&mask, grammar, model->codec, &order, &stop_id, 1, &error),
                WISP_OK);
            for (size_t step = 0; step < 30; step++) {
                const uint8_t *allowed;
                int32_t choices[1024];
                size_t n = 0;
                assert_int_equal(token_mask_allowed(&mask, &allowed, &error), WISP_OK);
                for (size_t id = 0; id < order.vocabulary_size; id++) {
                    const wisp_text text = codec_decode(model->codec, (int32_t)id);
                    const bool in_mask = allowed[id / 8] >> id % 8 & 1;
                    bool expected = grammar_state_is_complete(&mask.state);
                    if ((int32_t)id != stop_id && !codec_is_end(model->codec, (int32_t)id)) {
                        for (size_t b = 0; b < text.length; b++) {
                            size_t items;
                            assert_int_equal(grammar_state_push(
                                                 &mask.state, (unsigned char)text.bytes[b], &error),
                                             WISP_OK);
                            grammar_state_items(&mask.state, &items);
                            expected = items > 0;
                            if (!expected)
                                break;
                        }
                        expected = expected && text.length > 0;
                        grammar_state_pop(&mask.state, 1);
                        if (in_mask)
                            choices[n++] = (int32_t)id;
                    }
                    if (in_mask != expected)
                        fail_msg("grammar %zu, step %zu: token %zu \"%.*s\" is%s allowed", i, step,
                                 id, (int)text.length, text.bytes, in_mask ? "" : " not");
                }
                if (n == 0)
                    break;
                const int32_t id = choices[random_next(&random) % n];
                assert_int_equal(token_mask_read(&mask, id, &error), WISP_OK);
            }
            token_mask_release(&mask);
        }
        wisp_grammar_close(grammar);
    }
    token_order_release(&order);
    wisp_model_close(model);
}

struct text {
    char bytes[4096];
    size_t length;
};

static bool take(void *context, const wisp_piece *piece) {
    struct text *text = context;
    assert_true(text->length + piece->text.length < sizeof text->bytes);
    memcpy(text->bytes + text->length, piece->text.bytes, piece->text.length);
    text->length += piece->text.length;
    text->bytes[text->length] = '\0';
    return true;
}

static void texts_match_their_grammars(void **state) {
    struct wisp_grammar *day = open_grammar("root ::= \" Lily\" | \" Tom\"");
    struct wisp_grammar *empty = open_grammar("root ::= \"\"");
    struct wisp_grammar *none = open_grammar("root ::= never\nnever ::= never");
    wisp_model *model = open_model_or_fail(stories, WISP_COMPUTE_AUTO, NULL);
    wisp_session *session = open_session_or_fail(model, 1);
    struct text text = {0};
    wisp_generate_options options = {.grammar = day, .piece = take, .context = &text};
    wisp_generation result;
    wisp_error error;
    (void)state;
    assert_int_equal(wisp_generate(session, wisp_text_of("A boy named"), &options, &result, &error),
                     WISP_OK);
    assert_true(strcmp(text.bytes, " Tom") == 0 || strcmp(text.bytes, " Lily") == 0);
    assert_int_equal(result.end, WISP_END_GRAMMAR);

    text.length = 0;
    options.grammar = empty;
    assert_int_equal(wisp_generate(session, wisp_text_of("A boy"), &options, &result, &error),
                     WISP_OK);
    assert_int_equal(result.end, WISP_END_GRAMMAR);
    assert_int_equal(result.tokens, 0);
    assert_int_equal(text.length, 0);

    options.grammar = none;
    assert_int_equal(wisp_generate(session, wisp_text_of("A boy"), &options, &result, &error),
                     WISP_ERROR_ARGUMENT);
    assert_string_equal(error.field, "grammar");
    wisp_session_close(session);
    wisp_model_close(model);
    wisp_grammar_close(day);
    wisp_grammar_close(empty);
    wisp_grammar_close(none);
    wisp_grammar_close(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(grammars_have_their_texts),
        cmocka_unit_test(faults_have_their_places),
        cmocka_unit_test(depth_is_bounded),
        cmocka_unit_test(large_grammars_take_linear_time),
        cmocka_unit_test(many_ways_are_followed),
        cmocka_unit_test(masks_are_computed_in_slices),
        cmocka_unit_test(masks_are_those_of_each_token),
        cmocka_unit_test(texts_match_their_grammars),
    };
    return cmocka_run_group_tests_name("grammar", tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0
 * Calls of tools in replies: how each family writes them, and what is none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chat/tool_calls.h"
#include "support/golden.h"

#undef fail /* base/status.h has another */
#include <cmocka.h>

#define BAR "\uFF5C"
#define SPACE "\u2581"

/* Writes the calls as NAME ARGUMENTS, a line each, after what comes before them in quotes. */
static void show(wisp_text reply, char *shown, size_t capacity) {
    struct arena arena = {0};
    struct tool_calls calls;
    wisp_error error;
    size_t n;
    assert_int_equal(tool_calls_find(&arena, reply, &calls, &error), WISP_OK);
    n = (size_t)snprintf(shown, capacity, "%zu'%.*s'", calls.count, (int)calls.begin, reply.bytes);
    for (const struct tool_call *call = calls.first; call; call = call->next) {
        assert_true(n < capacity);
        n += (size_t)snprintf(shown + n, capacity - n, "\n%.*s %.*s", (int)call->name.length,
                              call->name.bytes, (int)call->arguments.length, call->arguments.bytes);
    }
    arena_release(&arena);
}

static void each_family_is_read(void **state) {
    static const struct {
        const char *reply, *shown;
    } cases[] = {
        {"I look.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": "
         "\"}<\\\"\"}}\n</tool_call>",
         "1'I look.\n'\nf {\"a\": \"}<\\\"\"}"},
        {"<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>\n<tool_call>\n{\"arguments\": "
         "{\"b\": "
         "[1]}, \"name\": \"g\"}\n",
         "2''\nf {}\ng {\"b\": [1]}"},
        {"{\"name\": \"f\", \"parameters\": {\"a\": 1}}", "1''\nf {\"a\": 1}"},
        {" <|python_tag|>{\"name\": \"f\", \"parameters\": {}}; {\"name\": \"g\", \"parameters\": "
         "{}}<|eom_id|>",
         "2' '\nf {}\ng {}"},
        {"[TOOL_CALLS] [{\"name\": \"f\", \"arguments\": {\"a\": 1}, \"id\": \"x\"}, {\"name\": "
         "\"g\", "
         "\"arguments\": \"{}\"}]",
         "2''\nf {\"a\": 1}\ng \"{}\""},
        {"ok[TOOL_CALLS]f[ARGS]{\"a\": 1}[TOOL_CALLS]g[CALL_ID]123[ARGS]{}",
         "2'ok'\nf {\"a\": 1}\ng {}"},
        {"<function=f>{\"a\": 1}</function><function=g>{}</function>", "2''\nf {\"a\": 1}\ng {}"},
        {"So.\n<tool_call>\n<function=f>\n<parameter=a>\nx "
         "\"y\"\n\xC3\xA9\n</parameter>\n<parameter=b>\n[1, "
         "2]\n</parameter>\n</function>\n</tool_call>",
         "1'So.\n'\nf {\"a\": \"x \\\"y\\\"\\n\xC3\xA9\", \"b\": [1, 2]}"},
        {"<|tool_call|>[{\"name\": \"f\", \"arguments\": {}}]", "1''\nf {}"},
        {"<|START_ACTION|>[{\"tool_call_id\": \"0\", \"tool_name\": \"f\", \"parameters\": {}}]"
         "<|END_ACTION|>",
         "1''\nf {}"},
        {"<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{"
         "\"a\": 1}"
         "<|tool_call_end|><|tool_calls_section_end|>",
         "1'<|tool_calls_section_begin|>'\nf {\"a\": 1}"},
        {"<" BAR "tool" SPACE "call" SPACE "begin" BAR ">function<" BAR "tool" SPACE "sep" BAR
         ">f\n```json\n{\"a\": 1}\n```<" BAR "tool" SPACE "call" SPACE "end" BAR ">",
         "1''\nf {\"a\": 1}"},
        {"<" BAR "tool" SPACE "call" SPACE "begin" BAR ">f<" BAR "tool" SPACE "sep" BAR ">{}<" BAR
         "tool" SPACE "call" SPACE "end" BAR ">",
         "1''\nf {}"},
        {" functools[{\"name\": \"f\", \"arguments\": {}}]", "1' '\nf {}"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char shown[512];
        show(wisp_text_of(cases[i].reply), shown, sizeof shown);
        assert_string_equal(shown, cases[i].shown);
    }
}

static void all_else_is_no_call(void **state) {
    static const char *const replies[] = {
        "",
        "Hello.",
        "{\"name\": \"f\"}",
        "{\"name\": 1, \"arguments\": {}}",
        "{\"name\": \"f\", \"arguments\": [1]}",
        "{\"name\": \"f\", \"parameters\": {}} and more",
        "[1, 2]",
        "<tool_call>",
        "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1}",
        ("<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call><tool_call>{\"name\": \"g\", "
         "\"argu"),
        "<tool_call>{\"name\": \"f\", \"arguments\": {]}</tool_call>",
        "<function=f",
        "<function=f>",
        "<function=>{}</function>",
        "<function=f>{\"a\"",
        "<function=f><parameter=a>1",
        "[TOOL_CALLS]",
        "[TOOL_CALLS]f[ARGS]",
        "[TOOL_CALLS]f[ARGS]{",
        "functools",
    };
    (void)state;
    for (size_t i = 0; i < sizeof replies / sizeof *replies; i++) {
        char shown[512];
        /* With the text's own bounds, so that sanitizers see a byte too many. */
        const size_t length = strlen(replies[i]);
        char *exact = malloc(length + !length);
        assert_non_null(exact);
        memcpy(exact, replies[i], length);
        show((wisp_text){exact, length}, shown, sizeof shown);
        if (strcmp(shown, "0''") != 0)
            fail_msg("%s: %s", replies[i], shown);
        free(exact);
    }
}

static void a_reply_becomes_a_message(void **state) {
    static const char reply[] =
        "Yes \"x\"\n<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1}}</tool_call>";
    static const char message[] = "{\"role\": \"assistant\", \"content\": \"Yes "
                                  "\\\"x\\\"\\n\", \"tool_calls\": [{\"type\": "
                                  "\"function\", \"id\": \"call00001\", \"function\": {\"name\": "
                                  "\"f\", \"arguments\": {\"a\": 1}}}]}";
    wisp_model *model = open_model_or_fail("models/wisp-stories.gguf", WISP_COMPUTE_AUTO, NULL);
    int32_t ids[256];
    size_t n, length;
    char json[512];
    wisp_error error;
    (void)state;
    assert_int_equal(wisp_tokenize(model, wisp_text_of(reply), ids, 256, &n, &error), WISP_OK);
    assert_true(n < 256);
    /* The first id begins a text, and the second has a space of its own. */
    assert_int_equal(wisp_chat_tool_calls(model, ids, n, json, sizeof json, &length, &error),
                     WISP_OK);
    assert_true(length < sizeof json);
    json[length] = '\0';
    const char *content = strstr(json, "Yes");
    assert_non_null(content);
    assert_string_equal(content, strstr(message, "Yes"));
    const size_t whole = length;
    char few[10] = "unchanged";
    assert_int_equal(wisp_chat_tool_calls(model, ids, n, few, 1, &length, &error), WISP_OK);
    assert_int_equal(length, whole);
    assert_string_equal(few + 1, "nchanged");
    assert_int_equal(wisp_chat_tool_calls(model, ids, 5, NULL, 0, &length, &error), WISP_OK);
    assert_int_equal(length, 0);
    ids[0] = -1;
    assert_int_equal(wisp_chat_tool_calls(model, ids, n, NULL, 0, &length, &error),
                     WISP_ERROR_ARGUMENT);
    assert_string_equal(error.field, "ids");
    assert_int_equal(wisp_chat_tool_calls(NULL, ids, n, NULL, 0, &length, &error),
                     WISP_ERROR_ARGUMENT);
    wisp_model_close(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_family_is_read),
        cmocka_unit_test(all_else_is_no_call),
        cmocka_unit_test(a_reply_becomes_a_message),
    };
    return cmocka_run_group_tests_name("tool calls", tests, NULL, NULL);
}

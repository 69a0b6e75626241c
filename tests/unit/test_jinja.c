/* SPDX-License-Identifier: Apache-2.0
 * The interpreter of chat templates: what jinja2 writes (tests/oracle/jinja.py --write-golden),
 * errors with their lines, limits, and any prefix of a template. tests/unit/test_chat.c has
 * prompts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "jinja/jinja.h"
#include "support/allocations.h"
#include "support/golden.h"

#undef fail /* base/status.h has another */
#include <cmocka.h>

enum { MAX_VARIABLES = 32 };

struct golden {
    struct arena arena;
    char *raw;
    const struct json *root;
};

static void open_golden(struct golden *golden) {
    char path[GOLDEN_PATH_BYTES];
    *golden = (struct golden){.root = NULL};
    golden->root =
        read_json_file(data_path("golden-templates.json", path), &golden->arena, &golden->raw);
}

static void close_golden(struct golden *golden) {
    arena_release(&golden->arena);
    free(golden->raw);
}

/* Runs a template with the golden's variables. */
static wisp_status run(const struct golden *golden, wisp_text source, struct arena *arena,
                       struct value *text, wisp_error *error) {
    struct jinja_variable variables[MAX_VARIABLES];
    struct jinja_call call = {.source = source,
                              .variables = variables,
                              .date = json_get(golden->root, "date")->text,
                              .file = "test.gguf"};
    const struct json *given = json_get(golden->root, "variables");
    assert_true(given->count <= MAX_VARIABLES);
    for (const struct json *each = given->first; each; each = each->next) {
        variables[call.n].name = each->key;
        TRY(value_from_json(arena, each, JINJA_GIVEN, &variables[call.n++].value, error));
    }
    return jinja_run(arena, &call, text, error);
}

static bool equals(struct value text, wisp_text expected) {
    size_t at = 0;
    for (uint32_t i = 0; i < text.n; i++) {
        char bytes[4];
        const size_t n = utf8_encode(text.as.text[i] & ~JINJA_GIVEN, bytes);
        if (n > expected.length - at || memcmp(expected.bytes + at, bytes, n) != 0)
            return false;
        at += n;
    }
    return at == expected.length;
}

static void templates_are_written_as_by_jinja2(void **state) {
    struct golden golden;
    size_t written = 0, refused = 0;
    (void)state;
    open_golden(&golden);
    for (const struct json *each = json_get(golden.root, "templates")->first; each;
         each = each->next) {
        const struct json *template = json_get(each, "template"), *text = json_get(each, "text");
        struct arena arena = {0};
        struct value mine;
        wisp_error error;
        const wisp_status status = run(&golden, json_text(template), &arena, &mine, &error);
        if (text && (status != WISP_OK || !equals(mine, json_text(text))))
            fail_msg("%s: %s", template->text, status ? error.message : text->text);
        if (!text) {
            if (status != WISP_ERROR_ARGUMENT && status != WISP_ERROR_UNSUPPORTED)
                fail_msg("%s: %d", template->text, (int)status);
            assert_string_equal(error.field, "tokenizer.chat_template");
            assert_non_null(strstr(error.message, "line "));
        }
        written += text != NULL;
        refused += text == NULL;
        arena_release(&arena);
    }
    assert_true(written > 250 && refused > 50);
    close_golden(&golden);
}

static void errors_say_line_and_construct(void **state) {
    static const struct {
        const char *template, *message;
    } cases[] = {
        {"a\n{{ x }}\n{{ zz.a }}", "line 3: 'zz' is undefined, and so are its parts"},
        {"\n{{ n\n | nosuch }}", "line 3: the filter 'nosuch'"},
        {"{{ n is\nnosuch }}", "line 2: the test 'nosuch'"},
        {"{% for x in l %}\n{% import 'x' as y %}{% endfor %}", "line 2: the tag 'import'"},
        {"{{ s.zfill(3) }}", "line 1: 'zfill' is undefined, and it is called"},
        {"{{ n | tojson(style=1) }}", "line 1: the filter 'tojson' with the argument style"},
        {"{{ l | map('nosuch') }}", "line 1: the filter 'nosuch'"},
        {"{{ strftime_now('%Q') }}", "line 1: strftime_now with %Q"},
        {"{{ f(*l) }}", "line 1: arguments from a list (*)"},
        {"{% for x in l recursive %}{% endfor %}", "line 1: a recursive loop"},
        {"{% if t %}a", "line 1: found 'the end of the template', expected elif"},
        {"{{ 'a }}", "line 1: a text in quotes does not end"},
        {"{{ a }}\n{{ \xC3\xA9 }}", "line 2: names of other letters"},
        {"{% break %}", "line 1: break or continue outside a loop"},
        {"{{ 9223372036854775807 + 1 }}", "line 1: an integer of more than 64 bits"},
        {"{% set n.x = 1 %}", "line 1: an integer: only attributes of a namespace"},
    };
    struct golden golden;
    (void)state;
    open_golden(&golden);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct arena arena = {0};
        struct value text;
        wisp_error error;
        assert_int_not_equal(run(&golden, wisp_text_of(cases[i].template), &arena, &text, &error),
                             WISP_OK);
        if (!strstr(error.message, cases[i].message))
            fail_msg("%s: %s", cases[i].template, error.message);
        arena_release(&arena);
    }
    close_golden(&golden);
}

/* Nesting that would end the stack is refused, wherever it stands. */
static void depth_is_limited(void **state) {
    static const struct {
        const char *begin, *end;
    } nests[] = {{"{{ ((", "}}"},   {"{{ [[", "}}"},   {"{{ not not ", "}}"},       {"{{ --", "}}"},
                 {"{{ x[x[", "}}"}, {"{{ f(f(", "}}"}, {"{% if t %}{% if t %}", ""}};
    struct golden golden;
    (void)state;
    open_golden(&golden);
    for (size_t i = 0; i < sizeof nests / sizeof *nests; i++) {
        struct arena arena = {0};
        struct value text;
        wisp_error error;
        const bool is_tag = nests[i].begin[1] == '%';
        const char *repeated = is_tag ? "{% if t %}" : nests[i].begin + 3;
        const size_t length = strlen(repeated), times = 5000;
        char *source = malloc(length * times + 8);
        assert_non_null(source);
        memcpy(source, "{{ ", 3);
        for (size_t k = 0; k < times; k++)
            memcpy(source + 3 + k * length, repeated, length);
        const wisp_text nested = {source + (is_tag ? 3 : 0), length * times + (is_tag ? 0 : 3)};
        assert_int_equal(run(&golden, nested, &arena, &text, &error), WISP_ERROR_UNSUPPORTED);
        if (!strstr(error.message, "too deeply"))
            fail_msg("%s: %s", nests[i].begin, error.message);
        free(source);
        arena_release(&arena);
    }
    close_golden(&golden);
}

/* Every beginning of every template is run or refused: sanitizers see to it that no more is read.
 */
static void beginnings_of_templates_are_safe(void **state) {
    struct golden golden;
    (void)state;
    open_golden(&golden);
    for (const struct json *each = json_get(golden.root, "templates")->first; each;
         each = each->next) {
        const wisp_text template = json_text(json_get(each, "template"));
        for (size_t length = 0; length < template.length; length += 1 + length / 24) {
            struct arena arena = {0};
            struct value text;
            wisp_error error;
            char *exact = malloc(length + !length);
            assert_non_null(exact);
            memcpy(exact, template.bytes, length);
            const wisp_status status =
                run(&golden, (wisp_text){exact, length}, &arena, &text, &error);
            assert_true(status == WISP_OK || status == WISP_ERROR_UNSUPPORTED ||
                        status == WISP_ERROR_ARGUMENT);
            free(exact);
            arena_release(&arena);
        }
    }
    close_golden(&golden);
}

static void memory_may_be_short(void **state) {
    static const char template[] =
        "{% macro m(a, b=1) %}{{ a ~ b }}{% endmacro %}{% set ns = namespace(x=[1]) %}"
        "{% for k, v in d | dictsort if k %}{{ m(k) }}{{ v | tojson(indent=2) }}{{ loop.last }}"
        "{% endfor %}{{ s.split('b') | map('upper') | join('-') }}{{ l | sort | reverse | list }}"
        "{{ '%s' % n }}{{ o | selectattr('v') | list }}{{ r + 0.1 }}{% set y %}a{% endset %}";
    struct golden golden;
    uint64_t calls = 0;
    (void)state;
    if (!allocations_are_watched())
        return;
    open_golden(&golden);
    for (bool failed = true; failed; calls++) {
        struct arena arena = {0};
        struct value text;
        wisp_error error;
        allocations_watch();
        allocations_fail_after(calls, false);
        const wisp_status status = run(&golden, wisp_text_of(template), &arena, &text, &error);
        failed = allocations_seen().failed;
        allocations_succeed();
        assert_int_equal(status, failed ? WISP_ERROR_MEMORY : WISP_OK);
        arena_release(&arena);
    }
    assert_true(calls > 0);
    close_golden(&golden);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(templates_are_written_as_by_jinja2),
        cmocka_unit_test(errors_say_line_and_construct),
        cmocka_unit_test(depth_is_limited),
        cmocka_unit_test(beginnings_of_templates_are_safe),
        cmocka_unit_test(memory_may_be_short),
    };
    return cmocka_run_group_tests_name("jinja", tests, NULL, NULL);
}

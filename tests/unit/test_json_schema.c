/* SPDX-License-Identifier: Apache-2.0
 * JSON Schemas: which texts are valid, and what is said of those that no grammar can follow.
 * tests/oracle/schemas.py compares both with jsonschema over real schemas. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "grammar/grammar_state.h"

#undef fail /* base/status.h has another */
#include <cmocka.h>

static bool matches(const struct wisp_grammar *grammar, const char *text) {
    struct grammar_state state;
    wisp_error error;
    bool accepted;
    assert_int_equal(grammar_state_open(&state, grammar, &error), WISP_OK);
    assert_int_equal(grammar_state_read(&state, wisp_text_of(text), &accepted, &error), WISP_OK);
    const bool complete = accepted && grammar_state_is_complete(&state);
    grammar_state_release(&state);
    return complete;
}

struct schema_case {
    const char *schema;
    const char *valid[9], *invalid[9]; /* single quotes stand for double ones */
};

/* Replaces the quotes. */
static char *quoted(const char *text) {
    char *copy = malloc(strlen(text) + 1);
    assert_non_null(copy);
    strcpy(copy, text);
    for (char *c = copy; *c; c++)
        if (*c == '\'')
            *c = '"';
    return copy;
}

static void check_cases(const struct schema_case *cases, size_t n) {
    for (size_t i = 0; i < n; i++) {
        char *schema = quoted(cases[i].schema);
        struct wisp_grammar *grammar;
        wisp_error error;
        if (wisp_grammar_open_schema(wisp_text_of(schema), &grammar, &error) != WISP_OK)
            fail_msg("%s: %s", schema, error.message);
        for (size_t k = 0; k < 18; k++) {
            const char *given = k < 9 ? cases[i].valid[k] : cases[i].invalid[k - 9];
            if (!given)
                continue;
            char *text = quoted(given);
            if (matches(grammar, text) != (k < 9))
                fail_msg("%s: %s should be %s", schema, text, k < 9 ? "valid" : "invalid");
            free(text);
        }
        wisp_grammar_close(grammar);
        free(schema);
    }
}

#define CHECK(cases) check_cases(cases, sizeof(cases) / sizeof *(cases))

static void types_and_values(void **state) {
    static const struct schema_case cases[] = {
        {"true",
         {"{}", "[1, [2.5e3, -0], {'a': null}]", "'\\u00e9\\n\\ud83d\\ude00'", "true",
          "{'': '\xC3\xA9'}"},
         {"{", "[1,]", "01", "a", "'\n'", "'\\ud800'", "nul"}},
        {"{'type': 'integer'}", {"0", "-12", "9999"}, {"1.5", "01", "'1'", "-"}},
        {"{'type': ['boolean', 'null']}", {"true", "false", "null"}, {"1", "tru"}},
        {"{'enum': [1, 'a', {'b': [true]}]}",
         {"1", "'a'", "{'b': [true]}", "{ 'b': [true]}"},
         {"2", "a", "{'b': [false]}", "{'b': []}", "{'b': [true], 'c': 1}"}},
        {"{'enum': [1, 'a', null], 'type': 'string'}", {"'a'"}, {"1", "null"}},
        {"{'const': 'x\\\\y', 'type': 'string'}", {"'x\\\\y'"}, {"'x'"}},
        {"{'not': {'enum': ['a', 1, null, [1], {'k': 1}]}}",
         {"'b'", "2", "true", "[]", "[2]", "[1, 1]", "{}", "{'k': 2}", "{'k': 1, 'l': 1}"},
         {"'a'", "1", "1.0", "null", "[1]", "{'k': 1}"}},
        {"{'type': 'string', 'x-order': 3, 'readonly': true, 'id': '/a', 'links': []}",
         {"''"},
         {"1"}},
    };
    (void)state;
    CHECK(cases);
}

static void numbers(void **state) {
    static const struct schema_case cases[] = {
        {"{'type': 'integer', 'minimum': 0, 'maximum': 255}",
         {"0", "9", "99", "100", "199", "255", "-0"},
         {"256", "260", "300", "1000", "-1", "1.5"}},
        {"{'type': 'integer', 'exclusiveMinimum': -13, 'exclusiveMaximum': 7}",
         {"-12", "-9", "-1", "0", "6"},
         {"-13", "-14", "-100", "7", "8", "10"}},
        {"{'type': 'number', 'minimum': -1.25, 'maximum': 3.5}",
         {"-1.25", "-1.250", "-1.2", "0", "3.5", "3.49", "3", "0.001", "1e-7"},
         {"-1.26", "-1.3", "-2", "3.51", "3.500001", "4", "10", "1e1", "-9e0"}},
        {"{'minimum': 0.05, 'exclusiveMaximum': 1}",
         {"0.05", "0.5", "0.06", "0.9999", "5e-2", "9.9e-1", "'x'"},
         {"0.049", "0.005", "1", "1.0", "0", "4.9e-2", "1e0", "-0.5"}},
        {"{'multipleOf': 0.25}", {"1", "1.5", "1.25", "-0.75", "0"}, {"1.1", "1.3", "0.251"}},
        {"{'type': 'integer', 'multipleOf': 7}", {"0", "7", "14", "-21"}, {"1", "8", "71"}},
        {"{'$schema': 'http://json-schema.org/draft-04/schema#', 'minimum': 1,"
         " 'exclusiveMinimum': true}",
         {"2", "1.1"},
         {"1", "0"}},
        {"{'type': 'number', 'not': {'type': 'integer'}}", {"1.5", "-0.1"}, {"1", "2.0", "'a'"}},
        {"{'type': 'integer', 'not': {'multipleOf': 2}}", {"1", "7"}, {"2", "10"}},
        {"{'oneOf': [{'type': 'integer'}, {'type': 'number', 'minimum': 2}]}",
         {"1", "-5", "2.5"},
         {"2", "7", "1.5"}},
        {"{'minimum': -9007199254740991, 'maximum': 9007199254740991, 'type': 'integer'}",
         {"9007199254740991", "-9007199254740991"},
         {"9007199254740992", "10000000000000000"}},
    };
    (void)state;
    CHECK(cases);
}

static void strings(void **state) {
    static const struct schema_case cases[] = {
        {"{'type': 'string', 'minLength': 2, 'maxLength': 3}",
         {"'ab'", "'a\xC3\xA9\xE2\x82\xAC'", "'\\n\\\\'", "'\\ud83d\\ude00x'"},
         {"'a'", "'abcd'", "ab"}},
        {"{'type': 'string', 'maxLength': 65535}", {"''", "'abc'"}, {"1"}},
        {"{'pattern': 'b+', 'type': 'string'}", {"'b'", "'abbc'"}, {"''", "'ac'"}},
        {"{'pattern': '^a|b$', 'type': 'string'}", {"'axx'", "'xxb'"}, {"'xax'", "'bx'"}},
        {"{'pattern': '^[\\\\w.-]+@(x|y)\\\\.[^a-c]{2,3}$', 'type': 'string'}",
         {"'a.b-c@x.de'", "'_@y.d\xC3\xA9z'"},
         {"'@x.de'", "'a@z.de'", "'a@x.ab'", "'a@x.defg'"}},
        {"{'pattern': '^(?!ab)(?=.*z)[a-z]+$', 'type': 'string'}",
         {"'az'", "'bza'"},
         {"'abz'", "'aa'"}},
        {"{'pattern': '^\\\\u00e9\\\\x41\\\\/\\\\s\\\\d\\\\D$', 'type': 'string'}",
         {"'\xC3\xA9"
          "A/ 1x'",
          "'\xC3\xA9"
          "A\\/\\t1\\u0000'"},
         {"'\xC3\xA9"
          "A/x1x'"}},
        {"{'pattern': '^a{x}[$]?(?:b|)c*?$', 'type': 'string'}",
         {"'a{x}$bcc'", "'a{x}'"},
         {"'axx'"}},
        {"{'allOf': [{'pattern': '^a'}, {'pattern': 'b$'}], 'type': 'string', 'maxLength': 3}",
         {"'ab'", "'axb'"},
         {"'a'", "'axxb'"}},
        {"{'type': 'string', 'not': {'pattern': '^a'}}", {"''", "'ba'"}, {"'a'", "1"}},
        {"{'format': 'date-time', 'type': 'string'}",
         {"'2024-02-29T23:59:00Z'", "'2023-01-31T00:00:00.125+02:00'"},
         {"'2023-02-29T00:00:00Z'", "'2023-13-01T00:00:00Z'", "'2023-01-01T24:00:00Z'",
          "'2023-01-01'"}},
        {"{'format': 'date', 'type': 'string'}",
         {"'2000-02-29'", "'2024-02-29'", "'1999-12-31'"},
         {"'1900-02-29'", "'2023-02-29'", "'2023-04-31'", "'2023-1-1'"}},
        {"{'format': 'ipv6', 'type': 'string'}",
         {"'::'", "'::1'", "'1:2:3:4:5:6:7:8'", "'fe80::a:b'", "'::ffff:192.0.2.1'", "'1::8'"},
         {"'1:2:3:4:5:6:7'", "':::'", "'1::2::3'", "'12345::'", "'1:2:3:4:5:6:7:8:9'"}},
        {"{'format': 'uuid', 'type': 'string'}",
         {"'123e4567-e89b-12d3-a456-426614174000'"},
         {"'123e4567e89b12d3a456426614174000'"}},
        {"{'format': 'uri', 'type': 'string'}",
         {"'https://u@ex.org:80/a/b?x=1#f'", "'urn:isbn:1'", "'http://[::1]/'", "'a:'"},
         {"'/a'", "'ex.org'", "'http://a b'", "'http://a/%zz'"}},
        {"{'format': 'duration', 'type': 'string'}",
         {"'P1Y2M'", "'PT5M'", "'P3W'"},
         {"'P'", "'1Y'", "'PT'"}},
        {"{'format': 'hostname', 'type': 'string'}",
         {"'a-b.example'", "'x'"},
         {"'-a'", "'a..b'", "''"}},
        {"{'format': 'regex', 'type': 'string'}",
         {"'^a[b-d]+(?:x|y)*$'", "'\\\\d{2,3}'", "''", "'[^\\\\]]'"},
         {"'['", "'(a'", "'a)'", "'*a'", "'[z-a]'", "'a\\\\'"}},
        {"{'format': 'my-own', 'type': 'string'}", {"'anything'"}, {"1"}},
    };
    (void)state;
    CHECK(cases);
}

static void arrays(void **state) {
    static const struct schema_case cases[] = {
        {"{'type': 'array', 'items': {'type': 'null'}, 'minItems': 1, 'maxItems': 2}",
         {"[null]", "[ null , null ]", "[\n  null,\n  null\n]"},
         {"[]", "[null,null,null]", "[1]"}},
        {"{'type': 'array', 'maxItems': 0}", {"[]", "[ ]"}, {"[1]"}},
        {"{'type': 'array', 'items': false}", {"[]"}, {"[1]"}},
        {"{'type': 'array', 'prefixItems': [{'type': 'string'}, {'type': 'integer'}], 'items': "
         "false}",
         {"[]", "['a']", "['a', 1]"},
         {"[1]", "['a', 'b']", "['a', 1, 2]"}},
        {"{'type': 'array', 'items': [{'type': 'string'}], 'additionalItems': {'type': 'null'},"
         " 'minItems': 2}",
         {"['a', null]", "['a', null, null]"},
         {"['a']", "['a', 1]", "[null, null]"}},
        {"{'type': 'array', 'contains': {'const': 1}, 'items': {'type': 'integer'}}",
         {"[1]", "[2, 1, 3]", "[1, 1]"},
         {"[]", "[2]", "['a', 1]"}},
        {"{'type': 'array', 'contains': {'const': 1}, 'minContains': 2, 'maxContains': 3}",
         {"[1, 1]", "[1, 0, 1, 1]"},
         {"[1]", "[1, 1, 1, 1]"}},
        {"{'type': 'array', 'allOf': [{'contains': {'const': 1}}, {'contains': {'type': "
         "'string'}}]}",
         {"[1, 'a']", "['a', 0, 1]"},
         {"[1]", "['a']", "[]"}},
        {"{'type': 'array', 'uniqueItems': true, 'items': {'enum': ['a', 'b', 1]}, 'minItems': 1}",
         {"['a']", "['b', 'a']", "[1, 'a', 'b']"},
         {"[]", "['a', 'a']", "['a', 1, 'b', 1]"}},
        {"{'type': 'array', 'not': {'items': {'type': 'string'}}}",
         {"[1]", "['a', 1]"},
         {"[]", "['a']"}},
    };
    (void)state;
    CHECK(cases);
}

static void objects(void **state) {
    static const struct schema_case cases[] = {
        {"{'properties': {'a': {'type': 'integer'}, 'b': true, 'c': {'const': 1}}, 'required': "
         "['b'],"
         " 'type': 'object'}",
         {"{'b':1}", "{'a':1,'b':[]}", "{ 'c': 1, 'a': 1, 'b': 2 }", "{'b':'','d':null}"},
         {"{}", "{'a':1}", "{'b':1,}", "{'b':1,'b':1}", "{,'b':1}", "{'a':'x','b':1}",
          "{'b':1 'a':1}"}},
        {"{'type': 'object', 'additionalProperties': {'type': 'integer'}, 'properties': {'a': "
         "{'type':"
         " 'string'}}}",
         {"{}", "{'x': 1, 'y': 2}", "{'x': 1, 'a': 'b'}"},
         {"{'x': 'y'}", "{1: 2}", "{'a': 1}"}},
        {"{'description': 'x', 'type': 'object', 'additionalProperties': false}",
         {"{}", "{ }"},
         {"{'a': 1}"}},
        {"{'type': 'object', 'required': ['b', 'a'], 'maxProperties': 3}",
         {"{'a': 1, 'b': 2}", "{'b': 1, 'c': 1, 'a': 1}"},
         {"{'a': 1}", "{'a': 1, 'c': 1, 'd': 1}", "{'a': 1, 'b': 1, 'c': 1, 'd': 1}"}},
        {"{'type': 'object', 'patternProperties': {'^x': {'type': 'integer'}, 'y$': {'minimum': "
         "5}},"
         " 'additionalProperties': {'type': 'null'}}",
         {"{'xa': 1, 'y': 'a', 'xy': 6, 'b': null}"},
         {"{'xa': 'a'}", "{'xy': 4}", "{'y': 1}", "{'b': 1}"}},
        {"{'type': 'object', 'propertyNames': {'pattern': '^[a-z]+$', 'maxLength': 3}}",
         {"{'abc': 1}", "{}"},
         {"{'A': 1}", "{'abcd': 1}"}},
        {"{'type': 'object', 'minProperties': 1, 'properties': {'a': true, 'b': true},"
         " 'additionalProperties': false}",
         {"{'a': 1}", "{'b': 1, 'a': 1}"},
         {"{}"}},
        {"{'type': 'object', 'properties': {'a': false}}", {"{'b': 1}", "{'aa': 1}"}, {"{'a': 1}"}},
        {"{'$schema': 'http://json-schema.org/draft-07/schema#', 'type': 'object', 'dependencies':"
         " {'a': ['b'], 'c': {'properties': {'d': {'type': 'null'}}}}}",
         {"{}", "{'b': 1}", "{'a': 1, 'b': 1}", "{'b': 1, 'a': 1}", "{'c': 1, 'd': null}",
          "{'d': 1}"},
         {"{'a': 1}", "{'a': 1, 'c': 1}", "{'d': 1, 'c': 1}"}},
        {"{'type': 'object', 'properties': {'k': {'enum': ['a', 'b']}}, 'required': ['k'], 'if':"
         " {'properties': {'k': {'const': 'a'}}}, 'then': {'required': ['x']}, 'else': "
         "{'required': ['y']}}",
         {"{'k': 'a', 'x': 1}", "{'y': 0, 'k': 'b'}"},
         {"{'k': 'a'}", "{'k': 'a', 'y': 1}", "{'k': 'b', 'x': 1}"}},
        {"{'type': 'object', 'not': {'required': ['a', 'b']}}",
         {"{}", "{'a': 1}", "{'b': 1, 'c': 1}"},
         {"{'a': 1, 'b': 1}"}},
        {"{'type': 'object', 'not': {'additionalProperties': false, 'properties': {'a': true}}}",
         {"{'b': 1}", "{'a': 1, 'b': 1}"},
         {"{}", "{'a': 1}"}},
        {"{'type': 'object', 'properties': {'a\\u0000b': true, '\\u00e9/~': {'type': 'null'}},"
         " 'required': ['\\u00e9/~']}",
         {"{'\xC3\xA9/~': null}", "{'\xC3\xA9\\/~': null}"},
         {"{'\xC3\xA9/~': 1}"}},
    };
    (void)state;
    CHECK(cases);
}

static void combinations(void **state) {
    static const struct schema_case cases[] = {
        {"{'anyOf': [{'type': 'null'}, {'type': 'array', 'items': {'$ref': '#'}}]}",
         {"null", "[]", "[null, [null]]"},
         {"[1]", "{}"}},
        {"{'type': ['string', 'integer'], 'anyOf': [{'minimum': 3, 'type': 'integer'}, "
         "{'maxLength': 1}]}",
         {"3", "1", "'a'"},
         {"'ab'", "null"}},
        {"{'oneOf': [{'properties': {'t': {'const': 'a'}, 'x': {'type': 'integer'}}, 'required': "
         "['t']},"
         " {'properties': {'t': {'const': 'b'}, 'x': {'type': 'string'}}, 'required': ['t']}], "
         "'type':"
         " 'object', 'discriminator': {'propertyName': 't'}}",
         {"{'t': 'a', 'x': 1}", "{'x': 'y', 't': 'b'}"},
         {"{'t': 'a', 'x': 'y'}", "{'x': 1, 't': 'b'}", "{'x': 1}"}},
        {"{'oneOf': [{'required': ['a']}, {'required': ['b']}], 'type': 'object'}",
         {"{'a': 1}", "{'b': 1}", "{'c': 1, 'b': 1}"},
         {"{}", "{'a': 1, 'b': 1}"}},
        {"{'allOf': [{'properties': {'a': {'minimum': 2}}}, {'properties': {'a': {'type': "
         "'integer',"
         " 'maximum': 4}}, 'required': ['a']}], 'type': 'object'}",
         {"{'a': 2}", "{'a': 4, 'b': 1}"},
         {"{}", "{'a': 1}", "{'a': 5}", "{'a': 2.5}"}},
    };
    (void)state;
    CHECK(cases);
}

static void references(void **state) {
    static const struct schema_case cases[] = {
        {"{'$defs': {'a/b': {'type': 'boolean'}}, '$ref': '#/$defs/a~1b'}", {"true"}, {"1"}},
        {"{'$defs': {'a b%': {'type': 'null'}}, '$ref': '#/$defs/a%20b%25'}", {"null"}, {"1"}},
        {"{'anyOf': [{'type': 'null'}, {'type': 'array', 'items': {'$ref': '#/anyOf/0'}}]}",
         {"null", "[null]"},
         {"[[]]"}},
        {"{'$id': 'https://x.org/s/root.json', '$ref': 'part.json#/$defs/n', '$defs': {'p': {'$id':"
         " 'part.json', '$defs': {'n': {'$ref': '#here'}, 'm': {'$anchor': 'here', 'type': "
         "'null'}}}}}",
         {"null"},
         {"1"}},
        {"{'$defs': {'s': {'type': 'string'}}, '$ref': '#/$defs/s', 'maxLength': 1}",
         {"'a'"},
         {"'ab'", "1"}},
        {"{'$schema': 'http://json-schema.org/draft-07/schema#', 'definitions': {'s': {'type': "
         "'string'}},"
         " '$ref': '#/definitions/s', 'maxLength': 1}",
         {"'ab'"},
         {"1"}},
        {"{'$dynamicAnchor': 'node', 'type': 'object', 'properties': {'next': {'$dynamicRef': "
         "'#node'}},"
         " 'additionalProperties': false}",
         {"{'next': {'next': {}}}"},
         {"{'next': 1}"}},
    };
    (void)state;
    CHECK(cases);
}

/* As zod, TypeBox and pydantic write them. */
static void shapes_of_libraries(void **state) {
    static const struct schema_case cases[] = {
        {"{'$schema':'https://json-schema.org/draft/2020-12/"
         "schema','type':'object','properties':{'age':"
         "{'type':'integer','exclusiveMinimum':0,'maximum':9007199254740991},'tags':{'type':'array'"
         ","
         "'items':{'type':'string'}},'kind':{'anyOf':[{'type':'string','const':'a'},{'type':'null'}"
         "]}},"
         "'required':['age','kind'],'additionalProperties':false}",
         {"{'age': 3, 'kind': null}", "{'age': 1, 'tags': [], 'kind': 'a'}"},
         {"{'age': 0, 'kind': null}", "{'age': 1}", "{'age': 1, 'kind': 'b'}"}},
        {"{'type':'object','properties':{'p':{'anyOf':[{'format':'date','type':'string'},{'type':'"
         "null'}],"
         "'default':null,'title':'P'},'e':{'$ref':'#/$defs/"
         "E'}},'required':['e'],'title':'M','$defs':{'E':"
         "{'enum':['x','y'],'title':'E','type':'string'}}}",
         {"{'e': 'x'}", "{'p': '2024-01-31', 'e': 'y'}", "{'p': null, 'e': 'y'}"},
         {"{'e': 'z'}", "{'p': '2024-01-32', 'e': 'y'}"}},
        {"{'type':'array','minItems':2,'maxItems':2,'items':[{'type':'number'},{'type':'string','"
         "minLength':1}],"
         "'additionalItems':false}",
         {"[1.5, 'a']"},
         {"[1]", "[1, '']", "[1, 'a', 2]"}},
        {"{'allOf':[{'type':'object','properties':{'a':{'type':'string'}},'required':['a']},{'type'"
         ":'object',"
         "'properties':{'b':{'type':'number'}},'required':['b']}],'unevaluatedProperties':true}",
         {"{'a': '', 'b': 1}", "{'b': 1, 'a': ''}"},
         {"{'a': ''}", "{'a': 1, 'b': 1}"}},
        {"{'type':'object','propertyNames':{'type':'string'},'additionalProperties':{'type':'"
         "boolean'}}",
         {"{'x': true}"},
         {"{'x': 1}"}},
    };
    (void)state;
    CHECK(cases);
}

static void bad_schemas_are_errors(void **state) {
    static const struct {
        const char *schema, *message;
        wisp_status status;
    } cases[] = {
        {"", "json_schema", WISP_ERROR_FORMAT},
        {"{", "json_schema", WISP_ERROR_FORMAT},
        {"[]", "#: not a schema", WISP_ERROR_FORMAT},
        {"false", "#: no value is valid", WISP_ERROR_FORMAT},
        {"{'type': 'text'}", "#/type: an unknown type", WISP_ERROR_FORMAT},
        {"{'type': []}", "#/type: type has no value", WISP_ERROR_FORMAT},
        {"{'properties': {'a': {'items': {'minimum': 'x'}}}}",
         "#/properties/a/items/minimum: not a number", WISP_ERROR_FORMAT},
        {"{'pattern': '('}", "#/pattern: ", WISP_ERROR_FORMAT},
        {"{'pattern': '(a)\\\\1'}", "#/pattern: ", WISP_ERROR_UNSUPPORTED},
        {"{'pattern': '\\\\bx'}", "a word's border cannot be followed", WISP_ERROR_UNSUPPORTED},
        {"{'pattern': '((((((x{60000}){60000}){60000}))))'}", "cannot be followed",
         WISP_ERROR_UNSUPPORTED},
        {"{'anyOf': []}", "#/anyOf: not a list of schemas", WISP_ERROR_FORMAT},
        {"{'$ref': 'other.json'}", "#/$ref: \"other.json\" is not in this document",
         WISP_ERROR_UNSUPPORTED},
        {"{'$ref': '#/$defs/x'}", "#/$ref: the schema has no \"#/$defs/x\"", WISP_ERROR_FORMAT},
        {"{'$ref': '#'}", "references that lead back to themselves", WISP_ERROR_UNSUPPORTED},
        {"{'minItems': -1}", "#/minItems: not a whole number", WISP_ERROR_FORMAT},
        {"{'type': 'array', 'maxItems': 1000000}", "#: items can be counted up to",
         WISP_ERROR_UNSUPPORTED},
        {"{'type': 'string', 'maxLength': 1000000}", "needs more than", WISP_ERROR_UNSUPPORTED},
        {"{'enum': []}", "#: no value is valid", WISP_ERROR_FORMAT},
        {"{'enum': [1], 'type': 'string'}", "#: no value is valid", WISP_ERROR_FORMAT},
        {"{'type': 'array', 'minItems': 3, 'maxItems': 2}", "#: no value is valid",
         WISP_ERROR_FORMAT},
        {"{'type': 'object', 'required': ['a'], 'properties': {'a': false}}",
         "#: no value is valid", WISP_ERROR_FORMAT},
        {"{'type': 'array', 'uniqueItems': true}", "#: uniqueItems can be followed",
         WISP_ERROR_UNSUPPORTED},
        {"{'multipleOf': 0}", "#/multipleOf: ", WISP_ERROR_FORMAT},
        {"{'unevaluatedProperties': false, 'allOf': [true]}",
         "#/unevaluatedProperties: ", WISP_ERROR_UNSUPPORTED},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *schema = quoted(cases[i].schema);
        struct wisp_grammar *grammar;
        wisp_error error = {0};
        const wisp_status status = wisp_grammar_open_schema(wisp_text_of(schema), &grammar, &error);
        if (status != cases[i].status || !strstr(error.message, cases[i].message))
            fail_msg("%s: %d \"%s\"", schema, (int)status,
                     status == WISP_OK ? "no error" : error.message);
        assert_null(grammar);
        assert_int_equal(wisp_grammar_open_schema(wisp_text_of(schema), &grammar, NULL), status);
        free(schema);
    }
}

/* Schemas of many names can be followed. */
static void large_schemas_are_followed(void **state) {
    enum { NAMES = 3000, BYTES = 1 << 20 };
    char *text = malloc(BYTES), *at = text;
    struct wisp_grammar *grammar;
    wisp_error error;
    (void)state;
    assert_non_null(text);
    at += sprintf(at, "{\"properties\":{\"a0\":{}");
    for (int i = 1; i < NAMES; i++)
        at += sprintf(at, ",\"a%d\":{\"type\":\"integer\",\"minimum\":%d}", i, i % 10);
    at += sprintf(at, "},\"type\":\"object\",\"required\":[\"a0\"");
    for (int i = 0; i < NAMES; i++)
        at += sprintf(at, ",\"a1\"");
    sprintf(at, "]}");
    assert_int_equal(wisp_grammar_open_schema(wisp_text_of(text), &grammar, &error), WISP_OK);
    assert_true(matches(grammar, "{\"a1\": 1, \"a0\": \"x\", \"a2999\": 9}"));
    assert_false(matches(grammar, "{\"a1\": 1, \"a0\": \"x\", \"a2999\": 8}"));
    wisp_grammar_close(grammar);
    free(text);
}

/* A machine forgets what it knows before that is too much, and goes on. */
static void long_texts_are_read(void **state) {
    enum { LENGTH = 90000 };
    char *text = malloc(LENGTH + 100);
    struct wisp_grammar *grammar;
    wisp_error error;
    (void)state;
    assert_non_null(text);
    assert_int_equal(
        wisp_grammar_open_schema(
            wisp_text_of("{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"string\","
                         "\"maxLength\":90000},\"b\":{\"const\":1}},\"required\":[\"b\"],"
                         "\"additionalProperties\":false}"),
            &grammar, &error),
        WISP_OK);
    const size_t begin = (size_t)sprintf(text, "{\"a\": \"");
    memset(text + begin, 'x', LENGTH);
    strcpy(text + begin + LENGTH, "\", \"b\": 1}");
    assert_true(matches(grammar, text));
    strcpy(text + begin + LENGTH, "\", \"a\": 1}");
    assert_false(matches(grammar, text));
    strcpy(text + begin + LENGTH, "x\", \"b\": 1}");
    assert_false(matches(grammar, text));
    wisp_grammar_close(grammar);
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(types_and_values),
        cmocka_unit_test(numbers),
        cmocka_unit_test(strings),
        cmocka_unit_test(arrays),
        cmocka_unit_test(objects),
        cmocka_unit_test(combinations),
        cmocka_unit_test(references),
        cmocka_unit_test(shapes_of_libraries),
        cmocka_unit_test(bad_schemas_are_errors),
        cmocka_unit_test(long_texts_are_read),
        cmocka_unit_test(large_schemas_are_followed),
    };
    return cmocka_run_group_tests_name("json_schema", tests, NULL, NULL);
}

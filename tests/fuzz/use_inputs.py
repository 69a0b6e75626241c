"""Random texts, schemas, grammars, templates and folders for uses.py."""

import json
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

WORDS = ["one", "two", "Once upon a time", "naïve", "日本", "😀", "\u0301", "</s>", "<|im_end|>", "<s>", "[CLS]", "\u2581", "a" * 50, "\t", "\r\n", "\n",
         "\ufeff", "  ", "\u00a0", "\u200b", "'", '"', "\\", "{{", "%}", "0", "123456", "\x7f", "\x1b[31m", "é", "ﬁ", "İ", "ß", "\u202e"]


def text(r):
    return r.choice(["", " "]).join(r.choice(WORDS) for _ in range(r.randint(1, 8)))


def mutate(r, content):
    """Changes, removes or doubles some bytes."""
    data = bytearray(content)
    for _ in range(r.randint(1, 4)):
        at = r.randrange(len(data) + 1)
        end = min(len(data), at + r.choice([1, 1, 2, 4, 8, 100]))
        data[at:end] = r.choice([b"", bytes(r.randbytes(end - at)), data[at:end] * 2, b"\xff" * (end - at), b"0", b'"', b"\0"])
    return bytes(data)


def mutate_json(r, source):
    words = ['"', "{", "}", "[", "]", ",", ":", "null", "1e999", "-1", '"$ref":"#"', '"type":"x"', "\\u0000", "true"]
    at = r.randrange(len(source) + 1)
    return source[:at] + r.choice(words) + source[at + r.randint(0, 3):]


NAMES = ["a", "b", "é", "$x", "a b", "type", "", "__proto__", "items"]


def schema(r, depth):
    """A JSON Schema, mostly a valid one."""
    simple = [
        lambda: {"type": r.choice(["string", "integer", "number", "boolean", "null", ["string", "null"], "any"])},
        lambda: {"enum": [r.choice([1, "x", None, True, {"a": 1}, [], 1.5]) for _ in range(r.randint(1, 3))]},
        lambda: {"const": r.choice(["", 0, -0.0, "\u2028", {}, [1]])},
        lambda: {"type": "integer", "minimum": r.choice([0, -5, 10**20, 1.5]), "maximum": r.choice([3, 10**20, -7])},
        lambda: {"type": "number", "multipleOf": r.choice([1, 0.5, 0, 7]), "exclusiveMinimum": r.choice([0, 1.25, True])},
        lambda: {"type": "string", "pattern": r.choice(["^a+$", "[0-9]{2,4}", "(a|b)*c?", "\\d+", "^(?=x)", "a{1000000}", "[", "\\p{L}+", "."])},
        lambda: {"type": "string", "minLength": r.choice([0, 3, 10**6]), "maxLength": r.choice([0, 2, 5, 10**7])},
        lambda: {"type": "string", "format": r.choice(["date", "time", "date-time", "uuid", "email", "ipv4", "uri", "x"])},
        lambda: r.choice([True, False, {}, {"$ref": "#"}, {"$ref": "#/$defs/x"}, {"$ref": "#/a%20b/0"}, {"not": {}}]),
    ]
    if depth <= 0:
        return r.choice(simple)()

    def inner():
        return schema(r, depth - 1)

    def objects():
        names = r.sample(NAMES, r.randint(0, 4))
        made = {"type": "object", "properties": {name: inner() for name in names}}
        made["required"] = r.sample(names, r.randint(0, len(names))) + r.choice([[], ["other"]])
        if r.random() < 0.5:
            made["additionalProperties"] = r.choice([False, True, inner()])
        if r.random() < 0.2:
            made |= {"minProperties": r.randint(0, 3), "maxProperties": r.randint(0, 5)}
        if r.random() < 0.2:
            made["patternProperties"] = {r.choice(["^a", ".*", "["]): inner()}
        return made

    def arrays():
        made = {"type": "array", "items": inner()}
        if r.random() < 0.5:
            made |= {"minItems": r.randint(0, 3), "maxItems": r.choice([0, 2, 5, 10**6])}
        if r.random() < 0.3:
            made |= {"prefixItems": [inner(), inner()]}
        if r.random() < 0.2:
            made |= {"uniqueItems": True}
        return made

    many = [objects, objects, arrays, lambda: {r.choice(["oneOf", "anyOf", "allOf"]): [inner() for _ in range(r.randint(0, 3))]},
            lambda: {"if": inner(), "then": inner(), "else": inner()}, lambda: {"$defs": {"x": inner()}, "$ref": "#/$defs/x"}]
    return r.choice(many + simple[:2])()


def grammar(r):
    """GBNF, mostly well-formed."""
    names = ["root"] + [f"r{i}" for i in range(r.randint(0, 6))]

    def atom(depth):
        choices = ['"a"', '"é"', '"\\n"', "[a-z]", "[^x]", "[\\x00-\\xff]", ".", r.choice(names), '""', '"\\u00e9"']
        if depth > 0:
            choices += [f"({alternatives(depth - 1)})"] * 3
        return r.choice(choices) + r.choice(["", "", "", "?", "*", "+", "{2}", "{0,3}", "{1,}", "{900}"])

    def alternatives(depth):
        # A line that ends with "|" goes on in the next one.
        return " | ".join(" ".join(atom(depth) for _ in range(r.randint(0, 4))) or '""' for _ in range(r.randint(1, 3)))

    source = "".join(f"{name} ::= {alternatives(2)}\n" for name in names)
    if r.random() < 0.1:
        source = "root ::= " + "[a-z]? " * r.choice([100, 900]) + "\n"
    return mutate(r, source.encode()) if r.random() < 0.2 else source.encode()


PIECES = ["{{ messages[0].content }}", "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}", "{{ bos_token }}", "<|im_start|>", "</s>",
          "{% if tools %}x{% endif %}", "{{ messages|tojson }}", "{% set x = namespace(i=0) %}", "{{ 'a' * 1000000 }}", "{% for i in range(99999999) %}{% endfor %}",
          "{{ messages|length }}", "{{ raise_exception('no') }}", "{{ strftime_now('%Y') }}", "{% macro f(x) %}{{ x }}{% endmacro %}{{ f(1) }}", "{{ x.y.z }}",
          "{% generation %}", "{{ messages[-1]['content']|trim|upper }}", "{% include 'x' %}", "{{ messages[0].content.split('a')[0] }}", "{#", "{% endfor %}",
          "{{ ''.__class__ }}", "{{ 1 // 0 }}", "{{ messages[0:9:0] }}", "{%- if add_generation_prompt -%}A:{%- endif -%}", "{{ '%s' % messages }}"]


def template(r):
    source = "".join(r.choice(PIECES) for _ in range(r.randint(1, 5)))
    return mutate(r, source.encode()) if r.random() < 0.3 else source.encode()


@cache
def folders():
    """Small models in Hugging Face's form, of each tokenizer."""
    found = sorted(path.parent for path in (ROOT / "tests/data/models").glob("*/model.safetensors"))
    assert found and json
    return found


@cache
def other_folders():
    """Small models whose weights are in other formats, and cross-encoders."""
    names = ("onnx", "onnx-int8", "onnx-q4", "onnx-new", "checkpoint", "checkpoint-old", "rank-bert", "rank-roberta", "modernbert")
    return [ROOT / "tests/data/models" / name for name in names]

#!/usr/bin/env python3
"""Generates texts under random JSON Schemas and grammars, from nearly random logits, and checks that each is what its
schema or grammar says: by json and jsonschema, and by a regular expression that means the same as the grammar.

    python-sbom tests/oracle/grammars.py WISP [--cases N] [--seed N]
"""

import argparse
import json
import random
import re
import subprocess
import sys
import tempfile
from pathlib import Path

try:
    import jsonschema
except ImportError as error:
    print(f"skipped: grammars: {error}")
    sys.exit(0)

REPO = Path(__file__).resolve().parents[2]
SCALARS = ["string", "number", "integer", "boolean", "null"]
NAMES = ["a", "size", "the \"name\"", "naïve", "x/y", "", "tab\t", "日本"]


def random_schema(rng, depth=0, defs=()):
    kind = rng.choice(["scalar", "enum", "const", "string", "text", "range", "types", "array", "tuple", "object", "any", "one",
                       "all", "ref", "true"] if depth < 3 else ["scalar", "enum", "const", "string", "text", "range"])
    if kind == "scalar":
        return {"type": rng.choice(SCALARS), "description": "ignored"}
    if kind == "enum":
        return {"enum": rng.sample([1, -2.5, "red", "a\\b\n", None, True, [1, {"a": []}], {}, "é"], rng.randint(1, 4))}
    if kind == "const":
        return {"const": rng.choice([0, "x", {"k": [None]}, [[]]])}
    if kind == "string":
        least = rng.randint(0, 4)
        return {"type": "string", "minLength": least, "maxLength": least + rng.randint(0, 6)}
    if kind == "text":
        return {"type": "string", **rng.choice([{"pattern": "^[a-z]{1,8}(-[0-9]{2})?$"}, {"pattern": "^(ab|[^c])x{2,3}$"},
                                                {"pattern": "end$", "maxLength": 9}, {"format": "date-time"}, {"format": "ipv4"},
                                                {"format": "uuid"}, {"format": "date"}, {"not": {"pattern": "a"}, "maxLength": 5}])}
    if kind == "range":
        least = rng.randint(-200, 200)
        return {"type": rng.choice(["integer", "number"]), rng.choice(["minimum", "exclusiveMinimum"]): least,
                rng.choice(["maximum", "exclusiveMaximum"]): least + rng.randint(2, 300)}
    if kind == "tuple":
        parts = [random_schema(rng, depth + 1, defs) for _ in range(rng.randint(1, 3))]
        return {"type": "array", "prefixItems": parts, "items": False, "minItems": rng.randint(0, len(parts))}
    if kind == "one":
        return {"oneOf": [{"type": "object", "properties": {"kind": {"const": name}, "value": random_schema(rng, depth + 1, defs)},
                           "required": ["kind", "value"], "additionalProperties": False} for name in ["x", "y"]]}
    if kind == "all":
        return {"allOf": [{"type": "object", "properties": {"a": random_schema(rng, 3, defs)}, "required": ["a"]},
                          {"type": "object", "properties": {"b": random_schema(rng, 3, defs)}, "maxProperties": 2}]}
    if kind == "types":
        return {"type": rng.sample(SCALARS, rng.randint(1, 3))}
    if kind == "array":
        schema = {"type": "array", "maxItems": rng.randint(0, 4)}
        if rng.random() < 0.5:
            schema["minItems"] = rng.randint(0, schema["maxItems"])
        if rng.random() < 0.8:
            schema["items"] = random_schema(rng, depth + 1, defs)
        return schema
    if kind == "object":
        names = rng.sample(NAMES, rng.randint(0, 4))
        schema = {"type": "object", "properties": {name: random_schema(rng, depth + 1, defs) for name in names}}
        schema["required"] = [name for name in names if rng.random() < 0.5]
        if not names and rng.random() < 0.7:
            del schema["properties"]
            schema["additionalProperties"] = random_schema(rng, depth + 1, defs)
        else:
            schema["additionalProperties"] = False
        return schema
    if kind == "any":
        return {"anyOf": [random_schema(rng, depth + 1, defs) for _ in range(rng.randint(1, 3))]}
    if kind == "ref" and defs:
        return {"$ref": f"#/$defs/{rng.choice(defs)}"}
    return True if kind == "true" else {}


def whole_schema(rng):
    defs = ["first", "second"]
    schema = random_schema(rng, 0, defs)
    if schema is True or "$ref" in schema:
        schema = {"type": "array", "items": schema, "maxItems": 3}
    # A reference to oneself is fine below an array or object.
    return {**schema, "$defs": {"first": {"type": "array", "items": random_schema(rng, 2, defs), "maxItems": 2},
                                "second": {"type": "string", "maxLength": 3}}}


def random_grammar(rng, depth=0):
    """Returns GBNF and the regular expression of the same texts."""
    kind = rng.choice(["literal", "set", "alternatives", "sequence", "repeat"] if depth < 4 else ["literal", "set"])
    if kind == "literal":
        text = "".join(rng.choices("ab .é\"\\日", k=rng.randint(1, 3)))
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"', re.escape(text)
    if kind == "set":
        return rng.choice([("[a-e]", "[a-e]"), ("[^a-zA-Z]", "[^a-zA-Z]"), (".", "(?s:.)"), ("[à-ÿ0-9]", "[à-ÿ0-9]"),
                           ("[\\]\\-x]", "[\\]\\-x]")])
    if kind == "repeat":
        least = rng.randint(0, 3)
        most = least + rng.randint(0, 3)
        grammar, expression = random_grammar(rng, depth + 1)
        mark = rng.choice(["?", f"{{{least},{most}}}", f"{{{least}}}"])
        return f"({grammar}){mark}", f"(?:{expression}){mark}"
    parts = [random_grammar(rng, depth + 1) for _ in range(rng.randint(1, 3))]
    joined = (" | ", "|") if kind == "alternatives" else (" ", "")
    return f"({joined[0].join(p[0] for p in parts)})", f"(?:{joined[1].join(p[1] for p in parts)})"


def generate(wisp, option, path, seed, n):
    prompts = "".join(json.dumps(prompt) + "\n" for prompt in ["One day", "Lily said", "The", "Max was"][:n])
    run = subprocess.run([wisp, "generate", "-m", str(REPO / "models" / "wisp-stories.gguf"), "--data", "-", option,
                          str(path), "--temperature", "8", "--seed", str(seed), "-n", "400"],
                         input=prompts, capture_output=True, text=True, check=False)
    if run.returncode != 0:
        raise SystemExit(f"{path.read_text()}\n{run.stderr}")
    return [json.loads(line) for line in run.stdout.splitlines()]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("wisp")
    parser.add_argument("--cases", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    rng = random.Random(arguments.seed)
    complete = cut = 0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "grammar"
        for case in range(arguments.cases):
            schema = whole_schema(rng)
            path.write_text(json.dumps(schema, indent=rng.choice([None, 1]), ensure_ascii=rng.random() < 0.5))
            for result in generate(arguments.wisp, "--json-schema", path, case, 4):
                if result["end"] in ("grammar", "token"):
                    jsonschema.validate(json.loads(result["text"]), schema, cls=jsonschema.Draft202012Validator)
                    complete += 1
                else:
                    cut += 1
            grammar, expression = random_grammar(rng)
            path.write_text(f"root ::= {grammar}\n")
            for result in generate(arguments.wisp, "--grammar", path, case, 4):
                if result["end"] in ("grammar", "token"):
                    # Texts in the output are JSON: characters that ill-formed UTF-8 would become do not occur.
                    if not re.fullmatch(expression, result["text"]):
                        raise SystemExit(f"{grammar}: {result['text']!r} does not match")
                    complete += 1
                else:
                    cut += 1
    if complete < cut:
        raise SystemExit(f"only {complete} texts were complete, {cut} were not")
    print(f"grammars: {complete} texts are valid; {cut} were cut at 400 tokens")


if __name__ == "__main__":
    main()

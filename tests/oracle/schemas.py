#!/usr/bin/env python3
"""Compares which values are valid under a JSON Schema with jsonschema: for random schemas and values of all keywords, and
for the real schemas in $WISP_SHARED/data/schemas (../shared by default), whose instances are known to be valid or not.

    python-sbom tests/oracle/schemas.py DRIVER [--cases N] [--seed N]

DRIVER is schema_driver.c. A schema that wisp refuses counts as neither right nor wrong; of the real ones it may refuse 8 %.
With WISP_TEST_ALL in the environment all real schemas are tried, else every sixth.
"""

import argparse
import json
import lzma
import os
import random
import struct
import subprocess
import sys
from pathlib import Path

try:
    import jsonschema
except ImportError as error:
    print(f"skipped: schemas: {error}")
    sys.exit(0)

REPO = Path(__file__).resolve().parents[2]
SHARED = Path(os.environ.get("WISP_SHARED", REPO / ".." / "shared"))
NAMES = ["a", "ab", "b", "c", "x1", "é", "a/b"]
SCALARS = [None, True, False, 0, 1, 2, 3, 7, 10, -1, -5, 0.5, 1.25, 2.5, -0.75, "", "a", "ab", "abc", "b1", "é", "2024-02-29",
           "2023-02-29", "10.0.0.1", "a\"b", "x\ny"]
PATTERNS = ["^a", "b", "^[a-c]+$", "^.{2}$", "\\d", "^(a|bc)*$", "[^a]", "^$|x", "\\s$"]
TYPES = ["object", "array", "string", "number", "integer", "boolean", "null"]


def number_keywords(rng):
    made = {}
    if rng.random() < 0.5:
        made[rng.choice(["minimum", "exclusiveMinimum"])] = rng.choice([-5, -1, 0, 0.5, 1, 2, 1.25])
    if rng.random() < 0.5:
        made[rng.choice(["maximum", "exclusiveMaximum"])] = rng.choice([-1, 0, 1, 2.5, 3, 10])
    if rng.random() < 0.3:
        made["multipleOf"] = rng.choice([1, 2, 5, 0.5, 0.25])
    return made


def string_keywords(rng):
    made = {}
    if rng.random() < 0.4:
        made["minLength"] = rng.randint(0, 3)
    if rng.random() < 0.4:
        made["maxLength"] = rng.randint(0, 4)
    if rng.random() < 0.4:
        made["pattern"] = rng.choice(PATTERNS)
    return made


def array_keywords(rng, depth):
    made = {}
    if rng.random() < 0.6:
        made["items"] = random_schema(rng, depth + 1)
    if rng.random() < 0.3:
        made["prefixItems"] = [random_schema(rng, depth + 1) for _ in range(rng.randint(1, 2))]
    if rng.random() < 0.3:
        made["minItems"] = rng.randint(0, 2)
    if rng.random() < 0.3:
        made["maxItems"] = rng.randint(0, 3)
    if rng.random() < 0.25:
        made["contains"] = random_schema(rng, depth + 1)
        if rng.random() < 0.5:
            made["minContains"] = rng.randint(0, 2)
        if rng.random() < 0.5:
            made["maxContains"] = rng.randint(1, 2)
    return made


def object_keywords(rng, depth):
    made = {}
    if rng.random() < 0.7:
        made["properties"] = {name: random_schema(rng, depth + 1) for name in rng.sample(NAMES, rng.randint(0, 3))}
    if rng.random() < 0.3:
        made["patternProperties"] = {rng.choice(PATTERNS): random_schema(rng, depth + 1)}
    if rng.random() < 0.5:
        made["additionalProperties"] = random_schema(rng, depth + 1)
    if rng.random() < 0.5:
        made["required"] = rng.sample(NAMES, rng.randint(0, 2))
    if rng.random() < 0.2:
        made["minProperties"] = rng.randint(0, 2)
    if rng.random() < 0.2:
        made["maxProperties"] = rng.randint(0, 3)
    if rng.random() < 0.2:
        made["propertyNames"] = {"maxLength": rng.randint(1, 2)} if rng.random() < 0.5 else {"pattern": rng.choice(PATTERNS)}
    if rng.random() < 0.2:
        made["dependentRequired"] = {rng.choice(NAMES): rng.sample(NAMES, rng.randint(1, 2))}
    if rng.random() < 0.15:
        made["dependentSchemas"] = {rng.choice(NAMES): random_schema(rng, depth + 1)}
    return made


def random_schema(rng, depth=0):
    if depth > 2 or rng.random() < 0.1:
        return rng.choice([True, False, {}, {"type": rng.choice(TYPES)}, {"const": rng.choice(SCALARS)}, {"$ref": "#/$defs/d"}])
    schema = {}
    if rng.random() < 0.6:
        schema["type"] = rng.choice(TYPES) if rng.random() < 0.6 else rng.sample(TYPES, rng.randint(1, 3))
    for keywords in rng.sample([number_keywords, string_keywords, lambda r: array_keywords(r, depth),
                                lambda r: object_keywords(r, depth)], rng.randint(0, 2)):
        schema.update(keywords(rng))
    if rng.random() < 0.12:
        schema["enum"] = rng.sample([*SCALARS, [1], [], {}, {"a": 1}, ["a", None]], rng.randint(1, 4))
    for keyword in ("anyOf", "allOf", "oneOf"):
        if rng.random() < 0.1:
            schema[keyword] = [random_schema(rng, depth + 1) for _ in range(rng.randint(1, 3))]
    if rng.random() < 0.1:
        schema["not"] = random_schema(rng, depth + 1)
    if rng.random() < 0.08:
        schema["if"] = random_schema(rng, depth + 1)
        schema[rng.choice(["then", "else"])] = random_schema(rng, depth + 1)
    if rng.random() < 0.1:
        schema["$ref"] = "#/$defs/d"
    return schema


def random_value(rng, depth=0):
    kind = rng.random()
    if kind < 0.5 or depth > 2:
        return rng.choice(SCALARS)
    if kind < 0.7:
        return [random_value(rng, depth + 1) for _ in range(rng.randint(0, 3))]
    return {name: random_value(rng, depth + 1) for name in rng.sample(NAMES, rng.randint(0, 3))}


def text(value):
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")


def verdicts(driver, cases):
    """Yields (status, verdicts, message) for each (schema, values)."""
    request = bytearray()
    for schema, values in cases:
        for part in (json.dumps(schema).encode(), None, *map(text, values)):
            request += struct.pack("<I", len(values)) if part is None else struct.pack("<I", len(part)) + part
    run = subprocess.run([driver], input=bytes(request), capture_output=True, check=True)
    for line in run.stdout.decode(errors="replace").split("\n")[:-1]:
        status, found, message = line.split("\t")
        yield int(status), found, message


def compare(driver, cases):
    """Returns how many schemas were followed; each case has a schema, values and whether these are valid."""
    followed = 0
    for (schema, values, expected), (status, found, message) in zip(
            cases, verdicts(driver, [case[:2] for case in cases]), strict=True):
        if status != 0:
            if not message.startswith("json_schema: "):
                raise SystemExit(f"{json.dumps(schema)}: the error has no place: {message}")
            if not message.endswith("no value is valid"):
                continue
            found = "0" * len(values)
        followed += 1
        for value, is_valid, verdict in zip(values, expected, found, strict=True):
            if (verdict == "1") != is_valid:
                raise SystemExit(f"{json.dumps(schema)}: {json.dumps(value)} should be {'valid' if is_valid else 'invalid'}")
    return followed


def real_cases():
    path = SHARED / "data" / "schemas" / "schemas.ndjson.xz"
    if not path.exists():
        return None
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        cases = [json.loads(line) for line in lines]
    step = 1 if "WISP_TEST_ALL" in os.environ else 6
    return [(case["schema"], [test["data"] for test in case["tests"]], [test["valid"] for test in case["tests"]])
            for case in cases[::step]]


def random_cases(rng, n):
    for _ in range(n):
        schema = random_schema(rng)
        if isinstance(schema, dict):
            schema["$defs"] = {"d": random_schema(rng, 2)}
        else:
            schema = {"allOf": [schema], "$defs": {"d": True}}
        if "#/$defs/d" in json.dumps(schema["$defs"]):
            schema["$defs"] = {"d": {"type": "array", "items": {"$ref": "#/$defs/d"}}}
        validator = jsonschema.Draft202012Validator(schema)
        values = [random_value(rng) for _ in range(25)]
        yield schema, values, [validator.is_valid(value) for value in values]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("driver")
    parser.add_argument("--cases", type=int, default=2000 if "WISP_TEST_ALL" in os.environ else 600)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    cases = list(random_cases(random.Random(options.seed), options.cases))
    followed = compare(options.driver, cases)
    print(f"schemas: {followed} of {len(cases)} random ones are followed, and tell values apart as jsonschema does")
    if followed < 0.85 * len(cases):
        raise SystemExit("too few")
    cases = real_cases()
    if cases is None:
        print("skipped: real schemas: data/schemas is absent (WISP_SHARED says where shared/ is)")
        return
    followed = compare(options.driver, cases)
    print(f"schemas: {followed} of {len(cases)} real ones are followed, and tell their instances apart")
    if followed < 0.92 * len(cases):
        raise SystemExit("too few")


if __name__ == "__main__":
    main()

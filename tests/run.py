#!/usr/bin/env python3
"""Runs one test for make, or reports on all that ran.

    tests/run.py begin                        forgets what ran before
    tests/run.py test NAME -- COMMAND...      runs a test: one line on the screen, its output in build/test-results
    tests/run.py step NAME -- COMMAND...      runs a step of .ci/run, whose output stays on the screen
    tests/run.py report                       prints what ran, how long, and how many tests passed

Tests read WISP_TEST_ALL: without it they sample. If WISP_TURN is N/OF, only the tests whose turn it is see that variable;
any OF turns in a row run all tests to their end. The option --sampled hides it always. --needs PATH skips a test whose
tool is absent, but in CI, if it fails.
"""

import argparse
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import textwrap
import time
import zlib
from pathlib import Path

RESULTS = Path(os.environ.get("WISP_TEST_RESULTS") or Path(__file__).resolve().parents[1] / "build/test-results")
SAID = RESULTS / "said"  # its time of change is that of the last line on the screen

SILENCE = 10  # seconds after which a test that still runs says so
LIMIT = 1200  # seconds after which a test is killed, as one that waits for something for ever
SHOWN = 12  # how many of the slowest tests the report names

# What programs of tests print at their end: cmocka, node's reporter "spec", Python's unittest, and pytest.
COUNTS = {
    "passed": (r"^(?:\[=+\].*)?\[  PASSED  \] (\d+) test", r"^ℹ pass (\d+)$", r"^Ran (\d+) tests? in",
               r"^(?:=+ )?(?:\d+ failed, )?(\d+) passed\b"),
    "failed": (r"\[  FAILED  \] (\d+) test", r"^ℹ fail (\d+)$", r"^(?:=+ )?(\d+) failed\b"),
}
SKIPPED = re.compile(r"\bskipped: (.+)|# SKIP\b ?(.*)")
ONLY_IN_ALL = "in make test-all"


def say(text):
    print(text, flush=True)
    SAID.touch()


def silence():
    try:
        return time.time() - SAID.stat().st_mtime
    except OSError:
        return SILENCE


def path_of(name):
    return RESULTS / (name.replace("/", "--") + ".json")


def write_result(name, **values):
    RESULTS.mkdir(parents=True, exist_ok=True)
    path_of(name).write_text(json.dumps({"name": name, **values}), encoding="utf-8")


def is_in_turn(name):
    number, _, turns = os.environ.get("WISP_TURN", "").partition("/")
    return not turns or zlib.crc32(name.encode()) % int(turns) == int(number) % int(turns)


def environment_of(name, sampled):
    environment = dict(os.environ)
    if sampled or not is_in_turn(name):
        environment.pop("WISP_TEST_ALL", None)
    return environment


def processor_seconds():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def count(text, status):
    """Returns how many tests passed and failed, and what was skipped or sampled, by what a program printed."""
    found = {key: sum(int(number) for pattern in patterns for number in re.findall(pattern, text, re.MULTILINE))
             for key, patterns in COUNTS.items()}
    if status and not found["failed"]:
        found["failed"] = 1
    if not status and not found["passed"]:
        found["passed"] = 1
    skipped = [(first or second).strip() for first, second in SKIPPED.findall(text)]
    return {**found, "skipped": list(dict.fromkeys(skipped))}


def run_test(name, command, sampled):
    RESULTS.mkdir(parents=True, exist_ok=True)
    log = path_of(name).with_suffix(".log")
    start = time.monotonic()
    with open(log, "wb") as output:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                                   env=environment_of(name, sampled))
        while True:
            try:
                status = process.wait(timeout=1)
                break
            except subprocess.TimeoutExpired:
                seconds = time.monotonic() - start
                if seconds >= LIMIT:
                    say(f"  ...      {name} has not ended after {LIMIT} s: it is killed")
                    process.kill()
                elif min(seconds, silence()) >= SILENCE:
                    say(f"  ...      {name}, {seconds:.0f} s so far")
    seconds = time.monotonic() - start
    text = log.read_text(encoding="utf-8", errors="replace")
    counts = count(text, status)
    write_result(name, kind="test", seconds=seconds, processor=processor_seconds(), **counts)
    number = counts["passed"] + counts["failed"]
    what = f"{name}, {number} test{'s' if number != 1 else ''}, {seconds:.1f} s"
    if status:
        say(f"{text.rstrip()}\n  FAIL     {what}: status {status} (above, and in {os.path.relpath(log)})")
    else:
        say(f"  PASS     {what}")
    return 1 if status else 0


def skip_test(name, absent):
    what = f"{', '.join(absent)} is not there (python3 tools/setup.py says why)"
    write_result(name, kind="test", seconds=0, processor=0, passed=0, failed=0, skipped=[what])
    say(f"  SKIP     {name}: {what}")
    return 0


def run_step(name, command):
    RESULTS.mkdir(parents=True, exist_ok=True)
    start = time.monotonic()
    say(f"==> {name}")
    status = subprocess.call(command)
    seconds, processor = time.monotonic() - start, processor_seconds()
    write_result(name, kind="step", seconds=seconds, processor=processor, status=status)
    say(f"<== {name}: {seconds:.0f} s, {processor:.0f} s of processor time" + (f", status {status}" if status else ""))
    return 1 if status else 0


def print_table(heading, rows):
    """Prints rows of (what, tests, seconds, processor seconds); tests may be missing."""
    width = max(len(heading), *(len(row[0]) for row in rows))
    print(f"\n{heading:{width}}  tests  seconds  processor")
    for what, tests, seconds, processor in rows:
        print(f"{what:{width}}  {tests if tests is not None else '':>5}  {seconds:7.1f}  {processor:9.1f}")


def tests_of(result):
    return result["passed"] + result["failed"]


def groups_of(tests):
    """Returns rows of the groups of tests. A group's seconds are the sum of its tests', some of which ran side by side."""
    groups = {}
    for result in tests:
        key = "/".join(result["name"].split("/")[:2 if result["name"].count("/") > 1 else 1])
        row = groups.setdefault(key, [0, 0.0, 0.0])
        row[0] += tests_of(result)
        row[1] += result["seconds"]
        row[2] += result["processor"]
    return sorted(([key, *row] for key, row in groups.items()), key=lambda row: -row[3])


def print_skipped(tests):
    sampled = [result["name"] for result in tests if any(ONLY_IN_ALL in what for what in result["skipped"])]
    if sampled:
        print("\nsampled, and whole in make test-all: "
              + textwrap.fill(", ".join(sorted(sampled)), 116, subsequent_indent="  ", break_on_hyphens=False))
    for result in tests:
        for what in result["skipped"]:
            if ONLY_IN_ALL not in what:
                print(f"skipped: {result['name']}: {what}")


def report():
    results = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(RESULTS.glob("*.json"))]
    tests = [result for result in results if result["kind"] == "test"]
    steps = sorted((result for result in results if result["kind"] == "step"), key=lambda result: -result["processor"])
    if steps:
        print_table("step", [(step["name"], None, step["seconds"], step["processor"]) for step in steps])
    if tests:
        print_table("tests (seconds: the sum of tests side by side)", groups_of(tests))
        slowest = sorted(tests, key=lambda result: -result["seconds"])[:SHOWN]
        print_table("the slowest", [(test["name"], tests_of(test), test["seconds"], test["processor"]) for test in slowest])
        print_skipped(tests)
    failed = [result["name"] for result in results if result.get("failed") or result.get("status")]
    if failed:
        print(f"\nfailed: {', '.join(failed)}")
    print(f"\n{sum(test['passed'] for test in tests)} passed, {sum(test['failed'] for test in tests)} failed")
    return 1 if failed else 0


def main():
    words, command = sys.argv[1:], []
    if "--" in words:
        words, command = words[:words.index("--")], words[words.index("--") + 1:]
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("what", choices=["begin", "test", "step", "report"])
    parser.add_argument("name", nargs="?")
    parser.add_argument("--sampled", action="store_true")
    parser.add_argument("--needs", action="append", default=[])
    arguments = parser.parse_intermixed_args(words)
    if arguments.what in ("test", "step") and not (arguments.name and command):
        parser.error(f"{arguments.what} takes a name and, after --, a command")
    if arguments.what == "begin":
        shutil.rmtree(RESULTS, ignore_errors=True)
        return 0
    if arguments.what == "report":
        return report()
    if arguments.what == "step":
        return run_step(arguments.name, command)
    absent = [path for path in arguments.needs if not os.path.exists(path)]
    if absent and not os.environ.get("CI"):
        return skip_test(arguments.name, absent)
    return run_test(arguments.name, command, arguments.sampled)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)

#!/usr/bin/env python3
"""Measures wisp and its peers in one run: bench/README.md says what and how. Needs bench/set_up.py to have run."""

import argparse
import dataclasses
import datetime
import fnmatch
import json
import signal
import sys
import time
from pathlib import Path

sys.dont_write_bytecode = True  # keeps __pycache__ out of the checkout

from harness import files, machine, peaks, registry, rounds, sizes, table, workloads  # noqa: E402
from harness.contestant import Limits, say  # noqa: E402


# The rounds, starts and limits of a whole run and of a quick run.
WHOLE = {"rounds": 5, "starts": 2, "workloads": "W1,W2,W3", "limits": Limits(run=1, call=1.5, judge=12)}
QUICK = {"rounds": 3, "starts": 0, "workloads": "W1,W2,W3-1x16", "limits": Limits(run=0.5, call=1, judge=3)}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--alone", action="store_true", help="wisp alone, with every kernel set that runs here")
    parser.add_argument("--quick", action="store_true", help="the main comparisons on fewer texts: about 3 minutes")
    parser.add_argument("--only", metavar="PATTERNS",
                        help="engines or runners by name or pattern, separated by commas (default: all set up)")
    parser.add_argument("--workloads", metavar="NAMES", help="beginnings of names, separated by commas "
                        f"(default: {WHOLE['workloads']}; quick: {QUICK['workloads']})")
    parser.add_argument("--rounds", type=int,
                        help=f"how often each is timed (default: {WHOLE['rounds']}; quick: {QUICK['rounds']})")
    parser.add_argument("--starts", type=int, help="how often each is started cold and warm "
                        f"(default: {WHOLE['starts']}; quick: {QUICK['starts']})")
    parser.add_argument("--peaks", action=argparse.BooleanOptionalAction,
                        help="measure the peaks of instructions (default: but for --quick and --only)")
    parser.add_argument("--no-quality", action="store_true", help="leave the embeddings unjudged")
    parser.add_argument("--note", default="", help="a remark on the circumstances, kept with the results")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything there")
    parser.add_argument("--list", action="store_true", help="list runners and workloads, and stop")
    arguments = parser.parse_args()
    for name, value in (QUICK if arguments.quick else WHOLE).items():
        if getattr(arguments, name, None) is None:
            setattr(arguments, name, value)
    if arguments.peaks is None:
        arguments.peaks = not (arguments.quick or arguments.only)
    if arguments.rounds < 1 or arguments.starts < 0:
        parser.error("--rounds starts at 1, --starts at 0")
    return arguments


def is_wanted(runner, arguments):
    if arguments.only:
        return any(fnmatch.fnmatchcase(name, pattern) for pattern in arguments.only.split(",")
                   for name in (runner.name, runner.engine))
    if arguments.alone:
        return not runner.peer and not runner.in_browser and runner.group != "firefox"
    if arguments.quick:
        return runner.engine in registry.QUICK or runner.engine == "calibrate-javascript"
    return runner.every_run


def select(arguments):
    """Returns the runners that are wanted and set up."""
    wanted = [runner for runner in registry.all_runners() if is_wanted(runner, arguments)]
    for runner in wanted:
        if runner.missing():
            say(f"{runner.name} is left out: there is no {runner.missing()[0]}")
    return [runner for runner in wanted if not runner.missing()]


def show_list():
    for runner in registry.all_runners():
        state = f"  (needs set-up: no {runner.missing()[0]})" if runner.missing() else ""
        print(f"{runner.name:26} {runner.about}{state}")
    print()
    for workload in workloads.choose(["W"]):
        print(f"{workload.name:26} {workload.texts} texts, {workload.tokens} tokens, in {workload.unit}")


def report_of(arguments, runners, chosen):
    described = machine.describe()  # comes first, before the benchmark loads the machine
    settings = {"rounds": arguments.rounds, "starts": arguments.starts, "reference": "" if arguments.no_quality else "torch-fp32"}
    begin = time.monotonic()
    found_peaks = {}
    if arguments.peaks:
        say("the peaks of instructions, and the int8 products")
        found_peaks = peaks.measure()
    records = rounds.measure(runners, chosen, settings, arguments.limits)
    for runner in runners:
        kinds = {"model": runner.model, "runtime": runner.runtime}
        records[runner.name] |= {
            "engine": runner.engine, "threads": runner.threads, "group": runner.group, "what": runner.about,
            "bytes": {kind: sizes.total(patterns) for kind, patterns in kinds.items() if patterns}}
    return {
        "date": datetime.date.today().isoformat(),
        "note": arguments.note,
        "machine": described,
        "wisp": machine.wisp_version(),
        "settings": settings | {"limits": dataclasses.asdict(arguments.limits), "quick": arguments.quick,
                                "minutes": round((time.monotonic() - begin) / 60, 1)},
        "workloads": {workload.name: {"texts": workload.texts, "tokens": workload.tokens, "unit": workload.unit}
                      for workload in sorted(chosen, key=lambda found: (found.name[:2], found.texts, found.tokens))},
        "peaks": found_peaks,
        "runners": records,
    }


def main():
    arguments = parse_arguments()
    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, signal.default_int_handler)
    try:
        if arguments.list:
            show_list()
            return 0
        chosen = workloads.choose(arguments.workloads.split(","))
        runners = select(arguments)
        if not runners or not chosen:
            say("no such runner or workload is set up: see --list")
            return 2
        report = report_of(arguments, runners, chosen)
    except workloads.NoWorkloads as error:
        say(str(error))
        return 1
    except KeyboardInterrupt:
        return 130
    if arguments.json:
        files.write_whole(arguments.json, json.dumps(report, indent=1) + "\n")
    print(table.text(report))
    return 1 if any("error" in record for record in report["runners"].values()) else 0


if __name__ == "__main__":
    sys.exit(main())

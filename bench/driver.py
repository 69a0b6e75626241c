#!/usr/bin/env python3
"""Measures wisp and its peers in one run: bench/README.md says what and how. Needs bench/set_up.py to have run."""

import argparse
import datetime
import fnmatch
import json
import sys
from pathlib import Path

sys.dont_write_bytecode = True  # no __pycache__ in the checkout

from harness import machine, registry, rounds, sizes, table, workloads  # noqa: E402


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runners", default="*", metavar="PATTERNS",
                        help="names or patterns, separated by commas (default: all that are set up)")
    parser.add_argument("--workloads", default="W1,W2,W3", metavar="NAMES",
                        help="beginnings of names, separated by commas (default: W1,W2,W3)")
    parser.add_argument("--rounds", type=int, default=5, help="how often each is timed (default: 5)")
    parser.add_argument("--every", type=int, default=1, metavar="N",
                        help="only every Nth text of W1 and W2, in the order of their lengths")
    parser.add_argument("--no-quality", action="store_true", help="leave the embeddings unjudged")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything there")
    parser.add_argument("--list", action="store_true", help="list runners and workloads, and stop")
    arguments = parser.parse_args()
    if arguments.rounds < 1 or arguments.every < 1:
        parser.error("--rounds and --every start at 1")
    return arguments


def select(patterns):
    """Runners that match and are set up."""
    matching = [runner for runner in registry.all_runners()
                if any(fnmatch.fnmatchcase(runner.name, pattern) or fnmatch.fnmatchcase(runner.engine, pattern)
                       for pattern in patterns)]
    for runner in matching:
        if runner.missing():
            rounds.say(f"{runner.name} is left out: there is no {runner.missing()[0]}")
    return [runner for runner in matching if not runner.missing()]


def show_list():
    for runner in registry.all_runners():
        state = f"  (needs set-up: no {runner.missing()[0]})" if runner.missing() else ""
        print(f"{runner.name:26} {runner.about}{state}")
    print()
    for workload in workloads.choose(["W"]):
        print(f"{workload.name:26} {workload.texts} texts, {workload.tokens} tokens, in {workload.unit}")


def report_of(arguments, runners, chosen):
    described = machine.describe()  # before anything here loads the machine
    records = rounds.measure(runners, chosen, arguments.rounds, not arguments.no_quality)
    for runner in runners:
        kinds = {"model": runner.model, "runtime": runner.runtime}
        records[runner.name] |= {
            "engine": runner.engine, "threads": runner.threads, "what": runner.about,
            "bytes": {kind: sizes.total(patterns) for kind, patterns in kinds.items() if patterns}}
    return {
        "date": datetime.date.today().isoformat(),
        "machine": described,
        "wisp": machine.wisp_version(),
        "settings": {"rounds": arguments.rounds, "every": arguments.every},
        "workloads": {workload.name: {"texts": workload.texts, "tokens": workload.tokens, "unit": workload.unit}
                      for workload in chosen},
        "runners": records,
    }


def main():
    arguments = parse_arguments()
    try:
        if arguments.list:
            show_list()
            return 0
        chosen = workloads.choose(arguments.workloads.split(","), arguments.every)
        runners = select(arguments.runners.split(","))
        if not runners or not chosen:
            rounds.say("no such runner or workload is set up: see --list")
            return 2
        report = report_of(arguments, runners, chosen)
    except workloads.NoWorkloads as error:
        rounds.say(str(error))
        return 1
    except KeyboardInterrupt:
        return 130
    if arguments.json:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    print(table.text(report))
    return 1 if any("error" in record for record in report["runners"].values()) else 0


if __name__ == "__main__":
    sys.exit(main())

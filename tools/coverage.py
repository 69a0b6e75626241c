#!/usr/bin/env python3
"""Prints line and branch coverage of each source file below src/, from gcov's data in a build folder."""

import gzip
import json
import subprocess
import sys
from pathlib import Path


def measured(folder):
    """Yields gcov's JSON for every object file that was run."""
    for data in sorted(folder.rglob("*.gcda")):
        done = subprocess.run(["gcov", "--branch-probabilities", "--json-format", "--stdout", str(data)],
                              check=True, capture_output=True)
        text = done.stdout if done.stdout[:2] != b"\x1f\x8b" else gzip.decompress(done.stdout)
        for line in text.splitlines():
            yield from json.loads(line)["files"]


def collect(folder):
    """Returns executed and all lines, taken and all branches of each file. Merges headers over their users."""
    files = {}
    for entry in measured(folder):
        name = entry["file"]
        if not name.startswith("src/"):
            continue
        lines, branches = files.setdefault(name, ({}, {}))
        for line in entry["lines"]:
            number = line["line_number"]
            lines[number] = lines.get(number, 0) + line["count"]
            for i, branch in enumerate(line["branches"]):
                branches[number, i] = branches.get((number, i), 0) + branch["count"]
    return files


def percent(counts):
    return 100 * sum(map(bool, counts.values())) / len(counts) if counts else 100.0


def main():
    files = collect(Path(sys.argv[1]))
    print(f"{'file':40} {'lines':>7} {'branches':>9}")
    for name, (lines, branches) in sorted(files.items()):
        print(f"{name:40} {percent(lines):6.1f}% {percent(branches):8.1f}%")
    everything = [{(n, k): v for n, pair in files.items() for k, v in pair[i].items()} for i in (0, 1)]
    print(f"{'all':40} {percent(everything[0]):6.1f}% {percent(everything[1]):8.1f}%")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that commit messages name no path of one machine, which means nothing to later readers.

Only commits after FIRST are looked at: earlier ones have such paths, and history is not rewritten. If there is no
git history, or not as far back as FIRST, it says so and passes.
"""

import re
import subprocess
import sys
from pathlib import Path

REPO = Path(__file__).resolve().parents[1]
FIRST = "22565ec395ce6f170fc2ddcf217d6f047dc267dd"
# Other machines lack these folders, or have other files in them. "../tmp/" and "build/tmp/" do not match.
PATH = re.compile(r"(?<![\w./-])/(?:tmp|work|home|root|mnt|media|srv|Users)/\S*|\b[A-Za-z]:\\\S+")


def git(*arguments):
    return subprocess.run(["git", "-C", REPO, *arguments], capture_output=True, text=True, check=False)


def main():
    if git("merge-base", "--is-ancestor", FIRST, "HEAD").returncode:
        print(f"skipped: commit messages: there is no git history back to {FIRST[:7]}")
        return 0
    log = git("log", "-z", "--format=%h %B", f"{FIRST}..HEAD")
    if log.returncode:
        print(log.stderr.strip(), file=sys.stderr)
        return 1
    bad = 0
    for entry in filter(None, log.stdout.split("\0")):
        commit, message = entry.split(" ", 1)
        for path in PATH.findall(message):
            print(f"commit {commit}: the message names a path of one machine: {path}", file=sys.stderr)
            bad += 1
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())

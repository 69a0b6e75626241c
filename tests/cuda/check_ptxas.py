#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads what ptxas -v says of each kernel, prints a table, and fails if a kernel spills more than a few registers.

Values that are needed once in a tile may spill: the bound is in bytes of stores for each thread.
"""

import re
import sys
from pathlib import Path

MOST_SPILLED = 96
ENTRY = re.compile(r"Compiling entry function '(\w+)' for '(\w+)'")
SPILL = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores")
USED = re.compile(r"Used (\d+) registers(?:.*?(\d+) bytes smem)?")


def main() -> None:
    kernels: list[tuple[str, str, int, int, int]] = []
    name = architecture = ""
    spilled = 0
    for path in sys.argv[1:]:
        for line in Path(path).read_text(encoding="utf-8").splitlines():
            if entry := ENTRY.search(line):
                name, architecture = entry.groups()
            elif spill := SPILL.search(line):
                spilled = int(spill[2])
            elif (used := USED.search(line)) and name:
                kernels.append((name, architecture, int(used[1]), int(used[2] or 0), spilled))
                name = ""
    if not kernels:
        sys.exit("ptxas reported no kernel")
    for kernel in sorted(kernels):
        print("{:70} {:8} {:4} registers {:6} bytes of static shared memory {:4} bytes spilled".format(*kernel))
    failed = [kernel for kernel in kernels if kernel[4] > MOST_SPILLED]
    if failed:
        sys.exit(f"{len(failed)} kernels spill more than {MOST_SPILLED} bytes: {failed[0][0]} {failed[0][4]}")
    print(f"{len(kernels)} kernels, none spills more than {MOST_SPILLED} bytes")


if __name__ == "__main__":
    main()

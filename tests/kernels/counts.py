#!/usr/bin/env python3
"""Compares the instructions that the kernels execute with those recorded in counts-MACHINE.tsv.

    counts.py TEST_KERNELS            fails if a kernel executes more than LIMIT times what is recorded
    counts.py TEST_KERNELS --record   records what is counted of the sets that run here, and keeps the others

`test_kernels --bench count` stops after each instruction. So the counts do not depend on what else runs, nor on the
processor, only on the compiler: with another one than was recorded nothing is compared. They are not times: code that
waits for memory longer executes no more."""

import os
import platform
import subprocess
import sys
from pathlib import Path

# What the compiler decides anew when code beside it changes stays below this.
LIMIT = 1.05
RECORD = Path(os.environ.get("WISP_COUNTS") or Path(__file__).with_name(f"counts-{platform.machine()}.tsv"))
UNCOUNTED = "-"
# The C library's copies would repeat one instruction for each byte on some processors.
PLAIN_COPIES = {"GLIBC_TUNABLES": "glibc.cpu.x86_rep_movsb_threshold=1073741824:"
                                  "glibc.cpu.x86_rep_stosb_threshold=1073741824"}


def counted(program):
    """Returns the compiler and {work: {set: instructions}}."""
    done = subprocess.run([program, "--bench", "count"], stdout=subprocess.PIPE, text=True, check=True,
                          env=os.environ | PLAIN_COPIES)
    compiler, head, *lines = done.stdout.splitlines()
    sets = head.split()[4:]  # after "kernel m n k"
    return compiler, {" ".join(line.split()[:-len(sets)]): of_sets(sets, line.split()[-len(sets):]) for line in lines}


def of_sets(sets, counts):
    return {name: int(count) for name, count in zip(sets, counts) if count != UNCOUNTED}


def recorded():
    compiler, head, *lines = RECORD.read_text(encoding="utf-8").splitlines()
    return compiler, {work: of_sets(head.split("\t")[1:], counts)
                      for work, *counts in (line.split("\t") for line in lines)}


def write_record(compiler, works):
    sets = list(dict.fromkeys(name for counts in works.values() for name in counts))
    rows = [["work", *sets], *([work, *(str(counts.get(name, UNCOUNTED)) for name in sets)]
                               for work, counts in works.items())]
    RECORD.write_text("\n".join([compiler, *("\t".join(row) for row in rows)]) + "\n", encoding="utf-8")


def record(program):
    compiler, works = counted(program)
    if RECORD.exists():
        before, old = recorded()
        if before == compiler:
            works = {work: old.get(work, {}) | counts for work, counts in works.items()}
    write_record(compiler, works)
    return 0


def slower(works, old):
    """Returns a line for each kernel that executes too many more instructions."""
    return [f"{name}, {work}: {old[work][name]} -> {count} instructions, {100 * (count / old[work][name] - 1):+.1f} %"
            for work, counts in works.items() for name, count in counts.items()
            if name in old.get(work, {}) and count > LIMIT * old[work][name]]


def check(program):
    if not RECORD.exists():
        print(f"skipped: no counts are recorded for {platform.machine()}")
        return 0
    compiler, works = counted(program)
    before, old = recorded()
    if compiler != before:
        print(f"skipped: counted with {compiler}, recorded with {before}")
        return 0
    found = slower(works, old) + [f"{work} is not recorded" for work in works if work not in old]
    if found:
        print("\n".join(found))
        print("If that is meant: make record-counts")
        return 1
    compared = sum(name in old[work] for work, counts in works.items() for name in counts)
    print(f"{compared} counts are at most {LIMIT} times those of {RECORD.name}")
    return 0 if compared else 1


def main():
    if len(sys.argv) not in (2, 3) or sys.argv[2:] not in ([], ["--record"]):
        print(__doc__, file=sys.stderr)
        return 2
    return record(sys.argv[1]) if sys.argv[2:] else check(sys.argv[1])


if __name__ == "__main__":
    sys.exit(main())

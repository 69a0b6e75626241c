#!/usr/bin/env python3
"""Counts the instructions that the Arm kernels execute for a thousand multiply-adds in all-MiniLM-L6-v2's layers.

`calls` (calls.c) runs under qemu-aarch64, which logs every block of instructions that it translates and each time that
it enters one. The instructions of one call are those of a run with two calls minus those of a run with one, because
both set up. Prints a JSON object, then a table. Counts are exact and equal on any machine; they are not times."""

import argparse
import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

sys.dont_write_bytecode = True  # keeps __pycache__ out of the checkout

REPO = Path(__file__).resolve().parents[2]
QEMU = REPO / ".tools/bin/qemu-aarch64"
OBJDUMP = REPO / ".tools/bin/aarch64-linux-gnu-objdump"
CPU = "max"

# Cases are (kernel, set, tokens in a call). neon-i8mm has the f32 product of neon. The scalar set computes row by row,
# so one number of tokens is enough.
CASES = (("gemm_int8", "neon-i8mm", 16), ("gemm_int8", "neon-i8mm", 128), ("gemm_int8", "neon", 16),
         ("gemm_int8", "neon", 128), ("gemm_int8", "scalar", 1), ("gemm_f32", "neon", 16), ("gemm_f32", "neon", 128),
         ("gemm_f32", "scalar", 1))
# The (outputs, inputs) of layers: query, key and value together; attention output; up; down.
LAYERS = ((1152, 384), (384, 384), (1536, 384), (384, 1536))

# An instruction counts as the first kind whose pattern its name matches.
KINDS = {"multiply": r"smmla|sdot|f?n?m(ul|la|ls|add|sub|neg)|[su]m(ul|la|ls|add|sub)",
         "memory": r"ld|st|prf",
         "move": r"zip|uzp|trn|ext$|ins$|dup|mov$|[su]xt|[su]shll|xtn|rev"}

LISTED = re.compile(rb"0x([0-9a-f]+):  [0-9a-f]{8} ")
ENTERED = re.compile(rb"Trace \d+: 0x[0-9a-f]+ \[[0-9a-f]+/([0-9a-f]+)/")


def mnemonics(program):
    """Returns {address: name of the instruction}."""
    listing = subprocess.run([OBJDUMP, "-d", "--no-show-raw-insn", program], stdout=subprocess.PIPE, text=True,
                             check=True).stdout
    return {int(address, 16): name for address, name in re.findall(r"^ *([0-9a-f]+):\t(\S+)", listing, re.M)}


def executed(command):
    """Counts how often the instruction at each address is executed. QEMU may translate a block again, with another
    length: the last listing before the block is entered is valid."""
    entries, blocks, listed = Counter(), {}, []
    with subprocess.Popen([QEMU, "-cpu", CPU, "-d", "in_asm,exec,nochain", "-D", "/dev/stderr", *command],
                          stderr=subprocess.PIPE) as qemu:
        for line in qemu.stderr:
            if entered := ENTERED.match(line):
                start = int(entered[1], 16)
                if listed:
                    blocks[listed[0]] = tuple(listed)
                    listed = []
                entries[blocks[start]] += 1
            elif found := LISTED.match(line):
                listed.append(int(found[1], 16))
            elif line.startswith(b"IN:"):
                listed = []
    if qemu.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, command))}: exit status {qemu.returncode}")
    counts = Counter()
    for block, times in entries.items():
        for address in block:
            counts[address] += times
    return counts


def of_one_call(program, names, kernel, kernel_set, shape):
    """Returns {name: executed instructions} of one call."""
    command = [program, kernel_set, kernel, *map(str, shape)]
    twice, once = executed([*command, "2"]), executed([*command, "1"])
    counts = Counter()
    for address, times in twice.items():
        counts[names[address]] += times - once[address]
    return {name: times for name, times in sorted(counts.items()) if times}


def kind_of(name):
    return next((kind for kind, pattern in KINDS.items() if re.match(pattern, name)), "other")


def measure(program, names, kernel, kernel_set, tokens):
    """Returns the instructions of a case for a thousand multiply-adds over all layers: in all, by kind, and by name."""
    counts, macs = Counter(), 0
    for n, k in LAYERS:
        counts.update(of_one_call(program, names, kernel, kernel_set, (tokens, n, k)))
        macs += tokens * n * k
    rates = {name: times * 1000 / macs for name, times in counts.most_common()}
    kinds = dict.fromkeys((*KINDS, "other"), 0)
    for name, rate in rates.items():
        kinds[kind_of(name)] += rate
    return {"kernel": kernel, "set": kernel_set, "tokens": tokens, "total": round(sum(rates.values()), 2),
            "kinds": {kind: round(rate, 2) for kind, rate in kinds.items()},
            "names": {name: round(rate, 3) for name, rate in rates.items()}}


def table(rows):
    kinds = list(rows[0]["kinds"])
    yield f"| kernel | set | tokens | instructions | {' | '.join(kinds)} |"
    yield "|---|---|---|---|" + "---|" * len(kinds)
    for row in rows:
        rates = " | ".join(f"{rate:.1f}" for rate in row["kinds"].values())
        yield f"| {row['kernel']} | {row['set']} | {row['tokens']} | {row['total']:.1f} | {rates} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=Path, help="calls, built for aarch64")
    program = parser.parse_args().program.resolve()
    names = mnemonics(program)
    rows = [measure(program, names, *case) for case in CASES]
    print(json.dumps({"per": "1000 multiply-adds", "layers": LAYERS, "rows": rows}))
    print("\n".join(table(rows)))


if __name__ == "__main__":
    main()

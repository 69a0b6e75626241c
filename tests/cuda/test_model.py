#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares embeddings of the default model by a device library with those of the CPU.

usage: test_model.py WISP LIBRARY [--texts N]
"""

import argparse
import array
import math
import os
import subprocess
import sys

TEXTS = [
    "A man is eating food.",
    "x",
    "Someone has a meal, while the others wait for the bus to the station.",
    "In 1905 Einstein published four papers which changed physics: on Brownian motion, the photoelectric effect, special "
    "relativity, and the equivalence of mass and energy. " * 5,
    "",
    "Wie spät ist es?",
    "def f(x): return x * 2  # code",
]
# Of 1 - cosine, to the CPU's f32. cuda's int8 loses more than the CPU's (bench/RESULTS-cuda.md).
BOUNDS = {"f32": 1e-5, "int8": 1e-2}


def embed(wisp: str, texts: list[str], *options: str, library: str | None = None) -> list[list[float]]:
    environment = dict(os.environ, WISP_CUDA_LIBRARY=library or "")
    command = [wisp, "embed", "--format", "f32", "--input", "lines", *options, "-"]
    lines = ("\n".join(texts) + "\n").encode()
    output = subprocess.run(command, input=lines, env=environment, check=True, stdout=subprocess.PIPE)
    values = array.array("f", output.stdout)
    size = len(values) // len(texts)
    return [list(values[i * size : (i + 1) * size]) for i in range(len(texts))]


def distance(a: list[float], b: list[float]) -> float:
    return 1 - sum(x * y for x, y in zip(a, b, strict=True)) / math.sqrt(sum(x * x for x in a) * sum(y * y for y in b))


def refusals(wisp: str, library: str) -> None:
    """The device is refused with a typed error if it cannot be used, and auto falls back to the CPU."""
    missing = dict(os.environ, WISP_CUDA_LIBRARY="/nonexistent/libwisp-cuda.so")
    run = subprocess.run([wisp, "embed", "--device", "cuda", "--text", "a"], env=missing, capture_output=True, text=True,
                         check=False)
    assert run.returncode == 3 and "libwisp-cuda.so" in run.stderr, run.stderr
    automatic = subprocess.run([wisp, "embed", "--device", "auto", "--text", "a"], env=missing, capture_output=True,
                          check=False)
    cpu = subprocess.run([wisp, "embed", "--text", "a"], env=missing, capture_output=True,
                          check=False)
    assert automatic.returncode == 0 and automatic.stdout == cpu.stdout
    there = dict(os.environ, WISP_CUDA_LIBRARY=library)
    for options, what in ((["--portable"], "portable"), (["--predictor", "exact"], "sparse")):
        run = subprocess.run([wisp, "embed", "--device", "cuda", *options, "--text", "a"], env=there, capture_output=True, check=False,
                             text=True)
        assert run.returncode == 3 and what in run.stderr, run.stderr


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("wisp")
    parser.add_argument("library")
    parser.add_argument("--texts", type=int, default=len(TEXTS), help="use the first N texts")
    options = parser.parse_args()
    texts = TEXTS[: options.texts]
    refusals(options.wisp, options.library)
    exact = embed(options.wisp, texts, "--compute", "f32")
    cpu = embed(options.wisp, texts, "--compute", "int8")
    failed = False
    for compute, bound in BOUNDS.items():
        rows = embed(options.wisp, texts, "--device", "cuda", "--compute", compute, library=options.library)
        worst = max(distance(a, b) for a, b in zip(rows, exact, strict=True))
        print(f"cuda {compute}: 1 - cosine to the CPU's f32 is {worst:.1e} at most (CPU int8: "
              f"{max(distance(a, b) for a, b in zip(cpu, exact, strict=True)):.1e})")
        short = embed(options.wisp, texts, "--device", "cuda", "--compute", compute, "--dimensions", "100",
                      library=options.library)
        lengths = [sum(x * x for x in row) for row in short]
        failed |= not worst <= bound or any(abs(length - 1) > 1e-4 for length in lengths)
    if failed:
        sys.exit("embeddings of the device are too far from the CPU's")


if __name__ == "__main__":
    main()

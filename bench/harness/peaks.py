"""Measures the rates of single instructions on one core (bench/peak/), and of the int8 product of each kernel set
(tests/kernels/kernel_bench.c)."""

import json
import subprocess

from . import registry
from .process import resolve

RELAXED_NODE = registry.NODE24

# Maps a name to the commands that start the probe and the benchmark of the kernels.
PLACES = {
    "native": (("build/bench/peak/native",), ("build/native/tests/kernels/test_kernels", "--bench")),
    "node, simd128 build": ((RELAXED_NODE, "build/bench/peak/simd128.cjs"),
                            (RELAXED_NODE, "build/wasm/simd128/tests/kernels/test_kernels.cjs", "--bench")),
    "node, relaxed build": ((RELAXED_NODE, "build/bench/peak/relaxed.cjs"),
                            (RELAXED_NODE, "build/wasm/relaxed/tests/kernels/test_kernels.cjs", "--bench")),
}

# Maps a kernel set to the instruction that multiplies its bytes.
INSTRUCTION_OF = {"amx": "amx", "avx512": "avx512_vnni", "avx-vnni": "avx_vnni", "avx2": "avx2_narrow",
                  "neon-i8mm": "neon_i8mm", "neon": "neon_dot", "relaxed": "wasm_relaxed",
                  "relaxed-signed": "wasm_relaxed", "relaxed-narrow": "wasm_narrow", "simd128": "wasm_i16"}


def output_of(command):
    command = [resolve(word) for word in command]
    done = subprocess.run(command, cwd=registry.REPO, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout


def parse_rates(text):
    """Reads {kernel set: {"m x n x k": GMAC/s}} of the int8 products from the table that test_kernels prints. A set that
    has no gemm_int8 has gemm_narrow. Rows in GB/s are of weights from memory, whose rate no instruction limits."""
    lines = [line.split() for line in text.split("\n")]
    sets = next(words for words in lines if words[:1] == ["kernel"])[4:]
    rates = {name: {} for name in sets}
    for words in lines:
        if words[:1] in (["gemm_int8"], ["gemm_narrow"]) and words[6] == "GMAC/s":
            shape = " ".join(words[1:6])
            for name, rate in zip(sets, words[7:]):
                if rate != "-" and (words[0] == "gemm_int8" or shape not in rates[name]):
                    rates[name][shape] = float(rate)
    return rates


def measure():
    """Returns {place: {"peaks": {instruction: GMAC/s}, "gemm_int8": {kernel set: {shape: GMAC/s}}}}. The probes run
    before and after the products and the better result counts, because the machine may be slow for a while."""
    found = {}
    for place, (probe, bench) in PLACES.items():
        first = json.loads(output_of(probe))
        rates = parse_rates(output_of(bench))
        second = json.loads(output_of(probe))
        found[place] = {"peaks": {name: max(rate, second[name]) for name, rate in first.items()}, "gemm_int8": rates}
    return found

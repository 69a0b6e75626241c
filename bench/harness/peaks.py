"""Measures the rates of single instructions on one core (bench/peak/), and of the int8 product of each kernel set by
itself (tests/kernels/kernel_bench.c) and inside forward passes."""

import json
import subprocess
import tempfile

from . import registry, workloads
from .process import resolve

RELAXED_NODE = registry.NODE24

# Maps a name to the commands that start the probe and the benchmark of the kernels.
PLACES = {
    "native": (("build/bench/peak/native",), ("build/native/tests/kernels/test_kernels", "--bench", "int8")),
    "node, simd128 build": ((RELAXED_NODE, "build/bench/peak/simd128.cjs"),
                            (RELAXED_NODE, "build/wasm/simd128/tests/kernels/test_kernels.cjs", "--bench", "int8")),
    "node, relaxed build": ((RELAXED_NODE, "build/bench/peak/relaxed.cjs"),
                            (RELAXED_NODE, "build/wasm/relaxed/tests/kernels/test_kernels.cjs", "--bench", "int8")),
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


# Stages of a pass that multiply weights. They also quantise the activations that they multiply.
PRODUCTS = ("qkv", "attention_output", "ffn_up", "ffn_down")
PASS_TEXTS = ("W2", 4)  # every fourth passage
PASS_ROUNDS = 5


def pass_native(kernels, texts):
    """Returns {stage: seconds} of embedding the file of texts on one core."""
    with tempfile.NamedTemporaryFile(suffix=".json") as trace:
        output_of(("build/wisp", "embed", "--model", registry.GGUF["int8"], "--cpu", kernels, "--threads", "1",
                   "--trace", trace.name, texts))
        events = json.load(open(trace.name, encoding="utf-8"))["traceEvents"]
    return {stage: sum(event["dur"] for event in events if event["name"] == stage) / 1e6 for stage in PRODUCTS}


def pass_rates():
    """Returns {place: {kernel set: GMAC/s}} of the products inside the fastest of several passes over W2."""
    workload = workloads.thinned(*PASS_TEXTS)
    texts = f"{workloads.TEXTS}/{workload.file}.txt"
    config = json.loads((registry.REPO / registry.FOLDER / "config.json").read_text(encoding="utf-8"))
    hidden, wide = config["hidden_size"], config["intermediate_size"]
    work = workload.tokens * config["num_hidden_layers"] * (4 * hidden * hidden + 2 * hidden * wide) / 1e9
    rates = {place: {} for place in PLACES}
    for kernels in registry.kernel_sets():
        if kernels in INSTRUCTION_OF:
            seconds = min(sum(pass_native(kernels, texts).values()) for _ in range(PASS_ROUNDS))
            rates["native"][kernels] = work / seconds
    for place, flags, module in (("node, simd128 build", (), "js/wisp-simd128.wasm"),
                                 ("node, relaxed build", (), "js/wisp-relaxed.wasm"),
                                 ("node, relaxed build", (registry.NO_VNNI,), "js/wisp-relaxed.wasm")):
        found = json.loads(output_of((RELAXED_NODE, *flags, "bench/peak/pass.mjs", registry.GGUF["int8"], texts, module,
                                      str(PASS_ROUNDS), ",".join(PRODUCTS))))
        rates[place][found["kernels"]] = work / found["seconds"]
    return rates


def measure():
    """Returns {place: {"peaks": {instruction: GMAC/s}, "gemm_int8": {kernel set: {shape: GMAC/s}}, "passes":
    {kernel set: GMAC/s}}}. The probes run before and after the products and the better result counts, because the
    machine may be slow for a while."""
    found, passes = {}, pass_rates()
    for place, (probe, bench) in PLACES.items():
        first = json.loads(output_of(probe))
        rates = parse_rates(output_of(bench))
        second = json.loads(output_of(probe))
        found[place] = {"peaks": {name: max(rate, second[name]) for name, rate in first.items()}, "gemm_int8": rates,
                        "passes": passes[place]}
    return found

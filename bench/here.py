#!/usr/bin/env python3
"""Measures wisp beside onnxruntime and OpenVINO on this machine, in about five minutes: make bench-here.

Installs the peers in .tools/bench-here (bench/requirements-here.txt), writes the model that comes with wisp for them
(bench/here/model.py), cuts texts from the prose of this repository, and times all in turn. Prints a table with the
machine, the versions and the settings, and leaves here.json, here.svg and here.md in build/bench/here."""

import argparse
import datetime
import json
import subprocess
import sys
import time
from pathlib import Path

sys.dont_write_bytecode = True  # keeps __pycache__ out of the checkout

import plot  # noqa: E402
import report  # noqa: E402
import set_up  # noqa: E402
from harness import files, machine, registry, rounds, table, workloads  # noqa: E402
from harness.contestant import Limits, say  # noqa: E402
from harness.registry import REPO, Runner  # noqa: E402

FOLDER = "build/bench/here"
HERE = REPO / FOLDER
PEERS = REPO / ".tools/bench-here"
PYTHON = ".tools/bench-here/bin/python"
MODEL = "models/wisp-default.gguf"
ROUNDS = 3
LIMITS = Limits(run=0.6, call=1, judge=5)
CHOSEN = ["W1", "W2", "W3-1x16"]
WHAT = {"W1": "sentences", "W2": "passages of 100 to 128 tokens", "W3-1x16": "one text of 16 tokens"}
ABOUT = """\
The model is the one that comes with wisp, all-MiniLM-L6-v2's shape with ReLU (models/README.md), the same weights for all; the
texts are this repository's prose. Times include tokenising, running the model, pooling and normalising. Peers get texts sorted
by length and the batch size and use of threads that were fastest for them on a sample. int8: wisp's own; onnxruntime's
quantize_dynamic (by channel); OpenVINO's by NNCF (transformers, MIXED, SmoothQuant, 100 sentences). wisp leaves neurons out that
ReLU makes zero, which changes no result; wisp-dense computes them all, as the peers do."""


def step(number, what, minutes):
    say(f"step {number} of 4: {what} ({minutes})")


def install():
    set_up.install(PEERS, REPO / "bench/requirements-here.txt")


def make_model():
    """Writes the model. The file for OpenVINO is the last of its files."""
    HERE.mkdir(parents=True, exist_ok=True)
    lines = HERE / "lines.txt"
    if set_up.is_current(HERE / "onnx/openvino/int8.xml", REPO / MODEL, REPO / "bench/here/model.py"):
        return
    weights = HERE / "f32.gguf"
    weights.unlink(missing_ok=True)
    set_up.run(REPO / "build/wisp", "convert", MODEL, weights, "--type", "f32")
    with open(lines, "w", encoding="utf-8") as file:
        subprocess.run(["node", REPO / "tools/demo_texts.mjs"], stdout=file, check=True)
    set_up.run(REPO / PYTHON, REPO / "bench/here/model.py", weights, lines, HERE / "onnx", stdout=subprocess.DEVNULL,
               stderr=open(HERE / "model.log", "w", encoding="utf-8"))


def cut_texts():
    set_up.run(REPO / PYTHON, REPO / "bench/here/texts.py", HERE / "lines.txt", HERE / "onnx/tokenizer.json",
               HERE / "texts")


def runners_of(threads):
    def wisp(name, about, *more):
        return Runner(name, threads, "native", about,
                      ("build/bench/wisp", "--model", MODEL, "--threads", str(threads), *more), peer=False)

    def peer(name, about, script, dtype):
        return Runner(f"{name}-{dtype}", threads, "native", about,
                      (PYTHON, f"bench/runners/{script}", "--model", f"{FOLDER}/onnx", "--dtype", dtype, "--threads",
                       str(threads)))

    yield wisp("wisp-int8", "wisp, int8, neurons at zero left out", "--compute", "int8")
    yield wisp("wisp-dense-int8", "wisp, int8, all neurons", "--compute", "int8", "--predictor", "dense")
    yield wisp("wisp-f32", "wisp, f32", "--compute", "f32", "--predictor", "dense")
    for dtype in ("fp32", "int8"):
        yield peer("onnxruntime", f"onnxruntime, {dtype}", "run_onnxruntime.py", dtype)
    has_bf16 = not {"avx512_bf16", "amx_bf16"}.isdisjoint(machine.describe()["features"])
    for dtype in ("bf16", "int8", "int8-bf16") if has_bf16 else ("f32", "int8"):
        yield peer("openvino", f"OpenVINO, {dtype}", "run_openvino.py", dtype)


def measured(threads):
    chosen = [workload for name in CHOSEN for workload in workloads.choose([name])]
    runners = [runner for count in threads for runner in (Runner("calibrate", count, "native", "arithmetic alone", (
        "build/bench/calibrate", str(count)), kind="calibrate", peer=False), *runners_of(count))]
    described = machine.describe()
    settings = {"rounds": ROUNDS, "starts": 0, "reference": "onnxruntime-fp32"}
    records = rounds.measure(runners, chosen, settings, LIMITS)
    for runner in runners:
        records[runner.name] |= {"engine": runner.engine, "threads": runner.threads, "group": runner.group,
                                 "what": runner.about}
    return {"date": datetime.date.today().isoformat(), "machine": described, "wisp": machine.wisp_version(),
            "model": "wisp-minilm-l6-relu", "settings": settings,
            "workloads": {workload.name: {"texts": workload.texts, "tokens": workload.tokens, "unit": workload.unit}
                          for workload in chosen}, "runners": records}


def ratios(found, threads):
    """Returns lines: wisp's speed over that of the fastest peer, by workload."""
    for name in CHOSEN:
        results = {runner: record["results"][name]["median"] for runner, record in found["runners"].items()
                   if record["threads"] == threads and name in record.get("results", {})}
        peers = {runner: value for runner, value in results.items() if "wisp" not in runner and "calibrate" not in runner}
        if not peers or f"wisp-int8@{threads}" not in results:
            continue
        is_rate = found["workloads"][name]["unit"] != "ms"
        best = (max if is_rate else min)(peers, key=peers.get)
        shares = [results.get(f"{mine}@{threads}", 0) / peers[best] for mine in ("wisp-int8", "wisp-dense-int8")]
        plain, dense = (share if is_rate else 1 / share for share in shares if share)
        yield (f"- {WHAT[name]}, {threads} thread{'s' * (threads > 1)}: {plain:.2f} times the fastest peer, {best.split('@')[0]} "
               f"(all neurons: {dense:.2f})")


def document(found, threads):
    lines = "\n".join(line for count in threads for line in ratios(found, count))
    return "\n\n".join(["# wisp beside its peers on this machine", f"{table.machine(found)}\n\n{report.versions(found)}",
                        lines, report.speed(found, "native"), "![speed](here.svg)", ABOUT,
                        f"Medians of {ROUNDS} rounds with least and most; * where other programs used more than "
                        f"{table.QUIET} cores meanwhile. Cosines are to onnxruntime's f32."]) + "\n"


def main():
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    begin = time.monotonic()
    workloads.TEXTS = f"{FOLDER}/texts"
    try:
        step(1, "install the peers, 700 MB on disk", "a minute, once")
        install()
        step(2, "write the model and quantise it for the peers", "a minute, once")
        make_model()
        cut_texts()
    except (set_up.SetUpError, OSError, subprocess.CalledProcessError) as error:
        print(f"bench-here: {error}", file=sys.stderr)
        return 1
    step(3, "measure", "two to three minutes")
    threads = sorted({1, min(2, machine.describe()["cores"])})
    try:
        found = measured(threads)
    except KeyboardInterrupt:
        return 130
    step(4, "write the table and the picture", "a second")
    files.write_whole(HERE / "here.json", json.dumps(found, indent=1) + "\n")
    files.write_whole(HERE / "here.md", document(found, threads))
    files.write_whole(HERE / "here.svg", plot.picture(found, "native"))
    print(document(found, threads))
    say(f"{time.monotonic() - begin:.0f} s; {FOLDER}/here.md, here.svg, here.json")
    return 1 if any("error" in record for record in found["runners"].values()) else 0


if __name__ == "__main__":
    sys.exit(main())

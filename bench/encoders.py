#!/usr/bin/env python3
"""Measures encoders of the shapes of MPNet-base, XLM-R-base and ModernBERT-base beside onnxruntime and OpenVINO, in int8 and
on texts of 16 to 512 tokens: bench/encoders.py [--only SHAPE]. Weights are random, since speed does not depend on them.

Needs make native, build/bench/wisp and build/bench/calibrate. Installs the peers of `make bench-here` and what tools/setup.py
needs to make the models: PyTorch. The first run takes ten minutes; --prepare does that part alone. Prints a table, leaves
encoders.json beside the models in build/bench/encoders, and with --print only prints what is there."""

import argparse
import json
import subprocess
import sys

sys.dont_write_bytecode = True  # keeps __pycache__ out of the checkout

import here  # noqa: E402
import report  # noqa: E402
import set_up  # noqa: E402
from harness import files, machine, rounds, table, workloads  # noqa: E402
from harness.contestant import Limits, say  # noqa: E402
from harness.registry import REPO, Runner  # noqa: E402

FOLDER = "build/bench/encoders"
ENCODERS = REPO / FOLDER
SHAPES = ("mpnet-base", "xlm-r-base", "modernbert-base")
WORKLOADS = ["W3-1x16", "W3-1x64", "W3-1x128", "W3-1x256", "W3-1x512", "W3-16x32"]
LIMITS = Limits(run=2, call=5, judge=0)


def prepare():
    """Writes texts, and models for all. The tokenizer is that of the model that comes with wisp."""
    here.install()
    set_up.tool("python", "torch", "sentence")
    here.make_model()
    ENCODERS.mkdir(parents=True, exist_ok=True)
    set_up.run(REPO / here.PYTHON, REPO / "bench/encoders/texts.py", here.HERE / "lines.txt",
               here.HERE / "onnx/tokenizer.json", ENCODERS / "texts", *WORKLOADS)
    last = ENCODERS / SHAPES[-1] / "openvino/int8.xml"
    if set_up.is_current(last, REPO / "bench/encoders/make_models.py", REPO / "bench/export_onnx.py"):
        return
    with open(ENCODERS / "models.log", "w", encoding="utf-8") as log:
        set_up.run(REPO / ".tools/bin/python-torch", REPO / "bench/encoders/make_models.py",
                   here.HERE / "onnx/tokenizer.json", ENCODERS, stdout=log, stderr=log)
        set_up.run(REPO / here.PYTHON, REPO / "bench/here/quantise.py", here.HERE / "lines.txt",
                   *(ENCODERS / shape for shape in SHAPES), stdout=log, stderr=log)


def runners_of(shape, threads):
    def peer(name, script, dtype):
        return Runner(f"{name}-{dtype}", threads, "native", f"{name}, {dtype}",
                      (here.PYTHON, f"bench/runners/{script}", "--model", f"{FOLDER}/{shape}", "--dtype", dtype, "--threads",
                       str(threads)))

    yield Runner("calibrate", threads, "native", "arithmetic alone", ("build/bench/calibrate", str(threads)),
                 kind="calibrate", peer=False)
    yield Runner("wisp-int8", threads, "native", "wisp, int8",
                 ("build/bench/wisp", "--model", f"{FOLDER}/{shape}", "--threads", str(threads), "--compute", "int8"), peer=False)
    yield peer("onnxruntime", "run_onnxruntime.py", "int8")
    yield peer("openvino", "run_openvino.py", "int8")


def measure(shape, threads, count):
    chosen = [workload for name in WORKLOADS for workload in workloads.choose([name])]
    settings = {"rounds": count, "starts": 0, "reference": None}
    runners = [runner for each in threads for runner in runners_of(shape, each)]
    records = rounds.measure(runners, chosen, settings, LIMITS)
    for runner in runners:
        records[runner.name] |= {"engine": runner.engine, "threads": runner.threads, "group": runner.group,
                                 "what": runner.about}
    return {"machine": machine.describe(), "wisp": machine.wisp_version(), "settings": settings, "runners": records,
            "workloads": {each.name: {"texts": each.texts, "tokens": each.tokens, "unit": each.unit} for each in chosen}}


def ratios(found):
    """Yields a row of a table for each number of threads: the fastest peer's time over wisp's, by workload."""
    records = found["runners"].values()
    for threads in sorted({record["threads"] for record in records}):
        times = {record["engine"]: record["results"] for record in records
                 if record["threads"] == threads and record.get("results") and record["engine"] != "calibrate"}
        wisp = times.pop("wisp-int8", None)
        if wisp and times:
            yield [f"wisp's speed over the fastest peer's, {threads} thread{'s' * (threads > 1)}", *(
                f"{min(each[name]['median'] for each in times.values() if name in each) / wisp[name]['median']:.2f}"
                for name in WORKLOADS)]


def document(found):
    parts = []
    for shape, each in found.items():
        rows = [["", *WORKLOADS], *ratios(each)]
        parts += [f"## {shape}", table.machine(each), report.versions(each), report.speed(each, "native"),
                  report.markdown(rows)]
    return "\n\n".join(parts) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=SHAPES, help="measure this shape, and keep the figures of the others")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--prepare", action="store_true", help="make the models and stop")
    parser.add_argument("--print", action="store_true", help="print the figures of the last runs")
    given = parser.parse_args()
    results = ENCODERS / "encoders.json"
    found = json.loads(results.read_text(encoding="utf-8")) if results.exists() else {}
    if not given.print:
        try:
            prepare()
        except (set_up.SetUpError, OSError, subprocess.CalledProcessError) as error:
            print(f"encoders: {error}", file=sys.stderr)
            return 1
    for shape in SHAPES if not (given.print or given.prepare) else ():
        if given.only in (None, shape):
            say(f"measuring {shape}")
            found[shape] = measure(shape, sorted({1, min(2, machine.describe()["cores"])}), given.rounds)
            files.write_whole(results, json.dumps(found, indent=1) + "\n")
    print(document(found))
    return 1 if any("error" in record for each in found.values() for record in each["runners"].values()) else 0


if __name__ == "__main__":
    workloads.TEXTS = f"{FOLDER}/texts"
    sys.exit(main())

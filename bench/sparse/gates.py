#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the predictors gate and topk cost a model that generates: perplexity, and how often the likeliest token is that of
the dense model.

    .tools/bin/python bench/sparse/gates.py MODEL TEXT [--windows N] [--context N] [--threads N]
                                            [--predictors gate,topk] [--sparsities 0.3,0.5,0.7,0.9]

MODEL is calibrated (gate needs it). TEXT is cut into windows of `context` tokens, of which every token but the first is
predicted. Each window runs through tests/oracle/logits_driver, which computes all tokens as if they were generated.
"""

import argparse
import json
import math
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

REPO = Path(__file__).resolve().parents[2]
DRIVER = REPO / "build" / "native" / "tests" / "oracle" / "logits_driver"
WISP = REPO / "build" / "wisp"
CHARACTERS = 8  # of a token, more than the mean


def run(command: list[str], data: bytes = b"") -> bytes:
    done = subprocess.run(command, input=data, capture_output=True, check=False)
    if done.returncode != 0:
        sys.exit(done.stderr.decode())
    return done.stdout


def ids_of(model: str, text: str) -> list[int]:
    line = json.dumps(text).encode()
    return [int(i) for i in json.loads(run([str(WISP), "tokenize", "--input", "ndjson", "-m", model, "-"], line))]


def logits_of(model: str, kernels: str, threads: int, predictor: list[str], ids: list[int]) -> npt.NDArray[np.float32]:
    found = run([str(DRIVER), model, kernels, str(threads), "int8", *predictor], struct.pack(f"<{len(ids)}i", *ids))
    return np.frombuffer(found, dtype="<f4").reshape(len(ids), -1)


def losses(logits: npt.NDArray[np.float32], ids: list[int]) -> npt.NDArray[Any]:
    most = logits.max(axis=1)
    sums = most + np.log(np.exp(logits - most[:, None]).sum(axis=1))
    return (sums[:-1] - logits[np.arange(len(ids) - 1), ids[1:]]).astype(np.float64)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("text", type=Path)
    parser.add_argument("--windows", type=int, default=4)
    parser.add_argument("--context", type=int, default=2048)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--predictors", default="gate,topk")
    parser.add_argument("--sparsities", default="0.3,0.5,0.7,0.9")
    given = parser.parse_args()
    version = run([str(WISP), "--version"]).decode()
    kernels = version.split("kernel sets: ")[1].split(" (")[0].split(", ")[0]
    text = given.text.read_text(encoding="utf-8")
    ids = ids_of(given.model, text[:given.windows * given.context * CHARACTERS])
    windows = [ids[i * given.context:(i + 1) * given.context] for i in range(given.windows)]
    choices = [["dense", "0"]] + [[p, s] for p in given.predictors.split(",") for s in given.sparsities.split(",")]
    loss = {tuple(c): 0.0 for c in choices}
    same = {tuple(c): 0 for c in choices}
    for window in windows:
        likeliest = None
        for choice in choices:
            logits = logits_of(given.model, kernels, given.threads, choice, window)
            likeliest = logits.argmax(axis=1) if likeliest is None else likeliest
            same[tuple(choice)] += int((logits.argmax(axis=1) == likeliest).sum())
            loss[tuple(choice)] += float(losses(logits, window).sum())
    tokens = sum(len(window) for window in windows)
    print(f"{tokens} tokens in {len(windows)} windows, {kernels}")
    for choice in choices:
        name = " ".join(choice)
        perplexity = math.exp(loss[tuple(choice)] / (tokens - len(windows)))
        print(f"{name:12} perplexity {perplexity:8.3f}  likeliest token the same in {same[tuple(choice)] / tokens:.1%}",
              flush=True)


if __name__ == "__main__":
    main()

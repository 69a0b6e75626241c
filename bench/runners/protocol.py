"""Helpers of the runners in Python: the driver's commands (bench/README.md), the choice of a batch size, the clock."""

import argparse
import json
import os
import statistics
import sys
import time
from pathlib import Path

# The runner repeats short calls for at least this many seconds.
ENOUGH_SECONDS = 0.15
BATCH_SIZES = (1, 8, 32)
# The runner compares batch sizes on about this many texts of all lengths.
SAMPLE_TEXTS = 64
# The runner begins no further comparison after this many seconds.
CHOOSING_SECONDS = 2


def arguments(*more):
    parser = argparse.ArgumentParser()
    for name in ("model", "texts", *more):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--threads", type=int, default=1)
    return parser.parse_args()


def batch_choices(texts):
    """Returns the settings to choose from. No batch is larger than the workload."""
    return [{"batch": size} for size in BATCH_SIZES if size == 1 or size <= len(texts)]


def in_batches(texts, size, embed_batch):
    """Embeds batches of texts of similar lengths. Returns rows in the order of the texts."""
    order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
    rows = [None] * len(texts)
    for first in range(0, len(order), size):
        batch = order[first:first + size]
        for i, row in zip(batch, embed_batch([texts[i] for i in batch])):
            rows[i] = row
    return rows


def sample(texts):
    ordered = sorted(texts, key=len)
    return ordered[::max(1, len(ordered) // SAMPLE_TEXTS)]


def best_choice(runner, texts):
    """Returns the settings with which a sample of the texts took the least time, with two tries each."""
    choices = runner.choices(texts)
    if len(choices) < 2:
        return choices[0]
    some = sample(texts)
    best = [float("inf")] * len(choices)
    begin = time.perf_counter()
    for _ in range(2):
        for i, settings in enumerate(choices):
            if time.perf_counter() - begin > CHOOSING_SECONDS:
                break
            start = time.perf_counter()
            runner.embed(some, **settings)
            best[i] = min(best[i], time.perf_counter() - start)
    return choices[best.index(min(best))]


def time_calls(call):
    """Returns the seconds of a call, the median of as many as fill ENOUGH_SECONDS, and the number of calls."""
    seconds = []
    begin = time.perf_counter()
    while not seconds or time.perf_counter() - begin < ENOUGH_SECONDS:
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
    return {"seconds": statistics.median_high(seconds), "calls": len(seconds)}


class Embedder:
    """The part that all runners of embeddings have in common. `packages` are those that a user installs, if their bytes
    count."""

    packages = ()

    def choices(self, texts):
        return batch_choices(texts)

    def rows(self, found):
        return [row.astype("<f4") for row in found]


class Server:
    """Obeys the driver with a runner that has load(), choices(texts), embed(texts, **settings) and rows(result)."""

    def __init__(self, runner, folder):
        self.runner = runner
        self.folder = Path(folder)
        self.texts = {}
        self.settings = {}

    def load(self, _command):
        start = time.perf_counter()
        about = self.runner.load()
        self.runner.embed(["A first sentence."], **self.runner.choices(["one"])[0])
        seconds = time.perf_counter() - start
        if self.runner.packages:
            import installed  # needs "packaging", which not every peer brings

            about["installed_mb"] = round(installed.bytes_of(*self.runner.packages) / 1e6, 1)
        return {"seconds": seconds, "about": about}

    def warm(self, command):
        name = command["workload"]
        text = (self.folder / f"{name}.txt").read_text(encoding="utf-8")
        self.texts[name] = text.split("\n")[:-1]
        self.settings[name] = best_choice(self.runner, self.texts[name])
        start = time.perf_counter()
        self.embed_workload(name)
        return {"settings": self.settings[name], "seconds": time.perf_counter() - start}

    def run(self, command):
        return time_calls(lambda: self.embed_workload(command["workload"]))

    def embed(self, command):
        rows = self.runner.rows(self.embed_workload(command["workload"]))
        with open(command["to"], "wb") as file:
            for row in rows:
                file.write(row.tobytes())
        return {"rows": len(rows)}

    def embed_workload(self, name):
        return self.runner.embed(self.texts[name], **self.settings[name])


def serve(runner, folder):
    server = Server(runner, folder)
    # Libraries print to standard output, so answers get the pipe to themselves and all else goes to standard error.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    for line in sys.stdin:
        command = json.loads(line)
        if command["do"] == "quit":
            break
        try:
            reply = getattr(server, command["do"])(command)
        except Exception as error:  # the driver shows the error and continues with the other runners
            reply = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(reply), file=answers, flush=True)

"""Loads the texts that cut_workloads.py wrote, whole or thinned."""

import dataclasses
import functools
import json

from .registry import REPO

TEXTS = "build/bench/texts"
# Slow engines are timed on every n-th text of W1 and W2, for one n of these.
THINNINGS = (1, 4, 16, 64)


class NoWorkloads(Exception):
    """The workloads have not been cut yet."""


@dataclasses.dataclass(frozen=True)
class Workload:
    """A workload. Runners know it by `file`; `indices` are the numbers of its texts in the whole workload."""
    name: str
    file: str
    indices: tuple
    tokens: int
    bytes: int = 0
    kind: str = "embed"

    @property
    def texts(self):
        return len(self.indices)

    @property
    def unit(self):
        return {"W1": "texts/s", "W2": "tokens/s", "tokenize": "MB/s"}.get(self.name, "ms")

    @property
    def higher_is_better(self):
        return self.unit != "ms"

    def result(self, seconds):
        """Returns a rate, or the time of the call, in the unit of the workload."""
        amount = {"texts/s": self.texts, "tokens/s": self.tokens, "MB/s": self.bytes / 1e6}.get(self.unit)
        return amount / seconds if amount else 1000 * seconds


@functools.lru_cache
def load_table():
    try:
        return json.loads((REPO / TEXTS / "workloads.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise NoWorkloads("there are no workloads yet: run python3 bench/set_up.py wisp") from None


@functools.lru_cache
def read_texts(name):
    return (REPO / TEXTS / f"{name}.txt").read_text(encoding="utf-8").split("\n")[:-1]


@functools.lru_cache
def thinned(name, every):
    """Makes a workload of every n-th text in the order of their lengths."""
    tokens = load_table()[name]["tokens"]
    if every == 1:
        return Workload(name, name, tuple(range(len(tokens))), sum(tokens))
    kept = sorted(sorted(range(len(tokens)), key=lambda i: (tokens[i], i))[::every])
    file, texts = f"{name}-every-{every}", read_texts(name)
    (REPO / TEXTS / f"{file}.txt").write_text("".join(texts[i] + "\n" for i in kept), encoding="utf-8", newline="\n")
    return Workload(name, file, tuple(kept), sum(tokens[i] for i in kept))


def choose(patterns):
    """Returns whole workloads whose names begin with one of the patterns, the shortest first."""
    names = [name for name in load_table() if any(name.startswith(pattern) for pattern in patterns)]
    return sorted((thinned(name, 1) for name in names), key=lambda workload: workload.tokens)


def variants(workload):
    """Returns the variants of a workload on which an engine may be timed, the smallest first."""
    if workload.name not in ("W1", "W2"):
        return [workload]
    return [thinned(workload.name, every) for every in reversed(THINNINGS)]


ARITHMETIC = Workload("arithmetic", "arithmetic", (), 0, kind="calibrate")


def tokenize():
    """Returns W2 as text to be tokenised."""
    whole = thinned("W2", 1)
    size = len("".join(read_texts("W2")).encode())
    return dataclasses.replace(whole, name="tokenize", bytes=size, kind="tokenize")


def scores():
    """Returns the similarities that people gave to the pairs of W1."""
    return load_table()["W1"]["scores"]

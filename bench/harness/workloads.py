"""The texts that are timed, as cut_workloads.py left them, whole or thinned."""

import dataclasses
import functools
import json

from .registry import REPO

TEXTS = "build/bench/texts"
# Every so many-th text of W1 and W2: engines that are slow are timed on fewer.
THINNINGS = (1, 4, 16, 64)


class NoWorkloads(Exception):
    """They have not been cut."""


@dataclasses.dataclass(frozen=True)
class Workload:
    """`file` is what runners know it by; `indices` are those of its texts in the whole workload."""
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
        """A rate, or the time of the call, in its unit."""
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
    """Every so many-th text in the order of their lengths, as a workload of its own."""
    tokens = load_table()[name]["tokens"]
    if every == 1:
        return Workload(name, name, tuple(range(len(tokens))), sum(tokens))
    kept = sorted(sorted(range(len(tokens)), key=lambda i: (tokens[i], i))[::every])
    file, texts = f"{name}-every-{every}", read_texts(name)
    (REPO / TEXTS / f"{file}.txt").write_text("".join(texts[i] + "\n" for i in kept), encoding="utf-8", newline="\n")
    return Workload(name, file, tuple(kept), sum(tokens[i] for i in kept))


def choose(patterns):
    """Whole workloads whose names begin with one of the patterns, the shortest first."""
    names = [name for name in load_table() if any(name.startswith(pattern) for pattern in patterns)]
    return sorted((thinned(name, 1) for name in names), key=lambda workload: workload.tokens)


def variants(workload):
    """The workload as an engine may be timed on it, the smallest first."""
    if workload.name not in ("W1", "W2"):
        return [workload]
    return [thinned(workload.name, every) for every in reversed(THINNINGS)]


ARITHMETIC = Workload("arithmetic", "arithmetic", (), 0, kind="calibrate")


def tokenize():
    """W2 as text to be tokenised."""
    whole = thinned("W2", 1)
    size = len("".join(read_texts("W2")).encode())
    return dataclasses.replace(whole, name="tokenize", bytes=size, kind="tokenize")


def scores():
    """What people said of the pairs of W1."""
    return load_table()["W1"]["scores"]

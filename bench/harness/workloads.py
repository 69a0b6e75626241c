"""The texts that are timed, as cut_workloads.py left them, whole or thinned."""

import dataclasses
import json

from .registry import REPO

TEXTS = "build/bench/texts"


class NoWorkloads(Exception):
    """They have not been cut."""


@dataclasses.dataclass(frozen=True)
class Workload:
    """`file` is what runners know it by; `unit` says what its results are: a rate, or the time of a call."""
    name: str
    file: str
    texts: int
    tokens: int

    @property
    def unit(self):
        return {"W1": "texts/s", "W2": "tokens/s"}.get(self.name, "ms")

    @property
    def higher_is_better(self):
        return self.unit != "ms"

    def result(self, seconds):
        if self.unit == "ms":
            return 1000 * seconds
        return (self.texts if self.unit == "texts/s" else self.tokens) / seconds


def load_table():
    try:
        return json.loads((REPO / TEXTS / "workloads.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise NoWorkloads("there are no workloads yet: run python3 bench/set_up.py wisp") from None


def thinned(name, entry, every):
    """Every so many-th text in the order of their lengths, as a workload of its own."""
    texts = (REPO / TEXTS / f"{name}.txt").read_text(encoding="utf-8").split("\n")[:-1]
    kept = sorted(sorted(range(len(texts)), key=lambda i: (entry["tokens"][i], i))[::every])
    file = f"{name}-every-{every}"
    (REPO / TEXTS / f"{file}.txt").write_text("".join(texts[i] + "\n" for i in kept), encoding="utf-8", newline="\n")
    return Workload(name, file, len(kept), sum(entry["tokens"][i] for i in kept))


def choose(patterns, every=1):
    """Workloads whose names begin with one of the patterns."""
    chosen = []
    for name, entry in load_table().items():
        if not any(name.startswith(pattern) for pattern in patterns):
            continue
        if every > 1 and not name.startswith("W3"):
            chosen.append(thinned(name, entry, every))
        else:
            chosen.append(Workload(name, name, entry["texts"], sum(entry["tokens"])))
    return chosen


ARITHMETIC = Workload("arithmetic", "arithmetic", 0, 0)


def scores():
    """What people said of the pairs of W1."""
    return load_table()["W1"]["scores"]

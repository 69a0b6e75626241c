"""A runner that takes part, with its process, its workloads and its results."""

import dataclasses
import statistics
import sys
import time

from . import load, quality, workloads
from .process import Process, RunnerError
from .registry import REPO

LEAST_AVAILABLE_MB = 1500


def say(text):
    print(f"bench: {text}", file=sys.stderr, flush=True)


@dataclasses.dataclass(frozen=True)
class Limits:
    """Limits in seconds: a run of W1 or W2 should take at most `run`; calls beyond `call` are left out."""
    run: float
    call: float
    judge: float


class Contestant:
    def __init__(self, runner, limits):
        self.runner = runner
        self.limits = limits
        self.process = None
        self.variants = {}  # maps the name of a workload to the variant that is timed
        self.rate = None  # tokens a second; None while unknown
        self.rows = None
        self.record = {"about": {}, "load": {}, "settings": {}, "runs": {}, "left_out": {}}

    @property
    def alive(self):
        return self.process is not None

    def suits(self, workload):
        return self.runner.kind == workload.kind

    def attempt(self, action, *arguments):
        """Runs a step. Excludes the runner and records the reason if the step fails."""
        try:
            action(*arguments)
        except RunnerError as error:
            say(f"{self.runner.name} failed: {error}")
            self.record["error"] = str(error)
            self.close()

    def start(self):
        if load.available_mb() < LEAST_AVAILABLE_MB:
            raise RunnerError("too little memory is left; choose fewer runners")
        self.process = Process(self.runner, workloads.TEXTS)
        answer = self.process.ask("load")
        self.pids = answer.get("pids", [self.process.pid])
        self.record["about"] = answer["about"]
        self.record["load"] = {"open_seconds": answer["seconds"],
                               "start_seconds": time.monotonic() - self.process.started,
                               "memory_mb": load.memory_mb(self.pids)}
        if answer.get("before_mb"):
            self.record["load"]["empty_page_mb"] = answer["before_mb"]

    def seconds_for(self, workload):
        """Estimates the seconds of a run from the best rate so far; returns 0 if no rate is known."""
        return workload.tokens / self.rate if self.rate else 0

    def warm(self, workload):
        """Chooses the largest variant that a run has time for, and lets the runner find its best settings for it."""
        variants = workloads.variants(workload)
        if len(variants) > 1:
            self.try_out(variants[0])
            fitting = [variant for variant in variants if self.seconds_for(variant) <= self.limits.run]
            chosen = fitting[-1] if fitting else variants[0]
        else:
            chosen = variants[0]
            if self.seconds_for(chosen) > self.limits.call:
                self.record["left_out"][workload.name] = round(self.seconds_for(chosen), 1)
                return
        if self.variants.get(chosen.name) != chosen:
            self.try_out(chosen)

    def try_out(self, variant):
        answer = self.process.ask("warm", workload=variant.file)
        self.variants[variant.name] = variant
        self.record["settings"][variant.name] = {**answer["settings"], "texts": variant.texts}
        if variant.tokens:
            self.rate = max(self.rate or 0, variant.tokens / answer["seconds"])

    def run(self, workload):
        variant = self.variants[workload.name]
        with load.Watch(self.process.pid) as watch:
            answer = self.process.ask("run", workload=variant.file)
        self.record["runs"].setdefault(workload.name, []).append(
            {**answer, "cores": watch.cores, "watts": watch.watts})

    def embed(self, whole):
        """Writes the rows of W1, or of the part of it that there is time for."""
        variants = workloads.variants(workloads.thinned("W1", 1))
        fitting = [variant for variant in variants if whole or self.seconds_for(variant) <= self.limits.judge]
        variant = fitting[-1] if fitting else variants[0]
        self.process.ask("warm", workload=variant.file)
        self.write_results(variant)
        self.rows = variant.indices, quality.read_rows(self.results_path)

    @property
    def results_path(self):
        return REPO / f"build/bench/rows/{self.runner.name}.bin"

    def write_results(self, variant):
        self.results_path.parent.mkdir(parents=True, exist_ok=True)
        self.process.ask("embed", workload=variant.file, to=str(self.results_path.relative_to(REPO)))

    def note_peak(self):
        self.record["load"]["peak_mb_at_end"] = load.memory_mb(self.pids)["peak"]

    def close(self):
        if self.process:
            self.process.close()
        self.process = None

    def summarise(self):
        """Returns median, least and greatest result of each workload, in its unit, and the cores used meanwhile."""
        self.record["results"] = {}
        for name, runs in self.record.pop("runs").items():
            variant = self.variants[name]
            values = sorted(variant.result(run["seconds"]) for run in runs)
            joules = [run["watts"] * run["seconds"] for run in runs if run["watts"] is not None]
            self.record["results"][name] = {
                "median": statistics.median(values), "least": values[0], "most": values[-1], "unit": variant.unit,
                "rounds": len(values), "texts": variant.texts, "tokens": variant.tokens,
                "processor_seconds": statistics.median(run["cores"]["own"] * run["seconds"] for run in runs),
                "joules": statistics.median(joules) if joules else None,
                "cores": {who: statistics.median(run["cores"][who] for run in runs) for who in runs[0]["cores"]}}
        return self.record

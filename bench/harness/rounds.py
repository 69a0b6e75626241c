"""The measurement: all runners are loaded, warmed, then timed in turn, round by round, so that a change of the
machine's speed meets them all alike."""

import statistics
import sys
import time

from . import load, quality, workloads
from .process import Process, RunnerError
from .registry import REPO

LEAST_AVAILABLE_MB = 1500
REFERENCE_ENGINE = "torch-fp32"
REFERENCE = REPO / "build/bench/reference.f32"


def say(text):
    print(f"bench: {text}", file=sys.stderr, flush=True)


class Contestant:
    """A runner that takes part, and what is known of it."""

    def __init__(self, runner):
        self.runner = runner
        self.process = None
        self.record = {"about": {}, "load": {}, "settings": {}, "runs": {}}

    @property
    def alive(self):
        return self.process is not None

    def suits(self, workload):
        return (self.runner.engine == "calibrate") == (workload is workloads.ARITHMETIC)

    def attempt(self, action, *arguments):
        """Runs a step; a runner that fails is out, with the reason on record."""
        try:
            action(*arguments)
        except RunnerError as error:
            say(f"{self.runner.name} failed: {error}")
            self.record["error"] = str(error)
            self.close()

    def start(self):
        if load.available_mb() < LEAST_AVAILABLE_MB:
            raise RunnerError("too little memory is left; choose fewer runners")
        log = REPO / f"build/bench/logs/{self.runner.name}.txt"
        log.parent.mkdir(parents=True, exist_ok=True)
        self.process = Process(self.runner, workloads.TEXTS, log)
        answer = self.process.ask("load")
        self.pids = answer.get("pids", [self.process.pid])
        self.record["about"] = answer["about"]
        self.record["load"] = {"open_seconds": answer["seconds"],
                               "start_seconds": time.monotonic() - self.process.started,
                               "memory_mb": load.memory_mb(self.pids)}

    def warm(self, workload):
        self.record["settings"][workload.name] = self.process.ask("warm", workload=workload.file)["settings"]

    def run(self, workload):
        with load.Watch(self.process.pid) as watch:
            answer = self.process.ask("run", workload=workload.file)
        self.record["runs"].setdefault(workload.name, []).append({**answer, "cores": watch.cores})

    def embed(self):
        path = REPO / f"build/bench/rows/{self.runner.name}.f32"
        path.parent.mkdir(parents=True, exist_ok=True)
        self.process.ask("warm", workload="W1")
        self.process.ask("embed", workload="W1", to=str(path.relative_to(REPO)))
        self.rows = quality.read_rows(path)
        if self.runner.engine == REFERENCE_ENGINE:
            REFERENCE.write_bytes(path.read_bytes())

    def note_peak(self):
        self.record["load"]["peak_mb_at_end"] = load.memory_mb(self.pids)["peak"]

    def close(self):
        if self.process:
            self.process.close()
        self.process = None


def each_alive(contestants, step, what):
    for contestant in contestants:
        if contestant.alive:
            say(f"{what} {contestant.runner.name}")
            contestant.attempt(getattr(contestant, step))


def start_all(contestants):
    for contestant in contestants:
        say(f"loading {contestant.runner.name}")
        contestant.attempt(contestant.start)


def warm_all(contestants, chosen):
    for workload in chosen:
        for contestant in contestants:
            if contestant.alive and contestant.suits(workload):
                say(f"warming {contestant.runner.name} {workload.name}")
                contestant.attempt(contestant.warm, workload)


def run_rounds(contestants, chosen, rounds):
    """In each round another runner is the first, so that nobody always follows the same one."""
    for i in range(rounds):
        say(f"round {i + 1} of {rounds}")
        first = i * max(1, len(contestants) // rounds) % len(contestants)
        for workload in chosen:
            for contestant in contestants[first:] + contestants[:first]:
                if contestant.alive and contestant.suits(workload):
                    contestant.attempt(contestant.run, workload)


def judge_all(contestants):
    """One runner of each engine: threads do not change what it computes. The reference comes first."""
    engines = {}
    for contestant in contestants:
        if contestant.alive and contestant.runner.engine != "calibrate":
            engines.setdefault(contestant.runner.engine, contestant)
    judged = sorted(engines.values(), key=lambda contestant: contestant.runner.engine != REFERENCE_ENGINE)
    each_alive(judged, "embed", "embedding with")
    reference = quality.read_rows(REFERENCE) if REFERENCE.exists() else None
    for contestant in judged:
        if hasattr(contestant, "rows"):
            contestant.record["quality"] = quality.judge(contestant.rows, workloads.scores(), reference)


def summarise(record, chosen):
    """Median, least and most of each workload, in its unit, with the cores used meanwhile."""
    record["results"] = {}
    for workload in chosen:
        runs = record["runs"].get(workload.name)
        if not runs:
            continue
        values = sorted(workload.result(run["seconds"]) for run in runs)
        record["results"][workload.name] = {
            "median": statistics.median(values), "least": values[0], "most": values[-1], "unit": workload.unit,
            "cores": {who: statistics.median(run["cores"][who] for run in runs) for who in runs[0]["cores"]}}


def measure(runners, chosen, rounds, with_quality):
    """Returns {runner's name: record}."""
    contestants = [Contestant(runner) for runner in runners]
    if any(runner.engine == "calibrate" for runner in runners):
        chosen = [workloads.ARITHMETIC, *chosen]
    try:
        start_all(contestants)
        warm_all(contestants, chosen)
        run_rounds(contestants, chosen, rounds)
        each_alive(contestants, "note_peak", "memory of")
        if with_quality:
            judge_all(contestants)
    finally:
        for contestant in contestants:
            contestant.close()
    for contestant in contestants:
        summarise(contestant.record, chosen)
    return {contestant.runner.name: contestant.record for contestant in contestants}

"""Loads and warms the runners of a group, then times them in turn, round by round, so that a change of the machine's
speed affects all of them."""

from . import quality, starts, workloads
from .contestant import Contestant, say
from .registry import GROUPS, REPO



def start_all(contestants):
    for contestant in contestants:
        say(f"loading {contestant.runner.name}")
        contestant.attempt(contestant.start)


def warm_all(contestants, chosen):
    for contestant in contestants:
        say(f"warming {contestant.runner.name}")
        for workload in chosen:
            if contestant.alive and contestant.suits(workload):
                contestant.attempt(contestant.warm, workload)


def run_rounds(contestants, chosen, rounds):
    """Runs the rounds. Each begins with another runner, so that none always follows the same one."""
    for i in range(rounds):
        say(f"round {i + 1} of {rounds}")
        first = i * max(1, len(contestants) // rounds) % len(contestants)
        for workload in chosen:
            for contestant in contestants[first:] + contestants[:first]:
                if contestant.alive and workload.name in contestant.variants:
                    contestant.attempt(contestant.run, workload)


def judge_all(contestants, reference_engine):
    """Judges one runner of each engine, the one with the most threads: threads do not change results. The reference is
    first, and its rows are kept for runs without it."""
    kept = REPO / f"build/bench/{reference_engine}.f32"
    engines = {contestant.runner.engine: contestant for contestant in contestants
               if contestant.alive and contestant.runner.kind == "embed"}
    judged = sorted(engines.values(), key=lambda contestant: contestant.runner.engine != reference_engine)
    for contestant in judged:
        is_reference = contestant.runner.engine == reference_engine
        say(f"embedding with {contestant.runner.name}")
        contestant.attempt(contestant.embed, is_reference)
        if is_reference and contestant.rows:
            kept.write_bytes(contestant.results_path.read_bytes())
    reference = quality.read_rows(kept) if kept.exists() else None
    for contestant in judged:
        if contestant.rows:
            contestant.record["quality"] = quality.judge(*contestant.rows, workloads.scores(), reference)


def compare_tokens(contestants):
    """Records whether all tokenisers gave equal ids."""
    tokenizers = [contestant for contestant in contestants if contestant.runner.kind == "tokenize"]
    for contestant in tokenizers:
        if contestant.alive:
            contestant.attempt(contestant.write_results, workloads.tokenize())
    alive = [contestant for contestant in tokenizers if contestant.alive]
    found = {contestant.results_path.read_bytes() for contestant in alive}
    for contestant in alive if len(alive) > 1 else ():
        contestant.record["same_ids"] = len(found) == 1


def measure_group(contestants, chosen, settings):
    if settings["starts"]:
        for contestant in contestants:
            if contestant.runner.threads == 1 and contestant.runner.kind == "embed":
                say(f"starting {contestant.runner.name} cold and warm")
                contestant.attempt(starts.measure, contestant, settings["starts"])
    try:
        start_all(contestants)
        warm_all(contestants, chosen)
        run_rounds(contestants, chosen, settings["rounds"])
        for contestant in contestants:
            if contestant.alive:
                contestant.note_peak()
        compare_tokens(contestants)
        if settings["reference"]:
            judge_all(contestants, settings["reference"])
    finally:
        for contestant in contestants:
            contestant.close()


def measure(runners, chosen, settings, limits):
    """Returns {runner's name: record}."""
    chosen = [workloads.ARITHMETIC, workloads.tokenize(), *chosen]
    records = {}
    for group in GROUPS:
        contestants = [Contestant(runner, limits) for runner in runners if runner.group == group]
        if not contestants:
            continue
        say(f"the {group} group: {len(contestants)} runners")
        measure_group(contestants, chosen, settings)
        for contestant in contestants:
            records[contestant.runner.name] = contestant.summarise()
    return records

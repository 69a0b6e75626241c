"""Measures the time to the first embedding, each time in a new process, cold and warm.

Cold, natively and in Node: the model's and the library's files are not in memory (posix_fadvise drops them). Cold in a
browser: a new profile. Warm: the same again, files in memory; in a browser the page is loaded once more.
"""

import os
import statistics
import time

from . import registry, sizes, workloads
from .process import Process

# These files measure a peer; its own downloads do not include them.
OWN_PATHS = ("/bench/runners/", "/build/bench/texts/")


def drop_from_memory(paths):
    """Drops files from the page cache, except those that a process has mapped."""
    os.sync()
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)


def load_once(runner, **more):
    process = Process(runner, workloads.TEXTS)
    try:
        answer = process.ask("load", **more)
        answer.setdefault("total_seconds", time.monotonic() - process.started)
        return answer
    finally:
        process.close()


def kinds_of(runner):
    """Loads once cold and once warm, and returns {"cold": answer, "warm": answer}."""
    if runner.in_browser:
        answer = load_once(runner, twice="yes")
        return {"cold": answer["cold"], "warm": answer}
    drop_from_memory(path for pattern in (*runner.model, *runner.runtime) for path in registry.files_of(pattern))
    return {"cold": load_once(runner), "warm": load_once(runner)}


def wire_bytes(requests):
    """Returns the bytes of the files that a page requested: as sent, and as brotli would pack them."""
    paths = [registry.REPO / path.lstrip("/") for path in requests if not path.startswith(OWN_PATHS)]
    return sizes.total_of_files(path for path in paths if path.is_file())


def measure(contestant, times):
    found = {"cold": [], "warm": []}
    for _ in range(times):
        for kind, answer in kinds_of(contestant.runner).items():
            found[kind].append(answer)
    contestant.record["starts"] = {
        kind: {"open_seconds": statistics.median(answer["seconds"] for answer in answers),
               "total_seconds": statistics.median(answer["total_seconds"] for answer in answers),
               "times": len(answers)}
        for kind, answers in found.items()}
    if contestant.runner.in_browser:
        for kind, answers in found.items():
            contestant.record["starts"][kind]["wire_bytes"] = wire_bytes(answers[-1]["requests"])

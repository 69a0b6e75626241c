#!/usr/bin/env python3
"""Looks for inputs and faults that break wisp, for hours of processor time: make campaign (README.md).

Runs the tests that sweep through faults, the targets campaign-* of tests/rules.mk, and the fuzz targets in turns.
Ctrl-C ends it early. Either way it then makes the corpus in tests/fuzz/corpus as small as it can be, measures what
the corpus reaches, and writes build/campaign/summary.json, which it also does after every piece of work."""

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import coverage  # noqa: E402  (tools/coverage.py)

OUT = Path("build/campaign")
KEPT = Path("tests/fuzz/corpus")
KEPT_BYTES = 280_000  # of all targets together
PIECE = 300  # seconds of fuzzing until the next target's turn
TURNS = {"api": 3, "gguf": 2}  # in a round; others have one

# Tests that inject faults, with the environment in which they leave nothing out.
SWEEPS = {
    "malformed/test_faults": {},
    "malformed/test_faults_io": {},
    "malformed/test_crash": {},
    "malformed/test_command_faults": {},
    "malformed/test_command_ends": {"WISP_KILLS": "1000"},
    "malformed/test_malformed_sweeps": {},
    "malformed/test_malformed_hf_sweeps": {},
}


def targets():
    return sorted(path.stem.removeprefix("fuzz_") for path in Path("tests/fuzz").glob("fuzz_*.c"))


def files_of(folder):
    return sorted(path for path in Path(folder).glob("*") if path.is_file())


def make(*goals, jobs=1):
    subprocess.run(["make", f"-j{jobs}", *goals], check=True, stdout=subprocess.DEVNULL)


class Piece:
    """A program that runs for a while. After it, `cpu` has the processor seconds that it and its children took."""

    def __init__(self, name, command, environment=None):
        self.name, self.command, self.environment = name, command, environment or {}
        self.log = OUT / "log" / f"{name.replace('/', '-')}.log"
        self.code, self.cpu, self.process = None, 0.0, None

    def run(self):
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(self.command, stdout=log, stderr=subprocess.STDOUT,
                                            stdin=subprocess.DEVNULL, start_new_session=True,
                                            env={**os.environ, **self.environment})
            _, status, usage = os.wait4(self.process.pid, 0)
        self.code = self.process.returncode = os.waitstatus_to_exitcode(status)
        self.cpu = usage.ru_utime + usage.ru_stime

    def interrupt(self):
        if self.process and self.process.returncode is None:
            os.killpg(self.process.pid, signal.SIGINT)

    def text(self):
        return self.log.read_text(errors="replace")


def fuzz_piece(target, seconds):
    """libFuzzer goes on after a fault (-fork), and keeps new inputs in the first folder."""
    corpus = OUT / "corpus" / target
    corpus.mkdir(parents=True, exist_ok=True)
    kept = [str(folder) for folder in (KEPT / target, OUT / "seeds" / target) if folder.is_dir()]
    dictionary = ["-dict=tests/fuzz/json.dict"] if target in ("json", "folder", "decoder", "input") else []
    piece = Piece(target, [f"build/fuzz/fuzz_{target}", "-fork=1", "-ignore_crashes=1", "-ignore_timeouts=1",
                           "-ignore_ooms=1", f"-max_total_time={seconds}", "-timeout=20", *dictionary,
                           f"-artifact_prefix={OUT}/found/{target}-", str(corpus), *kept])
    piece.target = target
    return piece


class Campaign:
    def __init__(self, hours, jobs, only_fuzz):
        self.budget, self.jobs, self.only_fuzz = hours * 3600, jobs, only_fuzz
        self.started, self.spent, self.stopping = time.time(), 0.0, False
        self.lock, self.running = threading.Lock(), []
        self.fuzzed = {target: {"executions": 0, "cpu_seconds": 0.0, "features": 0} for target in targets()}
        self.others = []
        self.reached = {}

    # ---- work -----------------------------------------------------------------------------------

    def others_first(self):
        for name, environment in SWEEPS.items():
            yield Piece(name, [f"build/native/tests/{name}"], {"WISP_TEST_ALL": "1", **environment})
        for goal in sorted(set(re.findall(r"^(campaign-[a-z]+):", Path("tests/rules.mk").read_text(), re.M))):
            yield Piece(goal, ["make", goal])

    def work(self):
        """Yields pieces until the time is spent. What is left is divided among a round of turns if it is short."""
        if not self.only_fuzz:
            yield from self.others_first()
        turns = [target for target in self.fuzzed for _ in range(TURNS.get(target, 1))]
        while True:
            seconds = max(10, min(PIECE, int((self.budget - self.spent) / len(turns))))
            for target in turns:
                yield fuzz_piece(target, seconds)

    def work_on(self, pieces):
        while True:
            with self.lock:
                if self.stopping or self.spent >= self.budget:
                    return
                piece = next(pieces)
                self.running.append(piece)
            piece.run()
            with self.lock:
                self.running.remove(piece)
                self.count(piece)
                self.write_summary()

    def run(self):
        pieces = self.work()
        threads = [threading.Thread(target=self.work_on, args=(pieces,)) for _ in range(self.jobs)]
        signal.signal(signal.SIGINT, self.stop)
        for thread in threads:
            thread.start()
        for thread in threads:
            while thread.is_alive():
                thread.join(0.5)
        signal.signal(signal.SIGINT, signal.default_int_handler)

    def stop(self, *_):
        print("\nending: the summary comes; once more Ctrl-C to leave without it", flush=True)
        self.stopping = True
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for piece in list(self.running):
            piece.interrupt()

    # ---- results --------------------------------------------------------------------------------

    def count(self, piece):
        self.spent += piece.cpu
        if piece.name in self.fuzzed:
            progress = re.findall(r"^#(\d+): cov: \d+ ft: (\d+)", piece.text(), re.M) or [("0", "0")]
            entry = self.fuzzed[piece.name]
            entry["executions"] += int(progress[-1][0])
            entry["features"] = max(entry["features"], int(progress[-1][1]))
            entry["cpu_seconds"] += piece.cpu
            what = f"{progress[-1][0]} executions, {progress[-1][1]} features, {len(self.found(piece.name))} found"
        else:
            self.others.append({"name": piece.name, "code": piece.code, "cpu_seconds": round(piece.cpu, 1),
                                "interrupted": self.stopping})
            what = "good" if piece.code == 0 else f"FAILED with {piece.code}: see {piece.log}"
        print(f"{self.spent / 3600:6.2f} of {self.budget / 3600:g} h  {piece.name:34} {what}", flush=True)

    def found(self, target):
        return [str(path) for path in files_of(OUT / "found") if re.match(rf"{target}-(crash|leak|timeout|oom)-",
                                                                          path.name)]

    def failures(self):
        return ([path for target in self.fuzzed for path in self.found(target)] +
                [entry["name"] for entry in self.others if entry["code"] != 0 and not entry["interrupted"]])

    def write_summary(self):
        commit = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True).stdout
        summary = {
            "commit": commit.strip(),
            "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.started)),
            "seconds": round(time.time() - self.started),
            "cpu_hours": round(self.spent / 3600, 3),
            "executions": sum(entry["executions"] for entry in self.fuzzed.values()),
            "fuzz": {target: {**entry, "cpu_seconds": round(entry["cpu_seconds"], 1),
                              "corpus_files": len(files_of(KEPT / target)),
                              "corpus_bytes": sum(path.stat().st_size for path in files_of(KEPT / target)),
                              "found": self.found(target)} for target, entry in self.fuzzed.items()},
            "others": self.others,
            "lines_reached": self.reached,
        }
        temporary = OUT / "summary.json.tmp"
        temporary.write_text(json.dumps(summary, indent=2) + "\n")
        temporary.replace(OUT / "summary.json")


# ---- the corpus ---------------------------------------------------------------------------------


def merge(target):
    """Returns the smallest inputs that reach code that no seed reaches, smallest first, or None if that fails."""
    merged, kept = OUT / "merged" / target, KEPT / target
    shutil.rmtree(merged, ignore_errors=True)
    shutil.copytree(OUT / "seeds" / target, merged)
    seeds = {path.name for path in files_of(merged)}
    kept.mkdir(parents=True, exist_ok=True)
    (OUT / "corpus" / target).mkdir(parents=True, exist_ok=True)
    # Without counters an input brings something new by where it goes, not by how often: far fewer inputs stay.
    done = subprocess.run([f"build/fuzz/fuzz_{target}", "-merge=1", "-use_counters=0", "-timeout=20", str(merged),
                           str(kept), str(OUT / "corpus" / target)], capture_output=True)
    if done.returncode != 0:
        print(f"{target}: the corpus could not be merged and stays as it is")
        return None
    return sorted((path for path in files_of(merged) if path.name not in seeds),
                  key=lambda path: (path.stat().st_size, path.name))


def minimise():
    """Makes the kept corpus anew. An input found-* is a fault that was mended: it stays."""
    merged = {target: merge(target) for target in targets()}
    wanted = {target: sum(path.stat().st_size for path in paths)
              for target, paths in merged.items() if paths is not None}
    left = KEPT_BYTES - sum(path.stat().st_size for target in targets() for path in files_of(KEPT / target)
                            if target not in wanted or path.name.startswith("found-"))
    # Who wants least is served first and leaves the rest to the others.
    for done, target in enumerate(sorted(wanted, key=wanted.get)):
        share = left // (len(wanted) - done)
        for path in files_of(KEPT / target):
            if not path.name.startswith("found-"):
                path.unlink()
        for path in merged[target]:
            share -= path.stat().st_size
            if share < 0:
                break
            shutil.copy(path, KEPT / target / path.name)
            left -= path.stat().st_size


def reached_lines(jobs):
    """Returns the lines of each folder of src/ that the seeds and the kept corpus reach."""
    make(*(f"build/coverage/replay_{target}" for target in targets()), jobs=jobs)
    for path in Path("build/coverage").rglob("*.gcda"):
        path.unlink()
    for target in targets():
        replay = [f"build/coverage/replay_{target}", str(OUT / "seeds" / target), str(KEPT / target)]
        if subprocess.run(replay, capture_output=True).returncode != 0:
            print(f"{' '.join(replay)} fails: the lines that it reaches are not counted")
    folders = {}
    for name, (lines, _) in coverage.collect(Path("build/coverage")).items():
        entry = folders.setdefault(str(Path(name).parent), {"lines": 0, "reached": 0})
        entry["lines"] += len(lines)
        entry["reached"] += sum(map(bool, lines.values()))
    return dict(sorted(folders.items()))


def print_lines(folders):
    total = {key: sum(entry[key] for entry in folders.values()) for key in ("lines", "reached")}
    print(f"\n{'lines that the corpus reaches':34} {'reached':>8} {'of':>8}")
    for name, entry in [*folders.items(), ("all", total)]:
        share = 100 * entry["reached"] / entry["lines"] if entry["lines"] else 100
        print(f"{name:34} {entry['reached']:8} {entry['lines']:8} {share:6.1f} %")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hours", type=float, default=8, help="of processor time (default: 8)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="pieces at a time (default: cores)")
    parser.add_argument("--only-fuzz", action="store_true", help="no sweeps and no targets campaign-*")
    arguments = parser.parse_args()
    os.chdir(ROOT)
    for folder in ("log", "found", "corpus"):
        (OUT / folder).mkdir(parents=True, exist_ok=True)
    make("native", "build/native/wisp", "build/native/wisp-refusing", "build/fuzz/seeds",
         *(f"build/native/tests/{name}" for name in SWEEPS), *(f"build/fuzz/fuzz_{target}" for target in targets()),
         jobs=arguments.jobs)
    shutil.rmtree(OUT / "seeds", ignore_errors=True)
    subprocess.run(["build/fuzz/seeds", str(OUT / "seeds")], check=True)
    campaign = Campaign(arguments.hours, arguments.jobs, arguments.only_fuzz)
    campaign.run()
    minimise()
    campaign.reached = reached_lines(arguments.jobs)
    print_lines(campaign.reached)
    campaign.write_summary()
    failures = campaign.failures()
    print(f"\n{campaign.spent / 3600:.2f} hours, "
          f"{sum(entry['executions'] for entry in campaign.fuzzed.values())} executions, {len(failures)} failures; "
          f"{OUT}/summary.json")
    for failure in failures:
        print(f"  {failure}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

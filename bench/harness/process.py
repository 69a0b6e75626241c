"""One runner as a process: started, asked and ended by lines of JSON."""

import json
import selectors
import subprocess
import time

from . import load, registry


# A runner is excluded after so many seconds without answer: the threads of some peers stall beside other load.
SILENCE_SECONDS = 120
CLOSING_SECONDS = 10


class RunnerError(Exception):
    """A runner answered with an error, or did not answer."""


class Process:
    """Starts a runner, whose standard error goes to build/bench/logs/."""

    def __init__(self, runner, texts):
        log = registry.REPO / f"build/bench/logs/{runner.name}.txt"
        log.parent.mkdir(parents=True, exist_ok=True)
        command = [resolve(word) for word in runner.command]
        if len(command) > 2:  # the calibration has no texts
            command += ["--texts", texts]
        self.started = time.monotonic()
        self.log = open(log, "w", encoding="utf-8")
        self.process = subprocess.Popen(command, cwd=registry.REPO, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=self.log, text=True, encoding="utf-8", bufsize=1)
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.process.stdout, selectors.EVENT_READ)

    @property
    def pid(self):
        return self.process.pid

    def ask(self, do, timeout=SILENCE_SECONDS, **more):
        """Sends a command and returns the answer."""
        try:
            self.process.stdin.write(json.dumps({"do": do, **more}) + "\n")
        except BrokenPipeError as error:
            raise RunnerError(f"ended before {do}") from error
        if not self.selector.select(timeout):
            raise RunnerError(f"{do}: no answer in {timeout} s")
        line = self.process.stdout.readline()
        if not line:
            raise RunnerError(f"ended during {do}, status {self.process.wait()}; see {self.log.name}")
        answer = json.loads(line)
        if "error" in answer:
            raise RunnerError(f"{do}: {answer['error']}")
        return answer

    def close(self):
        """Asks the runner to quit, and kills it if it does not."""
        try:
            self.process.stdin.write('{"do": "quit"}\n')
            self.process.stdin.close()
            self.process.wait(CLOSING_SECONDS)
        except (OSError, subprocess.TimeoutExpired):
            load.kill_tree(self.pid)
            self.process.wait()
        self.selector.close()
        self.process.stdout.close()
        self.log.close()


def resolve(word):
    """Replaces each word of a command that is a pattern by the file that it matches."""
    found = registry.files_of(word) if "*" in word else []
    return str(found[0]) if found else word

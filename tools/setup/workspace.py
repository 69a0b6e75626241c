"""Knows the layout of the .tools/ folder, and writes into it for recipes."""

import contextlib
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]
TOOLS = REPO / ".tools"
BIN = TOOLS / "bin"
TEMPORARY = TOOLS / "tmp"

SILENCE = 10  # seconds after which a step says that it still runs

# Wrappers find .tools relative to themselves, so that a moved or mounted checkout still works.
WRAPPER_HEAD = """\
#!/bin/sh
# Written by tools/setup.py.
self=$0
[ -L "$self" ] && self=$(readlink -f "$self")
tools=$(CDPATH= cd -- "${self%/*}/.." && pwd -P)
"""


class SetupError(Exception):
    """A step failed. Holds the step and the reason, in words for the user."""


def say(text):
    print(f"setup: {text}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def step(what):
    """Prints on stderr when a step begins, every ten seconds while it runs, and when it ends: the details that the body
    adds to the list, and the seconds."""
    say(f"{what} ...")
    start = time.monotonic()
    ended = threading.Event()
    details = []

    def report():
        while not ended.wait(SILENCE):
            say(f"{what}, {time.monotonic() - start:.0f} s so far")

    reporter = threading.Thread(target=report, daemon=True)
    reporter.start()
    try:
        yield details
    except BaseException:
        say(f"{what} failed")
        raise
    finally:
        ended.set()
        reporter.join()
    say(", ".join([f"{what}: done", *details, f"{time.monotonic() - start:.1f} s"]))


def run(command, cwd=None, env=None):
    """Runs a command and returns its standard output; `env` holds additions to the environment."""
    words = [str(word) for word in command]
    try:
        done = subprocess.run(words, cwd=cwd, env={**os.environ, **(env or {})}, text=True, errors="replace",
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    except OSError as error:
        raise SetupError(f"{words[0]} cannot be run: {error.strerror}") from error
    if done.returncode != 0:
        lines = (done.stdout + done.stderr).strip().splitlines()
        if len(lines) > 20:
            lines[8:-12] = ["..."]
        said = "\n".join(lines)
        raise SetupError(f"this command ended with status {done.returncode}: {' '.join(words)}\n{said}")
    return done.stdout


def version_of(program):
    """Returns the version that the program prints, or nothing if it does not run."""
    try:
        return run([program, "--version"])
    except SetupError:
        return ""


def system_program(*names):
    """Returns the first of these programs on PATH that is not a wrapper of ours."""
    folders = [folder for folder in os.environ.get("PATH", "").split(os.pathsep)
               if folder and Path(folder).resolve() != BIN]
    for name in names:
        found = shutil.which(name, path=os.pathsep.join(folders))
        if found:
            return os.path.abspath(found)
    return None


def clear_temporary():
    """Removes the files that a killed run left behind."""
    shutil.rmtree(TEMPORARY, ignore_errors=True)


@contextlib.contextmanager
def temporary_folder(name):
    """Gives an empty folder and removes it afterwards."""
    folder = TEMPORARY / name
    folder.mkdir(parents=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def building(name):
    """Gives a temporary folder that becomes .tools/NAME once the body has run to its end."""
    with temporary_folder(name) as folder:
        yield folder
        shutil.rmtree(TOOLS / name, ignore_errors=True)
        folder.rename(TOOLS / name)


def scratch():
    """Gives a temporary folder for trying a tool out."""
    return temporary_folder("scratch")


def write_program(path, text):
    """Writes an executable file in one step, so that nobody runs half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(text, encoding="utf-8")
    temporary.chmod(0o755)
    temporary.replace(path)


def write_wrapper(name, body):
    """Makes .tools/bin/NAME; the shell text `body` finds the .tools folder in $tools."""
    write_program(BIN / name, WRAPPER_HEAD + body)


def wrap_system_program(name, path):
    """Makes .tools/bin/NAME run a program of the system."""
    write_wrapper(name, f'exec "{path}" "$@"\n')


def wrap_private_program(name, program, libraries, setup=""):
    """Makes .tools/bin/NAME run .tools/PROGRAM with libraries from the folders .tools/LIBRARIES."""
    folders = ":".join(f"$tools/{folder}" for folder in libraries)
    write_wrapper(name, f'{setup}LD_LIBRARY_PATH="{folders}${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}" '
                        f'exec "$tools/{program}" "$@"\n')

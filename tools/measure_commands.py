#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures the commands of README.md from a fresh clone with an empty HOME: wall time, processor time, bytes fetched, and
the longest time without output. Prints a table.

    tools/measure_commands.py                      make, make demo (twice), make test, on all cores
    tools/measure_commands.py --cores 1            the same on one core
    tools/measure_commands.py --only ci            .ci/run; also: make, demo, again, test

Uncommitted changes take no part. Bytes are those of all network interfaces but the loopback,
so nothing else may use the network, or the processor, meanwhile.
"""

import argparse
import os
import resource
import selectors
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

REPO = Path(__file__).resolve().parents[1]

# Each begins in the clone as the one before left it, but for those that need a fresh one.
COMMANDS = {
    "make": (["make"], True),
    "demo": (["make", "demo"], True),
    "again": (["make", "demo"], False),
    "test": (["make", "test"], True),
    "ci": ([".ci/run"], True),
}
USUAL = ("make", "demo", "again", "test")

# Of the caller's variables only those that say how to reach the network.
KEPT = ("SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "PIP_CERT", "PIP_INDEX_URL",
        "http_proxy", "https_proxy", "no_proxy", "WISP_SHARED")


def received():
    """Returns the bytes that came over the network."""
    lines = Path("/proc/net/dev").read_text(encoding="utf-8").splitlines()[2:]
    return sum(int(line.split(":")[1].split()[0]) for line in lines if line.split(":")[0].strip() != "lo")


def processor_seconds():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def watch(process):
    """Passes on what the process prints. Returns the longest time without any, and the line before it."""
    selector = selectors.DefaultSelector()
    selector.register(process.stdout, selectors.EVENT_READ)
    longest, last, line = (0.0, ""), time.monotonic(), ""
    while selector.select():
        data = os.read(process.stdout.fileno(), 1 << 16)
        now = time.monotonic()
        longest, last = max(longest, (now - last, line)), now
        if not data:
            return longest
        line = data.decode(errors="replace").rstrip().rpartition("\n")[2].strip()
        sys.stderr.buffer.write(data)
        sys.stderr.flush()
    return longest


def measure(command, folder, home):
    environment = {"HOME": str(home), "PATH": "/usr/local/bin:/usr/bin:/bin", "TERM": "dumb", "LANG": "C.UTF-8",
                   **{name: os.environ[name] for name in KEPT if name in os.environ}}
    bytes_before, processor_before, start = received(), processor_seconds(), time.monotonic()
    with subprocess.Popen(command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT) as process:
        silence, line = watch(process)
        status = process.wait()
    return (time.monotonic() - start, processor_seconds() - processor_before, (received() - bytes_before) / 1e6, silence,
            line, status)


def clone(scratch):
    folder = scratch / "wisp"
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run(["git", "clone", "--quiet", REPO, folder], check=True)
    return folder


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cores", type=int, help="how many to use")
    parser.add_argument("--only", action="append", choices=COMMANDS, help="measure this one; may be given again")
    arguments = parser.parse_args()
    if arguments.cores:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:arguments.cores])
    rows, failed = [], 0
    with tempfile.TemporaryDirectory(prefix="wisp-commands-") as name:
        scratch = Path(name)
        folder = None
        for key in arguments.only or USUAL:
            command, needs_fresh = COMMANDS[key]
            if needs_fresh or not folder:
                folder = clone(scratch)
            home = scratch / f"home-{key}"
            home.mkdir()
            row = measure(command, folder, home)
            rows.append((" ".join(command) + (" again" if key == "again" else ""), *row))
            failed += row[-1] != 0
    print(f"| command, on {len(os.sched_getaffinity(0))} cores | seconds | processor | MB fetched | longest silence | after "
          "the line | status |")
    print("|---|---|---|---|---|---|---|")
    for what, wall, processor, megabytes, silence, line, status in rows:
        print(f"| {what} | {wall:.0f} | {processor:.0f} | {megabytes:.0f} | {silence:.0f} | {line} | {status} |")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

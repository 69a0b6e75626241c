#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Embeds texts natively with ever less memory, and looks from outside at what that costs.

    python3 bench/cold/memory.py MODEL TEXTS [--predictor auto] [--shares 0.5,0.3] [--budgets 3000000000] [--no-all] [--url] [--json FILE]

Each run is `wisp embed -t 1 --predictor lowrank`, or with another predictor: all of the model, all with cold neurons read when they are needed, and
budgets that are shares of the model's bytes (--shares) or bytes. With --url a server of this machine sends the model, and
each run has a cache of its own, empty at first. Prints processor time (the machine may have other work),
resident memory as the system counts it, and whether the embeddings have the bits of the first run."""

import argparse
import hashlib
import json
import os
import re
import subprocess
import tempfile
import threading
import time
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]
POLL_SECONDS = 0.01


def status(pid):
    text = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    return {name: 1024 * int(found[1]) for name in ("VmHWM", "RssAnon")
            if (found := re.search(rf"^{name}:\s+(\d+) kB", text, re.M))}


SERVER = """
const { serveRanges } = await import(process.argv[2]);
const { readFileSync } = await import('node:fs');
console.log((await serveRanges(readFileSync(process.argv[1]))).url);
"""


def serve(model):
    command = ["node", "--input-type=module", "-e", SERVER, model, REPO / "tests/js/range-server.mjs"]
    server = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, text=True)
    return server, server.stdout.readline().strip()


def run(model, texts, *options):
    with tempfile.TemporaryDirectory() as cache:
        return run_with(cache, model, texts, *options)


def run_with(cache, model, texts, *options):
    command = [REPO / "build/wisp", "embed", "-t", "1", "-m", model, "--format", "f32", "--stats", *options, texts]
    most = {"VmHWM": 0, "RssAnon": 0}
    digest, errors = hashlib.sha256(), []
    begin = time.monotonic()
    child = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             env={**os.environ, "WISP_CACHE": cache})
    thread = threading.Thread(target=lambda: errors.append(child.stderr.read().decode()))
    thread.start()
    reader = threading.Thread(target=lambda: [digest.update(part) for part in iter(lambda: child.stdout.read(65536), b"")])
    reader.start()
    while True:
        pid, code, usage = os.wait4(child.pid, os.WNOHANG)
        if pid:
            break
        try:
            for name, value in status(child.pid).items():
                most[name] = max(most[name], value)
        except (FileNotFoundError, ProcessLookupError):
            pass
        time.sleep(POLL_SECONDS)
    child.returncode = os.waitstatus_to_exitcode(code)
    thread.join()
    reader.join()
    stats = errors[0]
    if child.returncode != 0:
        return {"options": [str(word) for word in options], "refused": stats.strip()}
    cold = re.search(r"^neurons in memory: (.*)$", stats, re.M)
    return {"options": [str(word) for word in options], "wall": time.monotonic() - begin,
            "embedding": float(re.search(r"tokens in ([\d.]+) s", stats)[1]),
            "user": usage.ru_utime, "system": usage.ru_stime, "maxrss": 1024 * usage.ru_maxrss, **most,
            "cold": cold[1] if cold else "", "sha256": digest.hexdigest()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("texts")
    parser.add_argument("--predictor", default="lowrank")
    parser.add_argument("--shares", default="0.5,0.3")
    parser.add_argument("--budgets", default="")
    parser.add_argument("--no-all", action="store_true", help="leave out the runs without a budget")
    parser.add_argument("--url", action="store_true", help="the program gets the model from a server")
    parser.add_argument("--json")
    options = parser.parse_args()
    size = os.path.getsize(options.model)
    budgets = [int(float(share) * size) for share in options.shares.split(",") if share]
    budgets += [int(budget) for budget in options.budgets.split(",") if budget]
    plans = [] if options.no_all else [("all", 0, ["--cold", "all"]), ("wait", 0, ["--cold", "wait"])]
    plans += [(f"wait, {budget / 1e6:.1f} MB ({100 * budget / size:.0f} %)", budget,
               ["--cold", "wait", "--memory", str(budget)]) for budget in budgets]
    load = os.getloadavg()[0]
    server, model = serve(options.model) if options.url else (None, options.model)
    rows = [{"name": name, "budget": budget,
             **run(model, options.texts, "--predictor", options.predictor, *more)} for name, budget, more in plans]
    if server:
        server.terminate()
    print(f"{Path(options.model).name}, {size / 1e6:.1f} MB; load {load:.1f} to {os.getloadavg()[0]:.1f}\n")
    print("| run | processor, s | of the first | VmHWM, MB | RssAnon, MB | over the budget, MB | same bits |\n"
          "|---|---|---|---|---|---|---|")
    first = rows[0]
    for row in rows:
        if "refused" in row:
            print(f"| {row['name']} | refused: {row['refused']} | | | | | |")
            continue
        cpu, base = row["user"] + row["system"], first["user"] + first["system"]
        over = f"{(row['VmHWM'] - row['budget']) / 1e6:.1f}" if row["budget"] else ""
        print(f"| {row['name']} | {cpu:.2f} | {cpu / base:.2f}x | {row['VmHWM'] / 1e6:.1f} | {row['RssAnon'] / 1e6:.1f} | "
              f"{over} | {'yes' if row['sha256'] == first['sha256'] else 'NO'} |")
    for row in rows[1:]:
        if row.get("cold"):
            print(f"\n{row['name']}: {row['cold']}")
    if options.json:
        Path(options.json).write_text(json.dumps({"model": options.model, "bytes": size, "load": load, "runs": rows},
                                                 indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

"""Measures the processor time and memory of a runner with all its processes, and of the rest of the machine."""

import contextlib
import os
import signal
import time
from pathlib import Path

from .energy import Meter

TICKS = os.sysconf("SC_CLK_TCK")


def read(path):
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""  # the process has ended


def machine_seconds():
    """Returns the processor seconds since boot: those used here, and those the hypervisor gave to others."""
    fields = [int(word) for word in read("/proc/stat").split("\n", 1)[0].split()[1:]]
    user, nice, system, _idle, _wait, irq, softirq, steal = fields[:8]
    return (user + nice + system + irq + softirq) / TICKS, steal / TICKS


def read_processes():
    """Returns {pid: (parent, ticks)}. Ticks include those of children that have ended."""
    processes = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            fields = read(f"/proc/{name}/stat").rpartition(") ")[2].split()
            if len(fields) > 14:
                processes[int(name)] = int(fields[1]), sum(map(int, fields[11:15]))
    return processes


def tree_of(pid, processes):
    """Returns a process and all its descendants."""
    tree = [pid]
    for ancestor in tree:
        tree += [child for child, (parent, _) in processes.items() if parent == ancestor]
    return [member for member in tree if member in processes]


def tree_seconds(pid):
    """Returns the processor seconds of a process and all its descendants."""
    processes = read_processes()
    return sum(processes[member][1] for member in tree_of(pid, processes)) / TICKS


def kill_tree(pid):
    """Kills a process and its descendants, because a browser can outlive the program that drives it."""
    for member in tree_of(pid, read_processes()):
        with contextlib.suppress(ProcessLookupError):
            os.kill(member, signal.SIGKILL)


class Watch:
    """Measures the cores used by a process tree, by others, and by the hypervisor, while a with body runs; and the watts
    of the whole machine, None if its energy cannot be read."""

    def __init__(self, pid):
        self.pid = pid

    def sample(self):
        return (time.monotonic(), *machine_seconds(), tree_seconds(self.pid))

    def __enter__(self):
        self.meter = Meter()
        self.first = self.sample()
        return self

    def __exit__(self, *_):
        joules = self.meter.joules()
        wall, used, stolen, own = (b - a for a, b in zip(self.first, self.sample()))
        self.cores = {"own": round(own / wall, 2), "others": round(max(0.0, used - own) / wall, 2),
                      "stolen": round(stolen / wall, 2)}
        self.watts = None if joules is None else round(joules / wall, 2)


def memory_mb(pids):
    """Returns the resident megabytes of the processes now, and the sum of their peaks."""
    def total(field):
        lines = [line for pid in pids for line in read(f"/proc/{pid}/status").split("\n") if line.startswith(field)]
        return round(sum(int(line.split()[1]) for line in lines) * 1024 / 1e6, 1)
    return {"resident": total("VmRSS:"), "peak": total("VmHWM:")}


def available_mb():
    line = next(line for line in read("/proc/meminfo").split("\n") if line.startswith("MemAvailable"))
    return int(line.split()[1]) * 1024 / 1e6

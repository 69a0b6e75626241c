"""Describes the circumstances of a run: the processor, the system, the compiler, and the version of wisp."""

import os
import platform
import subprocess

from . import energy, load, registry

# The engines have code for these instructions.
FEATURES = ("avx2", "fma", "f16c", "avx_vnni", "avx512f", "avx512bw", "avx512vl", "avx512_vnni", "avx512_bf16",
            "avx512_fp16", "amx_tile", "amx_int8", "amx_bf16", "asimd", "asimddp", "i8mm", "bf16", "sve")


def field(text, *names):
    """Returns the value of the first line 'NAME : VALUE' with one of the names."""
    for line in text.split("\n"):
        name, _, value = line.partition(":")
        if name.strip() in names:
            return value.strip()
    return ""


def output(*command):
    try:
        done = subprocess.run(command, cwd=registry.REPO, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    except OSError:
        return ""
    return done.stdout.strip()


def system_name():
    for line in load.read("/etc/os-release").split("\n"):
        if line.startswith("PRETTY_NAME="):
            return line.partition("=")[2].strip('"')
    return platform.system()


def describe():
    cpu = load.read("/proc/cpuinfo")
    flags = field(cpu, "flags", "Features").split()
    meter = energy.Meter()
    memory = int(field(load.read("/proc/meminfo"), "MemTotal").split()[0]) * 1024 / 1e9
    return {
        "cpu": field(cpu, "model name") or platform.machine(),
        "family": f"{field(cpu, 'cpu family')}/{field(cpu, 'model')}/{field(cpu, 'stepping')}",
        "features": [name for name in FEATURES if name in flags],
        "virtual": "hypervisor" in flags,
        "cores": os.cpu_count(),
        "memory_gb": round(memory, 1),
        "energy": meter.reason if not meter.packages else "",
        "system": system_name(),
        "kernel": platform.release(),
        "compiler": output("gcc", "--version").split("\n")[0],
        "python": platform.python_version(),
        "node": output("node", "--version"),
        "load_average": os.getloadavg(),
    }


def wisp_version():
    changed = output("git", "status", "--porcelain", "--", "src", "wasm", "js", "Makefile")
    return {"commit": output("git", "rev-parse", "--short", "HEAD"), "changed": bool(changed)}

#!/usr/bin/env python3
"""Makes what the benchmark needs, in build/bench/, bench/node_modules/ and .tools/, without touching the system.

  wisp    the texts, wisp's model files, its stripped library (after `make native wasm`)
  python  the peers of requirements.txt, in .tools/bench-python (6 GB: PyTorch brings its CUDA libraries)
  onnx    the model for onnxruntime and transformers.js
  node    the peers of package.json, in bench/node_modules (1.4 GB: node-llama-cpp brings its CUDA libraries)
  browser headless Chromium and Firefox, by tools/setup.py

Without a name: all of them. Run again at any time: what is there and current is kept.
"""

import argparse
import hashlib
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

sys.dont_write_bytecode = True  # keeps __pycache__ out of the checkout

BENCH = Path(__file__).resolve().parent
REPO = BENCH.parent
OUT = REPO / "build/bench"
MODEL = Path(os.environ.get("WISP_SHARED", REPO.parent / "shared")) / "models/all-MiniLM-L6-v2"
PEERS = REPO / ".tools/bench-python"


class SetUpError(Exception):
    """A requirement is missing; the message says how to provide it."""


def run(*command, **more):
    print(f"bench set-up: {' '.join(str(word).replace(f'{REPO}/', '') for word in command)}", file=sys.stderr)
    subprocess.run([str(word) for word in command], cwd=more.pop("cwd", REPO), check=True, **more)


def tool(*names):
    run(sys.executable, REPO / "tools/setup.py", *names)


def is_current(output, *inputs):
    return output.exists() and all(output.stat().st_mtime >= path.stat().st_mtime for path in inputs)


def need(path, how):
    if not path.exists():
        raise SetUpError(f"there is no {path.relative_to(REPO) if path.is_relative_to(REPO) else path}: {how}")


def set_up_wisp():
    program = REPO / "build/wisp"
    need(MODEL / "model.safetensors", "set WISP_SHARED to the folder that has models/ and data/")
    need(program, "run make native wasm")
    OUT.mkdir(parents=True, exist_ok=True)
    if not is_current(OUT / "texts/workloads.json", BENCH / "cut_workloads.py"):
        tool("python")
        run(REPO / ".tools/bin/python", BENCH / "cut_workloads.py")
    for kind in ("f32", "q8_0", "q4_0"):
        if not is_current(OUT / f"minilm-{kind}.gguf", program):
            run(program, "convert", MODEL, OUT / f"minilm-{kind}.gguf", "--type", kind)
    if not is_current(OUT / "libwisp.so", REPO / "build/libwisp.so"):
        run("strip", "-o", OUT / "libwisp.so", REPO / "build/libwisp.so")


def install_with_debians_pip(python, requirements):
    """Installs the requirements for a Python that lacks pip, with the wheel in Debian's package of pip."""
    sys.path.insert(0, str(REPO / "tools"))
    apt, prefix, workspace = (importlib.import_module(f"setup.{name}") for name in ("apt", "prefix", "workspace"))
    with workspace.scratch() as folder:
        prefix.unpack(apt.fetch_debs(None, ["python3-pip-whl"], assumed=".*"), folder)
        wheel = next(folder.glob("usr/share/python-wheels/pip-*.whl"))
        run(python, wheel / "pip", "install", "--quiet", "--require-hashes", "-r", requirements)


def install(folder, requirements):
    """Installs packages in an environment of their own. Writes the stamp last, so that an interrupted run starts again."""
    stamp = folder / "requirements.sha256"
    digest = hashlib.sha256(requirements.read_bytes()).hexdigest()
    if stamp.exists() and stamp.read_text(encoding="utf-8") == digest:
        return
    python = folder / "bin/python"
    run(sys.executable, "-m", "venv", "--clear", "--without-pip", folder)
    if importlib.util.find_spec("ensurepip"):
        run(python, "-m", "ensurepip", stdout=subprocess.DEVNULL)
        run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes", "-r", requirements)
    else:
        install_with_debians_pip(python, requirements)
    stamp.write_text(digest, encoding="utf-8")


def set_up_python():
    install(PEERS, BENCH / "requirements.txt")


def set_up_onnx():
    set_up_python()
    need(MODEL / "model.safetensors", "set WISP_SHARED to the folder that has models/ and data/")
    if not is_current(OUT / "onnx/config.json", BENCH / "export_onnx.py"):
        run(PEERS / "bin/python", BENCH / "export_onnx.py", MODEL, OUT / "onnx")


def set_up_node():
    """Installs packages without running their scripts, because they bring libraries for this machine."""
    if not is_current(BENCH / "node_modules/.package-lock.json", BENCH / "package-lock.json"):
        run("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--cache", REPO / ".tools/npm-cache", cwd=BENCH)


PARTS = {"wisp": set_up_wisp, "python": set_up_python, "onnx": set_up_onnx, "node": set_up_node,
         "browser": lambda: tool("chromium", "firefox")}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help="what to make (default: all)")
    names = parser.parse_args().parts or list(PARTS)
    unknown = [name for name in names if name not in PARTS]
    if unknown:
        parser.error(f"no such part: {', '.join(unknown)} (there are {', '.join(PARTS)})")
    for name in names:
        try:
            PARTS[name]()
        except (SetUpError, OSError, subprocess.CalledProcessError) as error:
            print(f"bench set-up: {name}: {error}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

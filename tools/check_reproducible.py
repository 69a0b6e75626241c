#!/usr/bin/env python3
"""Builds a copy of this tree in another folder, and compares what is shipped with what stands built in the tree.

The program, both libraries, the WebAssembly modules and the npm package must have the same bytes: then anyone can check
that a published file is what these sources make. Uncommitted changes of tracked files take part. Untracked files, and
flags that only the tree was built with, are found as differences.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

REPO = Path(__file__).resolve().parents[1]
SHIPPED = ("build/wisp", "build/libwisp.a", "build/libwisp.so", "js/wisp-simd128.wasm", "js/wisp-relaxed.wasm",
           "js/wisp-generate-simd128.wasm", "js/wisp-generate-relaxed.wasm",
           "js/wisp-threads-simd128.wasm", "js/wisp-threads-relaxed.wasm", "js/wisp-embed-threads-simd128.wasm",
           "js/wisp-embed-threads-relaxed.wasm", "js/wisp-encoders-simd128.wasm", "js/wisp-encoders-relaxed.wasm",
           "js/wisp-udf-simd128.wasm", "js/wisp-udf-relaxed.wasm", "js/wisp-languages.wasm", "js/wisp-convert.wasm",
           "js/wisp-program.wasm")

# The copy differs in all that must not matter: the path, the time, the time zone, the language and the mode of files.
FOLDER, ENVIRONMENT, MASK = "another/place", {"TZ": "Asia/Tokyo", "LC_ALL": "C.UTF-8", "CCACHE_DISABLE": "1"}, 0o077


def copy_tree(folder):
    """Copies the tracked files, with times of their own, and links to the tools."""
    names = subprocess.run(["git", "ls-files", "-z"], cwd=REPO, check=True, stdout=subprocess.PIPE).stdout.decode()
    for name in filter(None, names.split("\0")):
        source, target = REPO / name, folder / name
        if source.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
            target.chmod(0o755 if os.access(source, os.X_OK) else 0o644)
    for tools in (".tools", "node_modules"):
        (folder / tools).symlink_to((REPO / tools).resolve())


def build(folder):
    """Builds all that is shipped."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("npm_", "MAKE", "MFLAGS"))}
    run = {"cwd": folder, "env": {**variables, **ENVIRONMENT}, "check": True, "umask": MASK, "stdout": subprocess.DEVNULL}
    subprocess.run(["make", "-j2", "native", "wasm"], **run)
    subprocess.run(["make", "package"], **run)


def shipped(folder):
    """Returns the files that are shipped by name, each as (size, digest)."""
    files = [*(folder / name for name in SHIPPED), *folder.glob("build/*.tgz")]
    return {file.name: (file.stat().st_size, hashlib.sha256(file.read_bytes()).hexdigest()) for file in files}


def main():
    here = shipped(REPO)
    with tempfile.TemporaryDirectory(prefix="wisp-reproducible-") as scratch:
        folder = Path(scratch) / FOLDER
        folder.mkdir(parents=True)
        copy_tree(folder)
        build(folder)
        there = shipped(folder)
    for name in sorted(here.keys() | there.keys()):
        own, other = here.get(name), there.get(name)
        print(f"{name}: {own[0]} bytes, sha256 {own[1]}" if own == other else f"{name}: differs: {own} and {other}")
    return 0 if here == there else 1


if __name__ == "__main__":
    sys.exit(main())

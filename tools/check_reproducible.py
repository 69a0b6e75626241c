#!/usr/bin/env python3
"""Builds this tree twice, in folders of different names and one after the other, and compares what is shipped.

The program, both libraries, the WebAssembly modules and the npm package must have the same bytes: then anyone can check
that a published file is what these sources make. Uncommitted changes of tracked files take part, untracked files do not.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

REPO = Path(__file__).resolve().parents[1]
SHIPPED = ("build/wisp", "build/libwisp.a", "build/libwisp.so", "js/wisp-simd128.wasm", "js/wisp-relaxed.wasm",
           "js/wisp-generate-simd128.wasm", "js/wisp-generate-relaxed.wasm",
           "js/wisp-threads-simd128.wasm", "js/wisp-threads-relaxed.wasm", "js/wisp-embed-threads-simd128.wasm",
           "js/wisp-embed-threads-relaxed.wasm", "js/wisp-convert.wasm", "js/wisp-program.wasm")

# The builds differ in all that must not matter: the path, the time, the time zone, the language and the mode of files.
BUILDS = (("one", {"TZ": "UTC", "LC_ALL": "C"}, 0o022),
          ("another/place", {"TZ": "Asia/Tokyo", "LC_ALL": "C.UTF-8"}, 0o077))


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


def build(folder, environment, mask):
    """Builds all that is shipped. Returns its files by name, each as (size, digest)."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("npm_", "MAKE", "MFLAGS"))}
    run = {"cwd": folder, "env": {**variables, **environment, "CCACHE_DISABLE": "1"}, "check": True, "umask": mask,
           "stdout": subprocess.DEVNULL}
    subprocess.run(["make", "-j2", "native", "wasm"], **run)
    subprocess.run(["make", "package"], **run)
    files = [*(folder / name for name in SHIPPED), *folder.glob("build/*.tgz")]
    return {file.name: (file.stat().st_size, hashlib.sha256(file.read_bytes()).hexdigest()) for file in files}


def main():
    results = []
    with tempfile.TemporaryDirectory(prefix="wisp-reproducible-") as scratch:
        for name, environment, mask in BUILDS:
            folder = Path(scratch) / name
            folder.mkdir(parents=True)
            copy_tree(folder)
            results.append(build(folder, environment, mask))
            time.sleep(2)  # archives count time in seconds or in two
    good = results[0].keys() == results[1].keys()
    for name, (size, digest) in results[0].items():
        same = results[1].get(name) == (size, digest)
        good = good and same
        print(f"{name}: {size} bytes, sha256 {digest}" if same else f"{name}: differs: {results[0][name]} and "
                                                                   f"{results[1].get(name)}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())

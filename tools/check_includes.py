#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that includes form no circle and that each folder includes only folders below it.

The program in src/cli is a user of the library: it includes wisp.h, its own headers, and the
general tools of base/, host/ and http/, which know nothing of models.

A module is a header and the .c file of its name: if ffn.c includes recall.h, then neither recall.h
nor recall.c may include ffn.h. docs/architecture.md has the order of the folders.
"""

import re
import sys
from pathlib import Path

# Lists folders from the bottom up. A folder may include itself and the folders before it in this
# list. All may include src/wisp.h.
ORDER = [
    "base",
    "host",
    "http",
    "quant",
    "kernels",
    "formats",
    "huggingface",
    "text",
    "weights",
    "layers",
    "attention",
    "sparse",
    "models",
    "engine",
    "binding",
    "node",
    "native",
    "index",
    "convert",
    "calibrate",
]
CLI_MAY_INCLUDE = {"cli", "base", "host", "http"}
INCLUDE = re.compile(r'^\s*#include "([^"]+)"', re.MULTILINE)


def folder_of(path: str) -> str:
    return path.split("/")[0] if "/" in path else ""


def read_modules(src: Path) -> dict[str, set[str]]:
    """Returns the modules that each module includes. A module is a path without its extension."""
    modules: dict[str, set[str]] = {}
    for file in sorted(src.rglob("*.[ch]")):
        name = file.relative_to(src).with_suffix("").as_posix()
        included = INCLUDE.findall(file.read_text())
        modules.setdefault(name, set()).update(i.removesuffix(".h") for i in included)
    for name, included in modules.items():
        included.discard(name)
    return modules


def find_circles(modules: dict[str, set[str]]) -> list[list[str]]:
    """Returns groups of modules that all include each other, perhaps indirectly (Tarjan's algorithm)."""
    circles: list[list[str]] = []
    index: dict[str, int] = {}
    lowest: dict[str, int] = {}
    path: list[str] = []

    def visit(name: str) -> None:
        index[name] = lowest[name] = len(index)
        path.append(name)
        for other in sorted(modules.get(name, ())):
            if other not in index:
                visit(other)
                lowest[name] = min(lowest[name], lowest[other])
            elif other in path:
                lowest[name] = min(lowest[name], index[other])
        if lowest[name] == index[name]:
            circle = path[path.index(name) :]
            del path[path.index(name) :]
            if len(circle) > 1:
                circles.append(circle)

    for name in sorted(modules):
        if name not in index:
            visit(name)
    return circles


def wrong_layers(modules: dict[str, set[str]]) -> list[str]:
    wrong = []
    for name, included in sorted(modules.items()):
        folder = folder_of(name)
        for other in sorted(included):
            below = folder_of(other)
            if folder == "cli":
                good = other == "wisp" or below in CLI_MAY_INCLUDE
            elif folder == "":
                good = False
            else:
                good = other == "wisp" or ORDER.index(below) <= ORDER.index(folder)
            if not good:
                wrong.append(f"src/{name} includes {other}.h")
    return wrong


def main() -> int:
    modules = read_modules(Path(__file__).resolve().parent.parent / "src")
    problems = wrong_layers(modules)
    for circle in find_circles(modules):
        problems.append("includes form a circle: " + ", ".join(sorted(circle)))
    for problem in problems:
        print(f"check_includes: {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that includes form no circle and that each folder includes only folders below it.

It also checks that architectures are named where they are computed, and nowhere else.

The program in src/cli is a user of the library: it includes wisp.h, its own headers, and the
general tools of base/, host/, http/ and images/, which know nothing of models.

A module is a header and the .c file of its name: if ffn.c includes recall.h, then neither recall.h
nor recall.c may include ffn.h. The same holds for imports of the scripts in js/, each of which is a
module; types of comments do not count. docs/architecture.md has the order of the folders.
"""

import re
import sys
from pathlib import Path

# Lists folders from the bottom up. A folder may include itself and the folders before it in this
# list. All may include src/wisp.h, which alone includes the headers of src/wisp.
ORDER = [
    "base",
    "host",
    "windows",
    "http",
    "images",
    "serve",
    "quant",
    "kernels",
    "formats",
    "huggingface",
    "text",
    "tokenizers",
    "grammar",
    "schema",
    "jinja",
    "prompt",
    "chat",
    "weights",
    "layers",
    "attention",
    "sparse",
    "models",
    "device",
    "engine",
    "products",
    "binding",
    "node",
    "native",
    "index",
    "convert",
    "calibrate",
    "quantise",
]
CLI_MAY_INCLUDE = {"cli", "base", "host", "http", "images", "serve"}
INCLUDE = re.compile(r'^\s*#include "([^"]+)"', re.MULTILINE)

# Folders of js/ from the bottom up. "" has the package's entries and worker scripts; the program is
# one of their users, and cli.js is its entry.
SCRIPT_ORDER = [
    "base",
    "files",
    "hub",
    "platform",
    "engine",
    "native",
    "calls",
    "ranges",
    "convert",
    "index",
    "text",
    "adapters",
    "",
    "program",
]
# Where an architecture's name may stand besides src/models. Importers write it into files, a page finds it in them before it
# loads a module, and the tokenizers and pre-tokenizers that files name are other things with some of the same names.
MAY_NAME_ARCHITECTURES = (
    "src/models/",
    "src/huggingface/",
    "src/tokenizers/",
    "src/formats/pretokenizers.c",
    "js/convert/",
    "js/hub/hub-architecture.js",
)
ARCHITECTURE = re.compile(r'^const struct architecture \w+ =[^;"]*"([^"]+)"', re.MULTILINE)
COMMENT = re.compile(r"/\*.*?\*/|^\s*//[^\n]*", re.MULTILINE | re.DOTALL)
IMPORT = re.compile(r"\b(?:from |import |import\(|require\()'(\.[^']+)'")


def folder_of(path: str) -> str:
    return path.split("/")[0] if "/" in path else ""


def read_modules(src: Path) -> dict[str, set[str]]:
    """Returns the modules that each module includes. A module is a path without its extension."""
    modules: dict[str, set[str]] = {}
    for file in sorted(src.rglob("*.[ch]")):
        name = file.relative_to(src).with_suffix("").as_posix()
        if name.startswith("kernels/cuda/"):  # a library of its own, that shares device/library.h with wisp
            continue
        headers = INCLUDE.findall(file.read_text())
        modules.setdefault(name, set()).update(header.removesuffix(".h") for header in headers)
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
                good = below == "wisp"
            elif folder == "wisp":
                good = False
            else:
                good = other == "wisp" or ORDER.index(below) <= ORDER.index(folder)
            if not good:
                wrong.append(f"src/{name} includes {other}.h")
    return wrong


def read_scripts(js: Path) -> dict[str, set[str]]:
    """Returns the scripts that each script imports."""
    scripts: dict[str, set[str]] = {}
    for file in sorted([*js.rglob("*.js"), *js.rglob("*.cjs")]):
        imported = IMPORT.findall(COMMENT.sub("", file.read_text()))
        paths = ((file.parent / name).resolve() for name in imported)
        scripts[file.relative_to(js).as_posix()] = {path.relative_to(js).as_posix() for path in paths}
    return scripts


def wrong_imports(scripts: dict[str, set[str]]) -> list[str]:
    def level(name: str) -> int:
        return SCRIPT_ORDER.index("program" if name == "cli.js" else folder_of(name))

    return [
        f"js/{name} imports {other}"
        for name, imported in sorted(scripts.items())
        for other in sorted(imported)
        if level(other) > level(name)
    ]


def named_architectures(root: Path) -> list[str]:
    models = (file.read_text() for file in sorted((root / "src/models").glob("*.c")))
    names = {name for text in models for name in ARCHITECTURE.findall(text)}
    literal = re.compile("[\"'](" + "|".join(sorted(map(re.escape, names))) + ")[\"']")
    files = [*root.glob("src/**/*.[ch]"), *root.glob("js/**/*.js"), *root.glob("python/wisp_engine/*.py")]
    paths = sorted(file.relative_to(root).as_posix() for file in files)
    return [
        f"{path} names the architecture {found}, which a field of struct architecture can say"
        for path in paths
        if not path.startswith(MAY_NAME_ARCHITECTURES)
        for found in literal.findall((root / path).read_text())
    ]


def main() -> int:
    root = Path(__file__).resolve().parent.parent
    modules = read_modules(root / "src")
    scripts = read_scripts(root / "js")
    problems = wrong_layers(modules) + wrong_imports(scripts) + named_architectures(root)
    for circle in find_circles(modules) + find_circles(scripts):
        problems.append("includes form a circle: " + ", ".join(sorted(circle)))
    for problem in problems:
        print(f"check_includes: {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())

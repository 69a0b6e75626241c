#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws docs/folders.svg: the folders of js/ and src/, and which of them include which.

    tools/draw_folders.py           writes the picture
    tools/draw_folders.py --check   fails if the picture is not that of today's includes

A folder stands one row above the highest folder that it includes. Lines are drawn to folders that are
not also reached through others, and none to base/, which all may include.
"""

import sys
from functools import cache
from pathlib import Path
from typing import NamedTuple

from check_includes import folder_of, read_modules, read_scripts

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs/folders.svg"
Graph = dict[str, set[str]]


class Place(NamedTuple):
    column: float
    colour: str


RUN, TEXT, FILES, MAKE, USERS = "#dbe9fb", "#e2f3df", "#fdf0d2", "#f3e0f3", "#eceff1"

# The column and colour of each folder. The row follows from the includes.
C_FOLDERS = {
    "cli": Place(0.25, USERS), "http": Place(0.62, FILES), "serve": Place(0, USERS), "node": Place(1.3, USERS),
    "binding": Place(1.85, USERS), "host": Place(1.3, FILES), "windows": Place(1.75, FILES), "images": Place(1.62, FILES),
    "native": Place(3.95, FILES),
    "huggingface": Place(2.65, FILES), "formats": Place(3.1, FILES), "quantise": Place(4.7, MAKE),
    "calibrate": Place(4.7, MAKE), "convert": Place(4.7, MAKE), "index": Place(2.95, MAKE), "engine": Place(4.9, RUN),
    "device": Place(4.7, RUN), "models": Place(4.6, RUN), "sparse": Place(4.6, RUN), "attention": Place(4.1, RUN),
    "layers": Place(4.75, RUN), "weights": Place(5.05, RUN), "kernels": Place(4.6, RUN), "quant": Place(4.6, RUN),
    "chat": Place(6.4, TEXT), "jinja": Place(7.3, TEXT), "tokenizers": Place(6.4, TEXT), "text": Place(6.8, TEXT),
    "grammar": Place(5.8, TEXT), "schema": Place(5.8, TEXT), "prompt": Place(7.3, TEXT), "products": Place(3.6, MAKE),
}
JS_FOLDERS = {
    "program": Place(0.95, USERS), "": Place(0.95, USERS), "convert": Place(3.05, MAKE), "ranges": Place(1.65, RUN),
    "calls": Place(2.15, RUN), "native": Place(3.25, RUN), "engine": Place(2.6, RUN), "platform": Place(2.2, RUN),
    "index": Place(1.5, MAKE), "hub": Place(2.2, FILES), "files": Place(2.2, FILES), "text": Place(0, TEXT),
    "adapters": Place(1.0, USERS),
}
WIDTH, HEIGHT, STEP, ROW, TOP = 86, 26, 93, 45, 58
JS_LEFT, C_LEFT = 20, 448
LINK = "stroke='#5c6bc0' stroke-width='1.6' fill='none' stroke-dasharray='5 4'"


def folders_of(modules: Graph, named: dict[str, str]) -> Graph:
    """Returns the folders that each folder includes, without base. `named` puts modules elsewhere."""

    def folder(module: str) -> str:
        return named.get(module, folder_of(module))

    graph: Graph = {}
    for module, included in modules.items():
        graph.setdefault(folder(module), set()).update(folder(other) for other in included)
    return {name: others - {name, "base"} for name, others in graph.items() if name != "base"}


class Panel:
    """The folders of one language, with their places in the picture."""

    def __init__(self, title: str, graph: Graph, places: dict[str, Place], left: int, top: int) -> None:
        if set(graph) != set(places):
            raise SystemExit(f"draw_folders: give a place, or none, to {sorted(set(graph) ^ set(places))} of {title}")
        self.title, self.graph, self.places, self.left, self.top = title, graph, places, left, top

        @cache
        def level(name: str) -> int:
            return 1 + max((level(other) for other in graph[name]), default=0)

        @cache
        def reached(name: str) -> frozenset[str]:
            return frozenset(graph[name]).union(*(reached(other) for other in graph[name]))

        self.level = {name: level(name) for name in graph}
        self.lines = [
            (name, other)
            for name in sorted(graph)
            for other in sorted(graph[name])
            if not any(other in reached(between) for between in graph[name] - {other})
        ]

    def raise_to_top(self, name: str) -> None:
        self.level[name] = 1 + max(self.level.values())

    def x(self, name: str) -> float:
        return self.left + self.places[name].column * STEP + WIDTH / 2

    def y(self, name: str, rows: int) -> float:
        return self.top + (rows - self.level[name]) * ROW

    def draw(self, rows: int) -> list[str]:
        parts = []
        for name, other in self.lines:
            x, y, to_x, to_y = self.x(name), self.y(name, rows) + HEIGHT, self.x(other), self.y(other, rows)
            bend = min(60.0, (to_y - y) / 2)
            parts.append(f"<path d='M{x:g} {y:g}C{x:g} {y + bend:g} {to_x:g} {to_y - bend:g} {to_x:g} {to_y:g}'/>")
        parts = ["<g stroke='#90a4ae' stroke-width='1.2' fill='none'>", *parts, "</g>"]
        for name, place in sorted(self.places.items()):
            x, y = self.x(name), self.y(name, rows)
            parts.append(f"<rect x='{x - WIDTH / 2:g}' y='{y:g}' width='{WIDTH}' height='{HEIGHT}' rx='5'"
                         f" fill='{place.colour}' stroke='#78909c'/>")
            parts.append(f"<text x='{x:g}' y='{y + 17.5:g}' text-anchor='middle'>{name or 'entries'}</text>")
        return parts


def picture() -> str:
    c_graph = folders_of(read_modules(ROOT / "src"), {})
    for headers in ("", "wisp"):  # wisp.h and its parts, which all may include
        c_graph.pop(headers, None)
        for others in c_graph.values():
            others.discard(headers)
    scripts = {name: used for name, used in read_scripts(ROOT / "js").items() if name.endswith(".js")}
    c = Panel("src", c_graph, C_FOLDERS, C_LEFT, TOP)
    c.raise_to_top("cli")  # it uses the library through wisp.h
    js = Panel("js", folders_of(scripts, {"cli.js": "program"}), JS_FOLDERS, JS_LEFT, TOP)
    rows = max(c.level.values())
    js_rows = max(js.level.values()) + 2
    bottom = TOP + rows * ROW
    right = int(C_LEFT + 8.25 * STEP) + 20
    middle = HEIGHT / 2
    parts = [f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {right} {bottom + 88}' font-family='Helvetica, Arial,"
             " sans-serif' font-size='13' fill='#263238'>", "<!-- Written by tools/draw_folders.py. -->",
             f"<rect width='{right}' height='{bottom + 88}' fill='#ffffff'/>",
             f"<text x='{JS_LEFT}' y='34' font-size='16' font-weight='bold'>js/ — the npm package</text>",
             f"<text x='{C_LEFT}' y='34' font-size='16' font-weight='bold'>src/ — the library and the program</text>"]
    parts += js.draw(js_rows) + c.draw(rows)
    # Not includes: an engine calls a WebAssembly module or the addon.
    for name, to, label in (("engine", "binding", "WebAssembly modules"), ("native", "node", "addon")):
        x, y = js.x(name) + WIDTH / 2, js.y(name, js_rows) + middle
        to_x, to_y = c.x(to) - WIDTH / 2, c.y(to, rows) + middle
        parts.append(f"<path d='M{x:g} {y:g}C{x + 70:g} {y:g} {to_x - 90:g} {to_y:g} {to_x:g} {to_y:g}' {LINK}/>")
        parts.append(f"<text x='{to_x - 8:g}' y='{to_y - 7:g}' text-anchor='end' fill='#3949ab' font-size='12'>{label}</text>")
    x, y = c.x("cli") + WIDTH / 2, c.y("cli", rows)
    left = c.x("binding") - WIDTH / 2
    parts.append(f"<path d='M{x:g} {y + middle:g}H{left:g}' {LINK}/>"
                 f"<rect x='{left:g}' y='{y:g}' width='{right - 20 - left:g}' height='{HEIGHT}' rx='5' fill='#e8eaf6'"
                 f" stroke='#5c6bc0'/><text x='{(left + right - 20) / 2:g}' y='{y + 17.5:g}' text-anchor='middle'>"
                 "wisp.h: the functions of the library</text>")
    for left, end, name in ((JS_LEFT, JS_LEFT + 4.1 * STEP, "js/base"), (C_LEFT, right - 20, "src/base and wisp.h")):
        parts.append(f"<rect x='{left}' y='{bottom}' width='{end - left:g}' height='{HEIGHT}' rx='5' fill='{USERS}'"
                     f" stroke='#78909c'/><text x='{(left + end) / 2:g}' y='{bottom + 17.5}' text-anchor='middle'>{name}:"
                     " may be included by all</text>")
    key = ((RUN, "computing"), (TEXT, "texts and tokens"), (FILES, "files"), (MAKE, "models and indexes that are made"),
           (USERS, "users of the rest"))
    x = JS_LEFT
    for colour, name in key:
        parts.append(f"<rect x='{x}' y='{bottom + 50}' width='16' height='16' rx='3' fill='{colour}' stroke='#78909c'/>"
                     f"<text x='{x + 24}' y='{bottom + 63}'>{name}</text>")
        x += 50 + 7 * len(name)
    return "\n".join([*parts, "</svg>"]) + "\n"


def main() -> int:
    drawn = picture()
    if "--check" not in sys.argv:
        PICTURE.write_text(drawn, encoding="utf-8")
    elif PICTURE.read_text(encoding="utf-8") != drawn:
        print("draw_folders: docs/folders.svg is not that of today's includes: run tools/draw_folders.py", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Draws the comparison as SVG: plot.py REPORT.json FOLDER. One picture a group: bars of W1, W2 and the latency of one
short text for wisp's int8 and each peer. Colours follow the reader's light or dark setting."""

import html
import json
import sys
from pathlib import Path

sys.dont_write_bytecode = True  # keeps __pycache__ out of the checkout

from harness import files, table  # noqa: E402

PANELS = (("W1", "sentences a second"), ("W2", "passages, tokens a second"),
          ("W3-1x16", "one text of 16 tokens: milliseconds, shorter is better"))
TITLES = {"native": "Native", "javascript": "Node and Chromium", "firefox": "Firefox"}
WIDTH, NAMES, VALUES, ROW, BAR, TOP, GAP = 760, 230, 110, 22, 15, 44, 46

STYLE = """\
text { font: 13px system-ui, sans-serif; fill: #1f2328; }
.title { font-size: 16px; font-weight: 600; }
.panel { font-weight: 600; }
.value { font-size: 12px; fill: #59636e; }
.wisp { fill: #0b6bcb; }
.peer { fill: #9aa4af; }
.spread { stroke: #1f2328; stroke-width: 1; }
.ground { fill: #ffffff; }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3; }
  .value { fill: #9aa4af; }
  .wisp { fill: #4c9df3; }
  .peer { fill: #59636e; }
  .spread { stroke: #e6edf3; }
  .ground { fill: #0d1117; }
}"""


def is_shown(name, record, workload):
    if workload not in record.get("results", {}) or name.startswith(("calibrate", "tokens")):
        return False
    return "wisp" not in name or "int8" in name and "-isolated@" not in name and "-threads@" not in name


def bars(entries, top):
    """Draws a bar for each (name, result), with a line from its least to its greatest value."""
    most = max(result["most"] for _, result in entries)
    scale = (WIDTH - NAMES - VALUES) / most
    for i, (name, result) in enumerate(entries):
        y = top + i * ROW
        length, low, high = (NAMES + scale * result[key] for key in ("median", "least", "most"))
        kind = "wisp" if "wisp" in name else "peer"
        yield f'<text x="{NAMES - 8}" y="{y + 12}" text-anchor="end">{html.escape(name)}</text>'
        yield f'<rect class="{kind}" x="{NAMES}" y="{y}" width="{length - NAMES:.1f}" height="{BAR}" rx="2"/>'
        yield f'<path class="spread" d="M{low:.1f} {y + BAR / 2}H{high:.1f}"/>'
        yield f'<text class="value" x="{high + 6:.1f}" y="{y + 12}">{table.number(result["median"])}</text>'


def picture(report, group):
    parts, y = [], TOP
    for workload, title in PANELS:
        entries = [(name, record["results"][workload]) for name, record in report["runners"].items()
                   if record["group"] == group and is_shown(name, record, workload)]
        if not entries:
            continue
        higher_is_better = report["workloads"][workload]["unit"] != "ms"
        entries.sort(key=lambda entry: entry[1]["median"], reverse=higher_is_better)
        parts.append(f'<text class="panel" x="16" y="{y + 12}">{html.escape(title)}</text>')
        parts += bars(entries, y + 24)
        y += len(entries) * ROW + GAP
    if not parts:
        return None
    note = f"{report.get('model', 'all-MiniLM-L6-v2')} on {report['machine']['cpu']}, {report['date']}; after @: threads"
    note += "; node-tjs and node-wisp-native run native code" if group == "javascript" else ""
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y + 8}" role="img">',
        f"<title>{TITLES[group]}: wisp beside its peers</title>", f"<style>\n{STYLE}\n</style>",
        f'<rect class="ground" width="{WIDTH}" height="{y + 8}"/>',
        f'<text class="title" x="16" y="26">{TITLES[group]}</text>', *parts,
        f'<text class="value" x="16" y="{y - 6}">{html.escape(note)}</text>', "</svg>", ""])


def main():
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    source, folder = map(Path, sys.argv[1:])
    if not source.exists():
        print(f"plot: there is no {source}: run make bench-peers", file=sys.stderr)
        return 1
    report = json.loads(source.read_text(encoding="utf-8"))
    for group in TITLES:
        drawn = picture(report, group)
        if drawn:
            files.write_whole(folder / f"{group}.svg", drawn)
    return 0


if __name__ == "__main__":
    sys.exit(main())

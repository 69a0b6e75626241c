#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws results/first.svg, the three bars of README: short sentences a second in Chromium, from RESULTS.md.

    bench/first_chart.py           writes the picture
    bench/first_chart.py --check   fails if the picture is not that of RESULTS.md
"""

import re
import sys
from pathlib import Path

BENCH = Path(__file__).resolve().parent
PICTURE = BENCH / "results/first.svg"
BARS = (("wisp", "chromium-wisp-int8@1"), ("transformers.js", "chromium-tjs-q8@1"), ("wllama", "chromium-wllama-q8_0@1"))
WIDTH, NAMES, VALUES, ROW, BAR, TOP = 760, 140, 70, 40, 26, 58

STYLE = """\
text { font: 15px system-ui, sans-serif; fill: #1f2328; }
.title { font-size: 17px; font-weight: 600; }
.note { font-size: 12px; fill: #59636e; }
.wisp { fill: #0b6bcb; }
.peer { fill: #9aa4af; }
.ground { fill: #ffffff; }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3; }
  .note { fill: #9aa4af; }
  .wisp { fill: #4c9df3; }
  .peer { fill: #59636e; }
  .ground { fill: #0d1117; }
}"""


def rates(text):
    """The median of the first column, sentences a second, of each bar's row."""
    return [float(re.search(rf"^\| {re.escape(row)} \| ([\d.]+)\*? \(", text, re.MULTILINE)[1]) for _, row in BARS]


def picture(text):
    found = rates(text)
    scale = (WIDTH - NAMES - VALUES) / max(found)
    parts = ['<text class="title" x="16" y="28">Sentences embedded a second, in Chromium, with one worker</text>']
    for i, ((name, row), rate) in enumerate(zip(BARS, found)):
        y = TOP + i * ROW
        kind = "wisp" if "wisp" in row else "peer"
        parts += [f'<text x="{NAMES - 10}" y="{y + 19}" text-anchor="end">{name}</text>',
                  f'<rect class="{kind}" x="{NAMES}" y="{y}" width="{scale * rate:.1f}" height="{BAR}" rx="2"/>',
                  f'<text x="{NAMES + scale * rate + 8:.1f}" y="{y + 19}">{rate:.0f}</text>']
    machine = re.search(r"^AMD.*?(?=,)", text, re.MULTILINE)[0]
    height = TOP + len(BARS) * ROW + 24
    parts.append(f'<text class="note" x="16" y="{height - 12}">all-MiniLM-L6-v2 in 8 bits, sentences of STS-B (about 15 tokens), '
                 f"{machine} with AVX-512</text>")
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
                      "<title>Sentences a second: wisp, transformers.js and wllama</title>", f"<style>\n{STYLE}\n</style>",
                      f'<rect class="ground" width="{WIDTH}" height="{height}"/>', *parts, "</svg>", ""])


def main():
    drawn = picture((BENCH / "RESULTS.md").read_text(encoding="utf-8"))
    if "--check" not in sys.argv[1:]:
        PICTURE.write_text(drawn, encoding="utf-8")
    elif drawn != PICTURE.read_text(encoding="utf-8"):
        sys.exit(f"{PICTURE.name} is not that of RESULTS.md: run bench/first_chart.py")


if __name__ == "__main__":
    main()

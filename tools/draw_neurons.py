#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws docs/neurons.svg: the neurons of the English model that one word of a sentence needs.

    .tools/bin/python-torch tools/draw_neurons.py

PyTorch runs the model of which wisp-default.gguf was made (minilm-l6-relu in $WISP_SHARED/models, else in ../shared/models).
Each layer is a field of 1,536 squares, one for each neuron in the order of the weights; those whose activation is not zero
are filled.
"""

import os
from pathlib import Path

import torch
from transformers import AutoModel, AutoTokenizer

ROOT = Path(__file__).resolve().parent.parent
SHARED = Path(os.environ.get("WISP_SHARED", ROOT.parent / "shared"))
SENTENCE, WORD = "The cat sleeps on the sofa.", "cat"
ACROSS, CELL, GAP, TOP, LEFT = 64, 5, 26, 62, 16

STYLE = """\
text { font: 13px system-ui, sans-serif; fill: #1f2328; }
.title { font-size: 16px; font-weight: 600; }
.note { fill: #59636e; }
.rest { fill: #eaeef2; }
.needed { stroke: #0b6bcb; }
.ground { fill: #ffffff; }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3; }
  .note { fill: #9aa4af; }
  .rest { fill: #21262d; }
  .needed { stroke: #4c9df3; }
  .ground { fill: #0d1117; }
}"""


def needed_neurons():
    """For each layer, a list that says of each neuron whether the word needs it."""
    folder = SHARED / "models/minilm-l6-relu"
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModel.from_pretrained(folder, dtype=torch.float32).eval()
    layers = []
    for layer in model.encoder.layer:
        layer.intermediate.register_forward_hook(lambda _module, _given, found: layers.append(found[0]))
    tokens = tokenizer(SENTENCE, return_tensors="pt")
    place = tokenizer.convert_ids_to_tokens(tokens["input_ids"][0]).index(WORD)
    with torch.no_grad():
        model(**tokens)
    return [(activations[place] != 0).tolist() for activations in layers]


def picture(layers):
    down = len(layers[0]) // ACROSS
    field, height = ACROSS * CELL, down * CELL
    width = 2 * field + GAP + 2 * LEFT
    total = TOP + 3 * (height + GAP + 8)
    found, of = sum(map(sum, layers)), sum(map(len, layers))
    parts = [f'<text class="title" x="{LEFT}" y="26">The neurons that the word “{WORD}” needs in “{SENTENCE}”</text>',
             f'<text class="note" x="{LEFT}" y="45">{found} of {of:,}: {100 * found / of:.1f} %. wisp skips the others.</text>']
    for i, needed in enumerate(layers):
        x, y = LEFT + i % 2 * (field + GAP), TOP + 14 + i // 2 * (height + GAP + 8)
        marks = "".join(f"M{x + k % ACROSS * CELL} {y + k // ACROSS * CELL + CELL / 2:g}h{CELL - 1}"
                        for k, is_needed in enumerate(needed) if is_needed)
        parts += [f'<text class="note" x="{x}" y="{y - 5}">layer {i}: {sum(needed)} of {len(needed):,}</text>',
                  f'<rect class="rest" x="{x}" y="{y}" width="{field}" height="{height}"/>',
                  f'<path class="needed" stroke-width="{CELL - 1}" d="{marks}"/>']
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {total}" role="img">',
                      f"<title>{found} of {of:,} neurons are needed</title>", f"<style>\n{STYLE}\n</style>",
                      f'<rect class="ground" width="{width}" height="{total}"/>', *parts, "</svg>", ""])


if __name__ == "__main__":
    (ROOT / "docs/neurons.svg").write_text(picture(needed_neurons()), encoding="utf-8")

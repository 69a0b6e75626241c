#!/usr/bin/env python3
"""Trains the codes and scales of a quantised model, so that it computes what the original does.

START is a GGUF file that `wisp quantize` made of the original, with types Q4_0, Q4_1, Q5_0, Q5_1, Q8_0 or IQ4_NL. OUT is
the same file with other values in its blocks, norms and biases. TEACHER is the original: of a model that generates
text its GGUF file (llama, qwen2 or qwen3), and of a sentence encoder the Hugging Face folder, whose config.json says
model_type "bert". TEXT is what the model will read, or what it wrote. Until OUT is made, OUT.checkpoint holds what
--resume goes on from; Ctrl-C writes it. docs/quantise.md says more.
"""

import sys
from pathlib import Path

from train_twin.command import obey, twin_parser, whole

BUILT = Path(__file__).resolve().parents[1] / "build" / "wisp"


def parse_arguments():
    parser = twin_parser(__doc__, steps=1000, rate=5e-4, teacher="the model to learn from", out="the GGUF file to make",
                         batch=16)
    add = parser.add_argument
    add("--start", metavar="START", type=Path, required=True, help="the file to begin with")
    add("--window", metavar="N", type=whole, default=256,
        help="text for a model that generates is cut into windows of N tokens (%(default)s)")
    add("--wisp", metavar="PATH", type=Path, default=BUILT, help="the program that makes tokens of such text "
        "(%(default)s)")
    options = parser.parse_args()
    if not options.steps:
        parser.error("--steps is 0")
    return options


def main():
    options = parse_arguments()

    def run():
        from train_blocks.run import run  # only now, so that --help needs nothing installed
        return run(options)

    return obey("train_blocks", run)


if __name__ == "__main__":
    sys.exit(main())

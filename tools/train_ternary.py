#!/usr/bin/env python3
"""Makes a ternary twin of a BERT sentence encoder: a model of like embeddings, whose matrices have three values for each
block of 256 weights.

TEACHER is a Hugging Face folder whose config.json says model_type "bert" and hidden_act "gelu" or "relu". The twin
starts as a copy with rounded matrices and learns from the teacher alone, on the lines of TEXT: first each layer by
itself, then the whole. When done, OUT is a folder like TEACHER, whose matrices `wisp quantize --type bitnet_t158` turns
into exactly those that were trained. Until then OUT.checkpoint holds what --resume goes on from; Ctrl-C writes it.
docs/quantise.md says more.
"""

import argparse
import sys
from pathlib import Path

from train_relu.command import EPILOG, amount, obey, whole, whole_or_zero


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, epilog=EPILOG,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("teacher", metavar="TEACHER", type=Path, help="the folder of the model to learn from")
    add("text", metavar="TEXT", nargs="+", type=Path, help="a file of UTF-8 text, one passage a line")
    add("-o", "--out", metavar="OUT", type=Path, required=True, help="the folder to make")
    add("--resume", action="store_true", help="go on from OUT.checkpoint, with the same arguments as before")
    add("--layer-steps", metavar="N", type=whole_or_zero, default=1000, help="steps for layers alone (%(default)s)")
    add("--layer-rate", metavar="R", type=amount, default=1e-3, help="their learning rate (%(default)s)")
    add("--steps", metavar="N", type=whole_or_zero, default=8000, help="steps for the whole model (%(default)s)")
    add("--rate", metavar="R", type=amount, default=5e-4, help="their learning rate (%(default)s)")
    add("--batch", metavar="N", type=whole, default=64, help="lines in a step (%(default)s)")
    add("--held-out", metavar="N", type=whole, default=256, help="lines of TEXT to judge by, which are not trained on "
        "(%(default)s)")
    add("--seed", metavar="N", type=whole_or_zero, default=1, help="of the order of lines (%(default)s)")
    add("--report", metavar="N", type=whole, default=100, help="steps between lines of progress (%(default)s)")
    add("--save", metavar="N", type=whole, default=500, help="steps between checkpoints (%(default)s)")
    add("--device", choices=("cpu", "cuda"), help="where to compute (cuda where there is one, else cpu)")
    add("--threads", metavar="N", type=whole, help="processor threads (as many as PyTorch likes)")
    add("--bf16", action="store_true", help="compute products in bfloat16")
    options = parser.parse_args()
    if options.layer_steps + options.steps == 0:
        parser.error("--layer-steps and --steps are both 0")
    return options


def main():
    options = parse_arguments()

    def run():
        from train_ternary.run import run  # only now, so that --help needs nothing installed
        return run(options)

    return obey("train_ternary", run)


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Makes a ReLU twin of a BERT sentence encoder: a model of like embeddings, most of whose feed-forward activations
are exactly zero.

TEACHER is a Hugging Face folder whose config.json says model_type "bert" and hidden_act "gelu". The twin starts as a
copy with ReLU instead and learns from the teacher alone, on the lines of TEXT: first each feed-forward layer by
itself, then the whole. A penalty on activations is steered until the wanted share of them is left. When done, OUT
is a folder like TEACHER with hidden_act "relu". Until then OUT.checkpoint holds what --resume goes on from; Ctrl-C
writes it. tools/train_relu.md says more.
"""

import argparse
import sys
from pathlib import Path

from train_relu.command import EPILOG, amount, obey, share, whole, whole_or_zero


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, epilog=EPILOG,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("teacher", metavar="TEACHER", type=Path, help="the folder of the model to learn from")
    add("text", metavar="TEXT", nargs="+", type=Path, help="a file of UTF-8 text, one passage a line")
    add("-o", "--out", metavar="OUT", type=Path, required=True, help="the folder to make")
    add("--resume", action="store_true", help="go on from OUT.checkpoint, with the same arguments as before")
    add("--layer-steps", metavar="N", type=whole_or_zero, default=4000, help="steps for layers alone (%(default)s)")
    add("--layer-rate", metavar="R", type=amount, default=1e-3, help="their learning rate (%(default)s)")
    add("--steps", metavar="N", type=whole_or_zero, default=4000, help="steps for the whole model (%(default)s)")
    add("--rate", metavar="R", type=amount, default=3e-4, help="their learning rate (%(default)s)")
    add("--wide-text", metavar="FILE", action="append", type=Path, default=[],
        help="text of other kinds, which steps after those take beside TEXT; may be given more than once")
    add("--wide-steps", metavar="N", type=whole_or_zero, default=0, help="how many such steps (%(default)s)")
    add("--wide-rate", metavar="R", type=amount, default=2e-4, help="their learning rate (%(default)s)")
    add("--density", metavar="SHARE", type=share, default=0.07,
        help="the share of neurons that a token is to activate, in each layer (%(default)s)")
    add("--penalty", metavar="P", type=amount, default=0.03,
        help="what active neurons of a layer add to the loss at first; 0: never anything (%(default)s)")
    add("--batch", metavar="N", type=whole, default=64, help="lines in a step (%(default)s)")
    add("--held-out", metavar="N", type=whole, default=256, help="lines of TEXT to judge by, which are not trained on "
        "(%(default)s)")
    add("--seed", metavar="N", type=whole_or_zero, default=1, help="of the order of lines (%(default)s)")
    add("--report", metavar="N", type=whole, default=100, help="steps between lines of progress (%(default)s)")
    add("--save", metavar="N", type=whole, default=500, help="steps between checkpoints (%(default)s)")
    add("--device", choices=("cpu", "cuda"), help="where to compute (cuda where there is one, else cpu)")
    add("--threads", metavar="N", type=whole, help="processor threads (as many as PyTorch likes)")
    add("--bf16", action="store_true", help="compute products in bfloat16")
    add("--dtype", choices=("float32", "float16", "bfloat16"), default="float32", help="of OUT's weights (%(default)s)")
    options = parser.parse_args()
    if options.layer_steps + options.steps + options.wide_steps == 0:
        parser.error("--layer-steps, --steps and --wide-steps are all 0")
    if bool(options.wide_steps) != bool(options.wide_text):
        parser.error("--wide-steps and --wide-text go together")
    return options


def main():
    options = parse_arguments()

    def run():
        from train_relu.run import run  # only now, so that --help needs nothing installed
        return run(options)

    return obey("train_relu", run)


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Makes a ReLU twin of a BERT sentence encoder: a model of like embeddings, most of whose feed-forward activations
are exactly zero.

TEACHER is a Hugging Face folder whose config.json says model_type "bert" and hidden_act "gelu". The twin starts as a
copy with ReLU instead and learns from the teacher alone, on the lines of TEXT: first each feed-forward layer by
itself, then the whole. A penalty on activations is steered until the wanted share of them is left. When done, OUT
is a folder like TEACHER with hidden_act "relu". Until then OUT.checkpoint holds what --resume goes on from; Ctrl-C
writes it. tools/train_relu.md says more.
"""

import sys
from pathlib import Path

from train_twin.command import add_layer_steps, amount, obey, share, twin_parser, whole_or_zero


def parse_arguments():
    parser = twin_parser(__doc__, steps=4000, rate=3e-4)
    add_layer_steps(parser, 4000)
    add = parser.add_argument
    add("--wide-text", metavar="FILE", action="append", type=Path, default=[],
        help="text of other kinds, for further steps that take it beside TEXT; may be given more than once")
    add("--wide-steps", metavar="N", type=whole_or_zero, default=0, help="how many such steps (%(default)s)")
    add("--wide-rate", metavar="R", type=amount, default=2e-4, help="their learning rate (%(default)s)")
    add("--density", metavar="SHARE", type=share, default=0.07,
        help="the share of neurons that a token is to activate, in each layer (%(default)s)")
    add("--penalty", metavar="P", type=amount, default=0.03,
        help="what active neurons of a layer add to the loss at first; 0: never anything (%(default)s)")
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

#!/usr/bin/env python3
"""Makes a ternary twin of a BERT sentence encoder: a model of like embeddings, whose matrices have three values for each
block of 256 weights.

TEACHER is a Hugging Face folder whose config.json says model_type "bert" and hidden_act "gelu" or "relu". The twin
starts as a copy with rounded matrices and learns from the teacher alone, on the lines of TEXT: first each layer by
itself, then the whole. When done, OUT is a folder like TEACHER, whose matrices `wisp quantize --type bitnet_t158` turns
into exactly those that were trained. Until then OUT.checkpoint holds what --resume goes on from; Ctrl-C writes it.
docs/quantise.md says more.
"""

import sys

from train_twin.command import add_layer_steps, obey, twin_parser


def parse_arguments():
    parser = twin_parser(__doc__, steps=8000, rate=5e-4)
    add_layer_steps(parser, 1000)
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

"""The arguments and exit codes of programs that train a twin. Needs nothing installed."""

import argparse
import math
import sys
from pathlib import Path

EXIT_FAILED, EXIT_INTERRUPTED = 1, 130
EPILOG = """exit codes: 0 done, 1 reading or writing failed, 2 wrong usage, 3 a model cannot be used, 4 TEXT cannot be
used, 130 interrupted"""


def whole_number(text, least):
    value = int(text)
    if value < least:
        raise argparse.ArgumentTypeError(f"{text} is less than {least}")
    return value


def whole(text):
    return whole_number(text, 1)


def whole_or_zero(text):
    return whole_number(text, 0)


def amount(text):
    value = float(text)
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"invalid amount: {text}")
    return value


def share(text):
    value = float(text)
    if not 0 < value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and 1")
    return value


def twin_parser(description, steps, rate, batch=64, teacher="the folder of the model to learn from",
                out="the folder to make"):
    """Returns a parser of the arguments that all these programs take. The numbers are defaults of options, the texts
    describe arguments."""
    parser = argparse.ArgumentParser(description=description, epilog=EPILOG,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("teacher", metavar="TEACHER", type=Path, help=teacher)
    add("text", metavar="TEXT", nargs="+", type=Path, help="a file of UTF-8 text, one passage a line")
    add("-o", "--out", metavar="OUT", type=Path, required=True, help=out)
    add("--resume", action="store_true", help="go on from OUT.checkpoint, with the same arguments as before")
    add("--steps", metavar="N", type=whole_or_zero, default=steps, help="steps for the whole model (%(default)s)")
    add("--rate", metavar="R", type=amount, default=rate, help="their learning rate (%(default)s)")
    add("--batch", metavar="N", type=whole, default=batch, help="lines in a step (%(default)s)")
    add("--held-out", metavar="N", type=whole, default=256, help="lines of TEXT to judge by, which are not trained on "
        "(%(default)s)")
    add("--seed", metavar="N", type=whole_or_zero, default=1, help="of the order of lines (%(default)s)")
    add("--report", metavar="N", type=whole, default=100, help="steps between lines of progress (%(default)s)")
    add("--save", metavar="N", type=whole, default=500, help="steps between checkpoints (%(default)s)")
    add("--device", choices=("cpu", "cuda"), help="where to compute (cuda where there is one, else cpu)")
    add("--threads", metavar="N", type=whole, help="processor threads (as many as PyTorch likes)")
    add("--bf16", action="store_true", help="compute products in bfloat16")
    return parser


def add_layer_steps(parser, steps):
    """Adds the options of a stage that trains layers alone, with a default of their steps."""
    add = parser.add_argument
    add("--layer-steps", metavar="N", type=whole_or_zero, default=steps, help="steps for layers alone (%(default)s)")
    add("--layer-rate", metavar="R", type=amount, default=1e-3, help="their learning rate (%(default)s)")


def obey(program, run):
    """Returns the exit code of a program. `run` returns whether it reached the end."""
    def complain(text):
        print(f"{program}: {text}", file=sys.stderr)

    try:
        from .folder import Refusal
    except ImportError as error:
        complain(f"{error}; pip install -r tools/requirements-train.txt")
        return EXIT_FAILED
    try:
        return 0 if run() else EXIT_INTERRUPTED
    except ImportError as error:
        complain(f"{error}; pip install -r tools/requirements-train.txt")
        return EXIT_FAILED
    except Refusal as refusal:
        complain(refusal)
        return refusal.code
    except OSError as error:
        complain(f"{error.filename or 'output'}: {error.strerror}")
        return EXIT_FAILED
    except KeyboardInterrupt:
        complain("interrupted")
        return EXIT_INTERRUPTED

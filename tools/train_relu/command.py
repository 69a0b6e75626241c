"""Numbers among arguments, and exit codes. Needs nothing installed."""

import argparse
import math
import sys

EXIT_FAILED, EXIT_INTERRUPTED = 1, 130
EPILOG = """exit codes: 0 done, 1 reading or writing failed, 2 wrong usage, 3 TEACHER cannot be used, 4 TEXT cannot be
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
        raise argparse.ArgumentTypeError(f"{text} is no amount")
    return value


def share(text):
    value = float(text)
    if not 0 < value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and 1")
    return value


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

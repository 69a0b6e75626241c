#!/usr/bin/env python3
"""Says which of the named programs are not on PATH, and what brings them, before anything is built."""

import os
import shutil
import sys
from pathlib import Path

BY_HAND = {
    "npm": "apt install npm, or Node from https://nodejs.org, which has it",
    "node": "apt install nodejs (20 or later)",
}
OURS = str(Path(__file__).resolve().parents[1] / ".tools/bin")


def main():
    path = os.pathsep.join(folder for folder in os.environ.get("PATH", "").split(os.pathsep) if folder != OURS)
    missing = [name for name in sys.argv[1:] if not shutil.which(name, path=path)]
    for name in missing:
        print(f"{name} is not on PATH. What you can do: {BY_HAND.get(name, 'install it')}.", file=sys.stderr)
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())

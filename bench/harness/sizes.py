"""Measures the bytes of files, raw and packed by brotli (quality 9, window of 16 MB), and caches them between runs."""

import json
import subprocess

from . import registry

REMEMBERED = registry.REPO / "build/bench/sizes.json"
# Larger files are not packed: that takes long, and no page downloads them.
MOST_TO_PACK = 120_000_000


def key_of(path):
    found = path.stat()
    return f"{path.name} {found.st_size} {found.st_mtime_ns}"


def pack(paths):
    """Returns packed sizes. A small Node program computes them, because Python's library has no brotli."""
    done = subprocess.run(["node", registry.REPO / "bench/packed_size.mjs", *paths], stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


def total(patterns):
    """Returns {"raw": bytes, "brotli": bytes or None} of all files that match."""
    return total_of_files(path for pattern in patterns for path in registry.files_of(pattern))


def total_of_files(paths):
    paths = list(paths)
    raw = sum(path.stat().st_size for path in paths)
    if raw > MOST_TO_PACK:
        return {"raw": raw, "brotli": None}
    known = json.loads(REMEMBERED.read_text()) if REMEMBERED.exists() else {}
    unknown = [path for path in paths if key_of(path) not in known]
    if unknown:
        known |= zip(map(key_of, unknown), pack(unknown))
        REMEMBERED.write_text(json.dumps(known))
    return {"raw": raw, "brotli": sum(known[key_of(path)] for path in paths)}

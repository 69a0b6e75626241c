#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times indexes of random vectors of 384 values: index_sizes.py COUNT...

    PYTHONPATH=build/python .tools/bin/python bench/index_sizes.py 10000 100000 1000000

Prints for each number of vectors the size of the file, the time to open it, and the median of 21 searches on one thread.
`make python` makes build/python. docs/choosing.md has the figures.
"""

import os
import statistics
import sys
import tempfile
import time

import numpy as np
from wisp_engine import Index

DIMENSIONS, BATCH, SEARCHES = 384, 50_000, 21


def rows(rng, count):
    values = rng.normal(size=(count, DIMENSIONS)).astype(np.float32)
    return values / np.linalg.norm(values, axis=1, keepdims=True)


def timed(work):
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


def measure(count, kind, path):
    rng = np.random.default_rng(1)
    index = Index.create(dimensions=DIMENSIONS, kind=kind)
    for first in range(0, count, BATCH):
        size = min(BATCH, count - first)
        index.add([str(first + i) for i in range(size)], vectors=rows(rng, size))
    index.save(path, force=True)
    index.close()
    opening, index = timed(lambda: Index.open(path))
    queries = rows(rng, SEARCHES)
    searches = [timed(lambda query=query: index.search(query, k=10))[0] for query in queries]
    print(f"{count:>9} {kind:>5} {os.path.getsize(path) / 1e6:8.1f} MB, open {opening:6.2f} s, "
          f"search {1000 * statistics.median(searches):7.2f} ms", flush=True)


def main():
    with tempfile.TemporaryDirectory() as folder:
        for count in map(int, sys.argv[1:]):
            measure(count, "int8", os.path.join(folder, "vectors.index"))


if __name__ == "__main__":
    main()

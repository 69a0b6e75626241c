#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/data/golden-attention.f32: what attention policies compute, by their definitions, in numpy and doubles.

One sequence of random queries, keys and values, which tests/kernels/test_attention_policies.c makes by the same hash.
For each case of CASES the rows of some queries follow each other, [queries, heads, head_size] floats, little-endian.
Each choice of steps is clear: the script fails if another order of roundings could choose otherwise.

    .tools/bin/python tests/oracle/make_attention_goldens.py
"""

import sys
from pathlib import Path

import numpy as np

OUT = Path(__file__).resolve().parents[1] / "data" / "golden-attention.f32"
KEYS, HEADS, KV_HEADS, SIZE = 1200, 4, 2, 20
QUERIES = 100  # of a call that reads a text: those at the last positions
STEP, PART, LAST = 64, 16, 64
LEARNED = 18  # steps that masks were learned from: fewer than there are
ROWS = (0, 1, 13, 40, 63, 64, 90, 99)
SCALE, QUERY_FACTOR = np.float32(0.25), np.float32(8)
MARGIN = 2e-4
GROUP = HEADS // KV_HEADS


def numbers(seed, *shape):
    """Multiples of 2^-23 from -1 to below 1, by a hash of their place."""
    n = int(np.prod(shape))
    h = (np.arange(n, dtype=np.uint64) + np.uint64(seed * 1000003)) & np.uint64(0xffffffff)
    for shift, factor in ((16, 0x7feb352d), (15, 0x846ca68b)):
        h ^= h >> np.uint64(shift)
        h = h * np.uint64(factor) & np.uint64(0xffffffff)
    h ^= h >> np.uint64(16)
    return ((h >> np.uint64(8)).astype(np.float32) * np.float32(2.0 ** -23) - np.float32(1)).reshape(shape)


Q = numbers(1, KEYS, HEADS, SIZE) * QUERY_FACTOR
K = numbers(2, KEYS, KV_HEADS, SIZE)
V = numbers(3, KEYS, KV_HEADS, SIZE)


def scores(position, head):
    """Scores of all keys that a query sees."""
    q, k = Q[position, head].astype(float), K[:position + 1, head // GROUP].astype(float)
    return k @ q * float(SCALE)


def weights(position, kv_head):
    """The share of each step in the softmax over all keys, on average over the heads."""
    total = np.zeros(position // STEP + 1)
    for head in range(kv_head * GROUP, (kv_head + 1) * GROUP):
        s = scores(position, head)
        power = np.exp(s - s.max())
        power /= power.sum()
        total += np.array([power[i:i + STEP].sum() for i in range(0, position + 1, STEP)]) / GROUP
    return total


def order(w):
    """Steps from the largest weight to the smallest, among equals the later first."""
    return sorted(range(len(w)), key=lambda s: (-w[s], -s))


def largest(w, n):
    """The n steps of the largest weights, with a clear distance to the others."""
    chosen = order(w)
    if n < len(w) and w[chosen[n - 1]] - w[chosen[n]] <= MARGIN * max(abs(w[chosen[n]]), 1e-3):
        sys.exit(f"an unclear choice: {w[chosen[n - 1]]} and {w[chosen[n]]}")
    return set(chosen[:n])


def local(own, window, sinks):
    return {s for s in range(own + 1) if s * STEP < sinks or (own - s) * STEP < window + STEP}


def choose_local(position, kv_head, window, sinks):
    return local(position // STEP, window, sinks)


def choose_strided(position, kv_head, window, sinks, stride):
    own = position // STEP
    return local(own, window, sinks) | {s for s in range(own + 1) if (own - s) % stride == 0}


def choose_mass(position, kv_head, mass):
    w, chosen, total = weights(position, kv_head), [], 0
    for s in order(w):
        chosen.append(s)
        total += w[s]
        if abs(total - mass / 1000) < MARGIN:
            sys.exit(f"an unclear sum: {total}")
        if total >= mass / 1000:
            break
    return largest(w, len(chosen)) | {position // STEP}


def rounded(x, block):
    """Blocks as bytes times the scale that makes the largest 127."""
    out = np.zeros(len(x))
    for i in range(0, len(x), block):
        part = x[i:i + block].astype(np.float32)
        scale = np.abs(part).max() / np.float32(127)
        out[i:i + block] = np.rint(part / scale) * float(scale)
    return out


def choose_quest(position, kv_head, window, sinks, tokens):
    own = position // STEP
    looked = local(own, window, sinks)
    bounds = np.full(own, -np.inf)
    for head in range(kv_head * GROUP, (kv_head + 1) * GROUP):
        q = Q[position, head]
        signs = rounded(np.stack([np.maximum(q, 0), np.minimum(q, 0)], 1).ravel(), 2 * SIZE)
        of_steps = np.full(own, -np.inf)
        for start in range(0, own * STEP, PART):
            part = K[start:start + PART, kv_head]
            extremes = rounded(np.stack([part.max(0), part.min(0)], 1).ravel(), 32)
            of_steps[start // STEP] = max(of_steps[start // STEP], signs @ extremes * float(SCALE))
        bounds = np.maximum(bounds, of_steps - of_steps.max())
    free = [s for s in range(own) if s not in looked]
    others = largest(bounds[free], tokens // STEP - len(looked))
    return looked | {free[i] for i in others}


def plan_minference(kv_head, budget):
    vertical, slash = np.zeros(KEYS // STEP + 1), np.zeros(KEYS // STEP + 1)
    for position in range(KEYS - LAST, KEYS):
        own = position // STEP
        for s, w in enumerate(weights(position, kv_head)):
            vertical[s] += w
            slash[own - s] += w
    n = (KEYS - 1) // STEP + 1
    return (largest(vertical[:n], -(-n * budget // 500)), largest(slash[:n], -(-n * budget * 4 // 500)))


def choose_minference(position, kv_head, window, sinks, budget, plans={}):
    own = position // STEP
    if kv_head not in plans:
        plans[kv_head] = plan_minference(kv_head, budget)
    vertical, slash = plans[kv_head]
    return local(own, window, sinks) | {s for s in range(own + 1) if s in vertical or own - s in slash}


def learned_bit(kind, i):
    """The bits of the test's masks: distances, then steps, or blocks."""
    return i % 2 == 0 if kind == "blocks" else i % 3 == 1 if i < LEARNED else (i - LEARNED) % 5 == 2


def choose_learned(position, kv_head, sinks, heads):
    """Beside a window and sinks, what the head's mask says. It is for LEARNED steps; what is beyond is looked at."""
    own = position // STEP
    kind, window = heads[kv_head]

    def keeps(s):
        if kind == "lines":
            return (own - s >= LEARNED or learned_bit(kind, own - s)
                    or (s < LEARNED and learned_bit(kind, LEARNED + s)))
        q = own // 4
        return kind == "full" or (kind == "blocks" and (own >= LEARNED or learned_bit(kind, q * (q + 1) // 2 + s // 4)))

    return local(own, window, sinks) | {s for s in range(own + 1) if keeps(s)}


def attend(position, head, steps):
    s = scores(position, head)
    looked = np.isin(np.arange(position + 1) // STEP, list(steps))
    power = np.where(looked, np.exp(s - s[looked].max()), 0)
    return power / power.sum() @ V[:position + 1, head // GROUP].astype(float)


PREFILL = [KEYS - QUERIES + row for row in ROWS]
CASES = (
    (choose_local, dict(window=200, sinks=100), PREFILL),
    (choose_strided, dict(window=128, sinks=64, stride=3), PREFILL),
    (choose_mass, dict(mass=800), PREFILL),
    (choose_minference, dict(window=100, sinks=30, budget=30), PREFILL),
    (choose_mass, dict(mass=650), [KEYS - 1]),
    (choose_quest, dict(window=128, sinks=64, tokens=512), [KEYS - 1]),
    (choose_learned, dict(sinks=64, heads=(("lines", 64), ("blocks", 64))), PREFILL),
    (choose_learned, dict(sinks=64, heads=(("full", 64), ("local", 128))), PREFILL),
    (choose_learned, dict(sinks=64, heads=(("lines", 64), ("blocks", 64))), [KEYS - 1]),
)


def main():
    rows = []
    for choose, settings, positions in CASES:
        kept = []
        for position in positions:
            for head in range(HEADS):
                steps = choose(position, head // GROUP, **settings)
                kept.append(len(steps) / (position // STEP + 1))
                rows.append(attend(position, head, steps))
        print(f"{choose.__name__}: {100 * np.mean(kept):.0f} % of the steps")
        assert np.mean(kept) < 0.8
    np.array(rows, dtype="<f4").tofile(OUT)


main()

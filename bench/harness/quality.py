"""Measures the quality of embeddings: their cosine to PyTorch's in f32, and the Spearman correlation on STS-B test."""

import array
import math
import operator
import statistics

DIMENSIONS = 384


def read_rows(path):
    values = array.array("f")
    with open(path, "rb") as file:
        values.frombytes(file.read())
    return [values[i:i + DIMENSIONS] for i in range(0, len(values), DIMENSIONS)]


def dot(a, b):
    return sum(map(operator.mul, a, b))


def cosine(a, b):
    return dot(a, b) / math.sqrt(dot(a, a) * dot(b, b))


def ranks(values):
    """Returns ranks from 0. Equal values get the mean of their ranks."""
    order = sorted(range(len(values)), key=values.__getitem__)
    found = [0.0] * len(values)
    first = 0
    while first < len(order):
        end = first
        while end < len(order) and values[order[end]] == values[order[first]]:
            end += 1
        for i in order[first:end]:
            found[i] = (first + end - 1) / 2
        first = end
    return found


def spearman(a, b):
    return statistics.correlation(ranks(a), ranks(b))


def judge(indices, rows, scores, reference):
    """Judges `rows`, those of the STS-B sentences in `indices`. `reference` has all sentences' rows, or is None."""
    result = {"texts": len(rows), "norm_error": max(abs(math.sqrt(dot(row, row)) - 1) for row in rows)}
    if len(rows) == 2 * len(scores):
        similarities = [cosine(a, b) for a, b in zip(rows[::2], rows[1::2])]
        result["spearman"] = round(spearman(similarities, scores), 4)
    if reference:
        cosines = [cosine(row, reference[i]) for i, row in zip(indices, rows)]
        result |= {"cosine_min": min(cosines), "cosine_mean": statistics.fmean(cosines)}
    return result

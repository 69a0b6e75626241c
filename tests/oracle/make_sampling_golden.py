#!/usr/bin/env python3
"""Writes tests/data/golden-sampling.json: what the logits processors of transformers make of random logits.

Each case has the number of its logits, the options under the names of wisp_sampling, the ids of the text so far, and the
ids that are left with their probabilities. Presence and frequency penalties, which transformers does not have, follow
OpenAI's definition. With temperature_last the processors run in llama.cpp's default order.

    .tools/bin/python-torch tests/oracle/make_sampling_golden.py
"""

import json
import random
from pathlib import Path

import torch
from transformers import (MinPLogitsWarper, RepetitionPenaltyLogitsProcessor, SequenceBiasLogitsProcessor,
                          TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper, TypicalLogitsWarper)

OUT = Path(__file__).resolve().parents[1] / "data" / "golden-sampling.json"
VOCABULARY, SETS, RANDOM_CASES = 100, 4, 60
WARPERS = {"temperature": TemperatureLogitsWarper, "top_k": TopKLogitsWarper, "top_p": TopPLogitsWarper,
           "min_p": MinPLogitsWarper, "typical_p": TypicalLogitsWarper}
USUAL = ("temperature", "top_k", "top_p", "min_p", "typical_p")
LLAMA_CPP = ("top_k", "typical_p", "top_p", "min_p", "temperature")

ALONE = [
    {}, {"temperature": 0.5}, {"temperature": 1.7}, {"top_k": 1}, {"top_k": 17}, {"top_k": 99}, {"top_k": 1000},
    {"top_p": 0.1}, {"top_p": 0.5}, {"top_p": 0.9}, {"top_p": 0.999}, {"min_p": 0.02}, {"min_p": 0.5}, {"min_p": 1.0},
    {"typical_p": 0.1}, {"typical_p": 0.5}, {"typical_p": 0.95}, {"repetition_penalty": 1.3},
    {"repetition_penalty": 0.7}, {"presence_penalty": 0.8}, {"presence_penalty": -0.5}, {"frequency_penalty": 0.6},
    {"frequency_penalty": -0.3}, {"repetition_penalty": 1.3, "penalty_window": 4},
    {"frequency_penalty": 0.6, "penalty_window": 1}, {"presence_penalty": 1.0, "penalty_window": 1000},
    {"bias": [[5, 3.5], [7, -2.0], [9, float("-inf")]]}, {"bias": [[11, 20.0]]}, {"bias": [[3, 1.5], [3, 1.0]]},
]


def random_options(rng):
    choices = {"temperature": (0.3, 2), "top_p": (0.2, 1), "min_p": (0, 0.2), "typical_p": (0.2, 1),
               "repetition_penalty": (0.8, 1.6), "presence_penalty": (-1, 1), "frequency_penalty": (-0.5, 0.5)}
    options = {name: round(rng.uniform(*limits), 3) for name, limits in choices.items() if rng.random() < 0.5}
    if rng.random() < 0.5:
        options["top_k"] = rng.randint(1, 200)
    if rng.random() < 0.3:
        options["penalty_window"] = rng.randint(1, 30)
    if rng.random() < 0.3:
        options["bias"] = [[rng.randrange(VOCABULARY), round(rng.uniform(-4, 4), 3)] for _ in range(3)]
    if rng.random() < 0.4:
        options["temperature_last"] = True
    return options


def penalise(logits, options, text):
    window = options.get("penalty_window", 0)
    text = text[-window:] if window else text
    if "repetition_penalty" in options and text:
        logits = RepetitionPenaltyLogitsProcessor(options["repetition_penalty"])(torch.tensor([text]), logits)
    counts = torch.bincount(torch.tensor(text, dtype=torch.long), minlength=VOCABULARY).double()
    logits = logits - options.get("presence_penalty", 0) * (counts > 0) - options.get("frequency_penalty", 0) * counts
    return logits


def narrow(logits, options, text):
    logits = torch.tensor([logits], dtype=torch.double)
    ids = torch.tensor([[0]])
    for token, value in options.get("bias", []):  # one by one, so that a token may have several
        if value == float("-inf"):
            logits[0, token] = value
        else:
            logits = SequenceBiasLogitsProcessor({(token,): value})(ids, logits)
    logits = penalise(logits, options, text)
    for name in LLAMA_CPP if options.get("temperature_last") else USUAL:
        value = options.get(name)
        if value is not None and not (name in ("top_p", "typical_p") and value >= 1):
            logits = WARPERS[name](value)(ids, logits)
    shares = logits.softmax(-1)[0]
    return [[int(i), float(f"{shares[i]:.7g}")] for i in torch.nonzero(shares)[:, 0]]


def main():
    rng = random.Random(17)
    torch.manual_seed(17)
    # Floats that nine digits give exactly, so that C reads the same numbers.
    sets = [[float(f"{x:.9g}") for x in (torch.randn(VOCABULARY) * (1 + 1.5 * i)).tolist()] for i in range(SETS)]
    cases = []
    for i, options in enumerate(ALONE + [random_options(rng) for _ in range(RANDOM_CASES)]):
        text = [rng.randrange(40) for _ in range(rng.choice([0, 12, 50]) if i >= len(ALONE) else 20)]
        left = narrow(sets[i % SETS], options, text)
        cases.append({"logits": i % SETS, "options": options, "text": text, "left": left})
    lines = ",\n".join(json.dumps(case, separators=(",", ":")).replace("-Infinity", "null") for case in cases)
    OUT.write_text(f"{{\"logits\":{json.dumps(sets, separators=(',', ':'))},\n\"cases\":[\n{lines}\n]}}\n")
    print(len(cases), "cases,", OUT.stat().st_size, "bytes")


if __name__ == "__main__":
    main()

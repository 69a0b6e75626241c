#!/usr/bin/env python3
"""Compares the choices of wisp eval mmlu with those that transformers makes with the same prompts.

    python-torch tests/oracle/mmlu.py WISP

The model is models/wisp-stories.gguf, the questions are made here. One subject has examples of its own, one has not, and
one has questions so long that examples do not fit the model's context.
"""

import csv
import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path

try:
    import torch
    from make_stories_golden import MODEL, make_model, make_tokenizer, read_model
except ImportError as error:
    print(f"skipped: mmlu: {error}")
    sys.exit(0)

WORDS = "the dog cat girl boy park sun moon red big small saw ran played was happy sad ball tree, said mom".split()
QUESTIONS, CONTEXT, MARGIN = 14, 512, 1e-3


def make_subject(rng, folder, name, words, has_examples):
    def rows(n):
        return [[" ".join(rng.choices(WORDS, k=rng.randint(*words))) + "?",
                 *(f'a "{rng.choice(WORDS)}", {rng.choice(WORDS)}' for _ in range(4)), rng.randrange(4)]
                for _ in range(n)]

    def write(path, rows, header):
        with path.open("w", newline="") as file:
            writer = csv.writer(file, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n")
            if header:
                writer.writerow(["question", "A", "B", "C", "D", "answer"])
            writer.writerows(rows)

    test, dev = rows(QUESTIONS), rows(6)
    write(folder / f"{name}_test.csv", test, True)
    if has_examples:
        write(folder / f"{name}_dev.csv", [[*row[:5], "ABCD"[row[5]]] for row in dev], False)
    return test, dev if has_examples else None


def ask(row):
    return row[0] + "".join(f"\n{letter}. {choice}" for letter, choice in zip("ABCD", row[1:5])) + "\nAnswer:"


@torch.inference_mode()
def choose(model, encode, name, examples, row, context=CONTEXT):
    """The number of examples that fit, and the letter that is likeliest; None if two are too close to tell. `encode` gives
    the ids of a text."""
    for shots in range(len(examples), -1, -1):
        prompt = f"The following are multiple choice questions (with answers) about {name.replace('_', ' ')}.\n\n"
        prompt += "".join(f"{ask(example)} {'ABCD'[example[5]]}\n\n" for example in examples[:shots]) + ask(row)
        ids = [encode(f"{prompt} {letter}") for letter in "ABCD"]
        if max(map(len, ids)) <= context:
            break
    else:
        return None
    common = next(i for i in range(context) if len({tuple(x[: i + 1]) for x in ids}) > 1)
    scores = []
    for choice in ids:
        logprobs = model(torch.tensor([choice])).logits[0].log_softmax(-1)
        scores.append(sum(float(logprobs[t - 1, choice[t]]) for t in range(common, len(choice))))
    best = sorted(scores)
    return shots, "ABCD"[scores.index(best[-1])] if best[-1] - best[-2] > MARGIN else None


def main():
    wisp = sys.argv[1]
    rng = random.Random(3)
    metadata, tensors = read_model(MODEL)
    tokenizer, model = make_tokenizer(metadata), make_model(metadata, tensors)

    def encode(text):
        return [1, *tokenizer.encode(text).ids]

    compared = unclear = 0
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        subjects = {"short_words": make_subject(rng, folder, "short_words", (3, 8), True),
                    "stories": make_subject(rng, folder, "stories", (3, 8), False),
                    "very_long": make_subject(rng, folder, "very_long", (30, 200), True)}
        for shots in (0, 2, 5):
            run = subprocess.run([wisp, "eval", "mmlu", str(folder), "--shots", str(shots), "--answers", "--json",
                                  "--compute", "f32", "-m", str(Path(__file__).resolve().parents[2] / "models" /
                                                                "wisp-stories.gguf")],
                                 capture_output=True, text=True, check=True)
            *answers, totals = [json.loads(line) for line in run.stdout.splitlines()]
            got = {(a["subject"], a["question"]): a for a in answers}
            for name, (test, dev) in subjects.items():
                examples = (dev or test)[:shots]
                for number, row in enumerate(test, 1):
                    if not dev and number <= shots:
                        assert (name, number) not in got
                        continue
                    expected = choose(model, encode, name, examples, row)
                    answer = got.pop((name, number), None)
                    if (expected is None) != (answer is None):
                        raise SystemExit(f"{name} {number}: {answer}, where transformers has {expected}")
                    if expected is None:
                        continue
                    assert answer["shots"] == expected[0] and answer["answer"] == "ABCD"[row[5]]
                    compared += expected[1] is not None
                    unclear += expected[1] is None
                    if expected[1] not in (None, answer["choice"]):
                        raise SystemExit(f"{name} {number}, {shots} shots: {answer}, transformers chooses {expected}")
            assert not got
            correct = sum(a["choice"] == a["answer"] for a in answers)
            assert totals["correct"] == correct and totals["questions"] == len(answers)
    print(f"mmlu: {compared} choices are those of transformers; {unclear} are too close to tell")


if __name__ == "__main__":
    main()

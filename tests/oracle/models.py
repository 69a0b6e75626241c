#!/usr/bin/env python3
"""Compares wisp with sentence-transformers on tiny random models, a few hundred a run.

    tests/oracle/models.py WISP [--seed N] [--cases N] [--seconds N] [--case N]... [--keep FOLDER] [--verbose]

A case is a model with some options changed (model_options.py, model_gguf.py): the first cases change one option each,
in an order drawn from the seed; the later ones change several. wisp must give the reference's embeddings and token ids,
or refuse the model with exit code 3 and a message that names a file; anything else is a failure, which is printed with
the command that repeats it. If sentence-transformers refuses a model, only crashes of wisp are failures.

Needs torch, transformers and sentence-transformers: tools/setup.py python torch sentence.
"""

import argparse
import collections
import contextlib
import functools
import io
import json
import logging
import os
import random
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]
os.environ.update(HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false", OMP_NUM_THREADS="1")
sys.path[:0] = [str(REPO / ".tools" / "sentence")]
warnings.filterwarnings("ignore")
logging.disable(logging.CRITICAL)

import numpy as np  # noqa: E402  (the environment must be set first)
import torch  # noqa: E402
import transformers  # noqa: E402
from sentence_transformers import SentenceTransformer  # noqa: E402

import model_gguf  # noqa: E402
import model_options  # noqa: E402
from model_folder import TEXTS, Folder  # noqa: E402

transformers.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()
torch.set_num_threads(1)

KINDS = ("bert", "nomic_bert", "bert GGUF", "nomic_bert GGUF")
OPTIONS = model_options.OPTIONS + [(f"GGUF's {name}", kinds, values) for name, kinds, values in model_gguf.OPTIONS]
SUPPORTED = model_options.SUPPORTED | {(f"GGUF's {name}", value) for name, value in model_gguf.SUPPORTED}
CHANGES = {name: values for name, _, values in OPTIONS}
LEAST_COSINE, MOST_DIFFERENCE = 0.9999, 1e-3


class Failure(Exception):
    """wisp neither agreed with the reference nor refused the model properly."""


class Refused(Exception):
    """wisp refused the model; holds its message."""


# ---- cases ----------------------------------------------------------------------------------------------------------


class Case:
    """A case changes options of a kind of model to values."""

    def __init__(self, kind, chosen):
        self.kind, self.chosen = kind, chosen

    def __str__(self):
        return f"{self.kind}: " + (", ".join(f"{name} = {value}" for name, value in self.chosen) or "nothing changed")

    def must_agree(self):
        return len(self.chosen) == 0 or (len(self.chosen) == 1 and self.chosen[0] in SUPPORTED)


def singles():
    yield from (Case(kind, []) for kind in KINDS)
    for name, kinds, values in OPTIONS:
        for kind in kinds:
            yield from (Case(kind, [(name, value)]) for value in values)


@functools.lru_cache
def shuffled_singles(seed):
    alone = list(singles())
    random.Random(seed).shuffle(alone)
    return alone


def choose(seed, number):
    """The case of this number: each option's values alone, shuffled by the seed, then random combinations."""
    alone = shuffled_singles(seed)
    if number < len(alone):
        return alone[number]
    chosen = random.Random(f"{seed}/{number}")
    kind = chosen.choice(KINDS)
    possible = [(name, list(values)) for name, kinds, values in OPTIONS if kind in kinds]
    options = chosen.sample(possible, chosen.randint(2, 6))
    # Supported values are drawn more often, so that not all combinations are refused.
    def draw(name, values):
        good = [value for value in values if (name, value) in SUPPORTED]
        return chosen.choice(good if good and chosen.random() < 0.8 else values)
    return Case(kind, [(name, draw(name, values)) for name, values in options])


class Built:
    """A case on disk: the folder that the reference reads, and the file or folder that wisp reads."""

    def __init__(self, case, seed, path):
        folder = Folder(case.kind.removesuffix(" GGUF"), seed)
        self.path = self.model = path
        self.assumed, self.refuse = [], False
        if case.kind.endswith(" GGUF"):
            file = model_gguf.prepare(folder)
            for name, value in case.chosen:
                change = CHANGES[name][value]
                change.change(folder, file)
                self.refuse = self.refuse or change.refuse
                self.assumed += [file.key(change.assumed)] if change.assumed else []
            self.model = path.with_suffix(".gguf")
            file.write(self.model)
        else:
            for name, value in case.chosen:
                with contextlib.suppress(KeyError, IndexError, TypeError, StopIteration, AttributeError):
                    CHANGES[name][value](folder)  # does nothing if another option left nothing to change
        folder.write(path)
        self.prompts = [None, "", *folder.prompts]


# ---- the two sides --------------------------------------------------------------------------------------------------


def reference(path, prompts):
    """The embeddings and token ids for each prompt: None for the model's default, "" for none, or a name."""
    with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
        model = SentenceTransformer(str(path), device="cpu", model_kwargs={"dtype": torch.float32})
        rows = {}
        for prompt in prompts:
            how = {} if prompt is None else {"prompt": ""} if prompt == "" else {"prompt_name": prompt}
            rows[prompt] = np.asarray(model.encode(TEXTS, batch_size=1, show_progress_bar=False, **how), np.float64)
        given = model.preprocess(TEXTS)
        ids = [row[mask.bool()].tolist() for row, mask in zip(given["input_ids"], given["attention_mask"])]
    return rows, ids


class Wisp:
    def __init__(self, program):
        self.program = program
        self.input = "".join(json.dumps(text) + "\n" for text in TEXTS).encode()

    def run(self, *words):
        done = subprocess.run([self.program, *map(str, words)], input=self.input, capture_output=True, timeout=120)
        complaint = done.stderr.decode("utf-8", "replace").strip()
        if done.returncode == 3 and complaint and not done.stdout:
            raise Refused(complaint)
        if done.returncode != 0:
            raise Failure(f"wisp {words[0]} ended with {done.returncode}: {complaint}")
        return done.stdout

    def embed(self, path, prompt):
        words = [] if prompt is None else ["--prompt-text", ""] if prompt == "" else ["--prompt", prompt]
        out = self.run("embed", "-m", path, "--compute", "f32", "--threads", 1, "--input", "ndjson", "--format", "json",
                       *words)
        return np.array(json.loads(out))

    def tokenize(self, path):
        return [json.loads(line) for line in self.run("tokenize", "-m", path, "--input", "ndjson").splitlines()]


def compare(found, wanted, what):
    if found.shape != wanted.shape:
        raise Failure(f"{what}: {found.shape} numbers instead of {wanted.shape}")
    lengths = np.linalg.norm(found, axis=1) * np.linalg.norm(wanted, axis=1)
    cosines = np.where(lengths > 0, (found * wanted).sum(axis=1) / np.maximum(lengths, 1e-30), 1)
    difference = np.abs(found - wanted).max() / max(1, np.abs(wanted).max())
    if not cosines.min() >= LEAST_COSINE or not difference <= MOST_DIFFERENCE:
        worst = int(np.argmin(cosines))
        raise Failure(f"{what}: cosine {cosines.min():.6f}, difference {difference:.2g}, first at {TEXTS[worst]!r}")


def says(wisp, model, key):
    """Whether `wisp inspect` lists the key among those that it assumes a value for."""
    return key in json.loads(wisp.run("inspect", "--format", "json", model)).get("assumed", {})


def compare_all(wisp, built, found, wanted, ids):
    for prompt in built.prompts:
        compare(found[prompt], wanted[prompt], f"prompt {prompt!r}")
    for text, own, theirs in zip(TEXTS, wisp.tokenize(built.model), ids):
        if own != theirs:
            raise Failure(f"ids of {text!r}: {own} instead of {theirs}")


def compare_converted(wisp, built, found):
    converted = built.path.with_suffix(".converted")
    wisp.run("convert", "--type", "f32", built.model, converted)
    for prompt in built.prompts:
        if not np.array_equal(wisp.embed(converted, prompt), found[prompt]):
            raise Failure(f"prompt {prompt!r}: the file of wisp convert gives other embeddings")


def check(wisp, built):
    """Returns in a word how the case ended, and why; raises Failure."""
    try:
        wanted, ids = reference(built.path, built.prompts)
    except Exception as error:  # noqa: BLE001  (sentence-transformers raises all kinds)
        wanted, ids, why = None, None, f"{type(error).__name__}: {error}"
    try:
        found = {prompt: wisp.embed(built.model, prompt) for prompt in built.prompts}
    except Refused as refusal:
        return "refused", str(refusal)
    except Failure as failure:
        if wanted is None and "ended with -" not in str(failure):
            return "no reference", f"{failure} ({why})"
        raise
    if built.refuse:
        raise Failure("the file should have been refused")
    if wanted is None:
        return "no reference", why
    try:
        compare_all(wisp, built, found, wanted, ids)
    except Failure as failure:
        if built.assumed and all(says(wisp, built.model, key) for key in built.assumed):
            return "assumed", str(failure)
        if not np.array_equal(reference(built.path, [None])[0][None], wanted[None]):
            return "no reference", "weights that are not in the file are random"
        raise
    compare_converted(wisp, built, found)
    return "equal", ""


# ---- the run --------------------------------------------------------------------------------------------------------


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wisp", type=Path, help="the program")
    parser.add_argument("--seed", type=int, default=int(time.time()) % 1_000_000, help="(default: drawn from the clock)")
    parser.add_argument("--cases", type=int, help="how many cases to run (default: each option alone, and as many more)")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="start no case after this time")
    parser.add_argument("--first", type=int, default=0, help="the number of the first case")
    parser.add_argument("--case", type=int, action="append", help="run this case alone (may be given again)")
    parser.add_argument("--keep", type=Path, help="write the models into this folder and leave them there")
    parser.add_argument("--only", choices=("folders", "GGUF"), help="run only the cases of these")
    parser.add_argument("--list", action="store_true", help="print the options and stop")
    parser.add_argument("--verbose", action="store_true", help="print every case")
    return parser.parse_args()


def run_case(wisp, arguments, number, folder):
    case = choose(arguments.seed, number)
    path = folder / f"case-{number}"
    try:
        result, why = check(wisp, Built(case, f"{arguments.seed}/{number}", path))
        if result == "refused" and case.must_agree():
            raise Failure(f"refused: {why}")
    except Failure as failure:
        result, why = "FAILED", str(failure)
    if arguments.verbose or result == "FAILED":
        print(f"{number} {result}: {case}" + (f"\n    {why.replace(str(path), 'FOLDER')}" if why else ""))
    if result == "FAILED":
        print(f"    repeat: .tools/bin/python-torch tests/oracle/models.py {arguments.wisp} --seed {arguments.seed} "
              f"--case {number} --keep FOLDER", flush=True)
    return result


def main():
    arguments = parse_arguments()
    if arguments.list:
        print(json.dumps({f"{name} ({', '.join(kinds)})": list(values) for name, kinds, values in OPTIONS}, indent=1,
                         ensure_ascii=False))
        return 0
    wisp = Wisp(arguments.wisp.resolve())
    count = arguments.cases or 2 * len(list(singles()))
    numbers = arguments.case or range(arguments.first, arguments.first + count)
    if arguments.only:
        numbers = [number for number in numbers
                   if choose(arguments.seed, number).kind.endswith(" GGUF") == (arguments.only == "GGUF")]
    results, start = collections.Counter(), time.monotonic()
    with tempfile.TemporaryDirectory() as temporary:
        for number in numbers:
            if time.monotonic() - start > arguments.seconds:
                break
            if arguments.keep:
                arguments.keep.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=temporary) as own:
                results[run_case(wisp, arguments, number, arguments.keep or Path(own))] += 1
    print(f"models of seed {arguments.seed}: " + ", ".join(f"{n} {what}" for what, n in sorted(results.items()))
          + f" in {time.monotonic() - start:.0f} s")
    return 1 if results["FAILED"] else 0


if __name__ == "__main__":
    sys.exit(main())

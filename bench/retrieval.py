#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Quality of search on text that no model here was trained on: wisp beside the same weights in PyTorch.

The set is made of the descriptions of the Debian packages that are installed: the query is the line that says in a few words
what a package is, and the only relevant document is its long description, among those of at most `--documents` packages, which
are chosen by a digest of their names. Needs transformers, torch, numpy and a folder of the model.

    python bench/retrieval.py MODEL_FOLDER MODEL.gguf [--documents 1000] [--keep FOLDER]
"""
import argparse
import hashlib
import json
import re
import subprocess
import tempfile
from pathlib import Path

import numpy as np

WISP = Path(__file__).parent.parent / "build/wisp"
CUT = 10


def packages():
    """Yields name, line and long description of each package."""
    for entry in Path("/var/lib/dpkg/status").read_text(encoding="utf-8").split("\n\n"):
        name = re.search(r"^Package: (.+)$", entry, re.M)
        about = re.search(r"^Description(?:-en)?: (.+)\n((?: .*\n?)+)", entry + "\n", re.M)
        if name and about:
            lines = [line.strip() for line in about[2].splitlines()]
            yield name[1], about[1], " ".join("" if line == "." else line for line in lines).strip()


def choose(count):
    """Returns packages whose descriptions occur once, in an order that does not depend on the list's."""
    found = {}
    for name, line, text in packages():
        if len(text) > 200:
            found.setdefault(text, (name, line, text))
    order = sorted(found.values(), key=lambda package: hashlib.sha256(package[0].encode()).digest())
    return order[:count]


def write(folder, chosen):
    (folder / "qrels").mkdir(parents=True, exist_ok=True)
    with open(folder / "corpus.jsonl", "w") as corpus, open(folder / "queries.jsonl", "w") as queries:
        for name, line, text in chosen:
            corpus.write(json.dumps({"_id": "d-" + name, "title": "", "text": text}) + "\n")
            queries.write(json.dumps({"_id": "q-" + name, "text": line}) + "\n")
    rows = [f"q-{name}\td-{name}\t1\n" for name, *_ in chosen]
    (folder / "qrels/test.tsv").write_text("query-id\tcorpus-id\tscore\n" + "".join(rows))


def pytorch(folder, texts):
    """Returns normalised means over tokens, of at most 256, as the model's card says."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()
    order = sorted(range(len(texts)), key=lambda index: len(texts[index]))
    rows = np.empty((len(texts), model.config.hidden_size), np.float32)
    with torch.inference_mode():
        for begin in range(0, len(texts), 16):
            part = order[begin:begin + 16]
            batch = tokenizer([texts[index] for index in part], padding=True, truncation=True, max_length=256,
                              return_tensors="pt")
            mask = batch["attention_mask"].unsqueeze(-1).float()
            hidden = model(**batch).last_hidden_state
            rows[part] = torch.nn.functional.normalize((hidden * mask).sum(1) / mask.sum(1), dim=1).numpy()
    return rows


def scores(queries, documents):
    """Returns nDCG and recall of the first ten, where document i alone answers query i."""
    products = queries @ documents.T
    ranks = (products > np.diag(products)[:, None]).sum(axis=1)
    return float(np.where(ranks < CUT, 1 / np.log2(ranks + 2), 0).mean()), float((ranks < CUT).mean())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", help="the model as PyTorch reads it")
    parser.add_argument("model", help="the model as wisp reads it")
    parser.add_argument("--documents", type=int, default=1000)
    parser.add_argument("--keep", type=Path, help="where the set is written (default: nowhere)")
    arguments = parser.parse_args()
    chosen = choose(arguments.documents)
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.keep or Path(temporary)
        write(folder, chosen)
        print(subprocess.run([WISP, "eval", "retrieval", "-m", arguments.model, folder], check=True, capture_output=True,
                             text=True).stdout)
    rows = pytorch(arguments.folder, [line for _, line, _ in chosen] + [text for *_, text in chosen])
    ndcg, recall = scores(rows[:len(chosen)], rows[len(chosen):])
    print(f"PyTorch, f32: nDCG@10 {ndcg:.4f}, recall@10 {recall:.4f}")


if __name__ == "__main__":
    main()

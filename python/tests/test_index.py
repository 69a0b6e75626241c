"""Indexes by the package."""

import numpy as np
import pytest

from wisp_engine import ArgumentError, Embedder, FormatError, Index


@pytest.fixture(scope="module")
def embedder():
    return Embedder()


def test_texts(embedder, tmp_path):
    index = Index.create(embedder)
    index.add(["a", "b"], ["cats are nice", "the bank"])
    assert index.search("pets", 1)[0].id == "a" and len(index) == 2 and "a" in index and "c" not in index
    assert index.search("pets", 1)[0].metadata == {"text": "cats are nice"}
    index.save(tmp_path / "x.index")
    again = Index.open(tmp_path / "x.index", embedder)
    assert again.search("money", 1)[0].id == "b"
    assert again.remove(["b", "none"]) == 1 and len(again) == 1


def test_vectors():
    index = Index.create(dimensions=8, kind="f32")
    rows = np.eye(8, dtype=np.float32)
    index.add([str(i) for i in range(8)], vectors=rows, metadata=[{"n": i} for i in range(8)])
    assert [match.id for match in index.search(rows[3] + 0.1 * rows[5], 2)] == ["3", "5"]
    assert index.search(rows[2], 1)[0].metadata == {"n": 2}
    with pytest.raises(ArgumentError, match=r"shape \[1, 4\]"):
        index.search(rows[0][:4], 1)
    with pytest.raises(ArgumentError, match="texts need an index with an embedder"):
        index.search("text", 1)
    with pytest.raises(ArgumentError, match="metadata has 1 entries for 2 ids"):
        index.add(["a", "b"], vectors=rows[:2], metadata=[None])


def test_errors(tmp_path, embedder):
    bad = tmp_path / "bad.index"
    bad.write_text("no index")
    with pytest.raises(FormatError):
        Index.open(bad)
    index = Index.create(embedder)
    index.close()
    with pytest.raises(ArgumentError, match="closed"):
        len(index)

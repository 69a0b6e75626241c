"""Reranker beside the scores of sentence-transformers (tests/oracle/make_rankers.py)."""

import json
import os
import pickle
from pathlib import Path

import numpy as np
import pytest

from wisp_engine import Embedder, Reranker, UnsupportedError

MODELS = Path(os.environ["WISP_REPO"]) / "tests/data/models"


@pytest.mark.parametrize("name", ["rank-bert", "rank-roberta", "rank-distilbert", "rank-qwen3"])
def test_scores_are_those_of_sentence_transformers(name: str) -> None:
    cases = json.loads((MODELS / name / "golden.json").read_text())
    with Reranker(MODELS / name, compute="f32") as reranker:
        for case in cases:
            scores = reranker.scores(case["query"], case["texts"])
            np.testing.assert_allclose(scores, case["scores"], atol=2e-5)
        pairs = [(case["query"], text) for text in cases[0]["texts"] for case in cases]
        wanted = [case["scores"][i] for i in range(len(cases[0]["texts"])) for case in cases]
        np.testing.assert_allclose(reranker.predict(pairs), wanted, atol=2e-5)


def test_ranks() -> None:
    case = json.loads((MODELS / "rank-bert" / "golden.json").read_text())[0]
    reranker = Reranker(MODELS / "rank-bert", compute="f32")
    best = reranker.rank(case["query"], case["texts"], top_k=3, return_documents=True)
    assert [entry["corpus_id"] for entry in best] == list(np.argsort(-np.array(case["scores"]))[:3])
    assert [entry["text"] for entry in best] == [case["texts"][entry["corpus_id"]] for entry in best]
    assert reranker.scores("x", []).shape == (0,)


def test_pickles() -> None:
    reranker = Reranker(MODELS / "rank-bert", threads=1)
    again = pickle.loads(pickle.dumps(reranker))
    np.testing.assert_array_equal(again.scores("x", ["one", "two"]), reranker.scores("x", ["one", "two"]))


def test_each_kind_of_model_says_what_it_does() -> None:
    with pytest.raises(UnsupportedError, match="does not score pairs"):
        Reranker(MODELS / "dense")
    with pytest.raises(UnsupportedError, match="scores pairs"):
        Embedder(MODELS / "rank-bert").encode("x")

"""Classifier beside the scores of transformers' text-classification pipeline (tests/oracle/make_rankers.py)."""

import json
import os
import pickle
from pathlib import Path

import numpy as np
import pytest

from wisp_engine import ArgumentError, Classifier, Embedder, Reranker, UnsupportedError

MODELS = Path(os.environ["WISP_REPO"]) / "tests/data/models"


@pytest.mark.parametrize("name", ["labels-bert", "labels-xlm-roberta", "labels-regression", "labels-modernbert"])
def test_scores_are_those_of_transformers(name: str) -> None:
    with Classifier(MODELS / name, compute="f32") as classifier:
        for case in json.loads((MODELS / name / "golden.json").read_text()):
            assert classifier.labels == case["labels"]
            scores = classifier.scores(case["texts"], case["seconds"])
            np.testing.assert_allclose(scores, case["scores"], atol=2e-5)


def test_best_labels() -> None:
    case = json.loads((MODELS / "labels-bert" / "golden.json").read_text())[0]
    classifier = Classifier(MODELS / "labels-bert", compute="f32")
    found = classifier.classify(case["texts"], top_k=2)
    for entries, row in zip(found, case["scores"], strict=True):
        best = np.argsort(-np.array(row))[:2]
        assert [entry["label"] for entry in entries] == [case["labels"][i] for i in best]
        np.testing.assert_allclose([entry["score"] for entry in entries], np.array(row)[best], atol=2e-5)
    assert classifier.classify([]) == []
    with pytest.raises(ArgumentError, match="2 texts and 1 seconds"):
        classifier.scores(["a", "b"], ["c"])


def test_pickles() -> None:
    classifier = Classifier(MODELS / "labels-bert", threads=1)
    again = pickle.loads(pickle.dumps(classifier))
    np.testing.assert_array_equal(again.scores(["one", "two"]), classifier.scores(["one", "two"]))


def test_each_kind_of_model_says_what_it_does() -> None:
    with pytest.raises(UnsupportedError, match="no labels"):
        Classifier(MODELS / "dense")
    with pytest.raises(UnsupportedError, match="does not score pairs"):
        Reranker(MODELS / "labels-bert")
    with pytest.raises(UnsupportedError, match="scores labels"):
        Embedder(MODELS / "labels-bert").encode("x")

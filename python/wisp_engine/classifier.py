"""Scores of labels."""

import os
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import errors
from .engine import OpenModel
from .library import FLOATS, call, encode, interruptible, lib, texts_of


class Classifier(OpenModel):
    """Scores the labels of texts or of pairs of texts: sentiment, inference, topics.

    Scores are those of transformers' text-classification pipeline. Safe in threads: each call has a session of its own.
    Pickles as its path and options.

    Parameters
    ----------
    model : str or PathLike
        A GGUF file, a Hugging Face folder, a URL of a GGUF file or "hf:owner/name".
    threads, compute, kernels : optional
        As those of Embedder.

    Raises
    ------
    WispError
        If the model cannot be opened, or has no labels (UnsupportedError).
    """

    def __init__(self, model: str | os.PathLike[str], *, threads: int | None = None, compute: str | None = None,
                 kernels: str | None = None) -> None:
        super().__init__(model, "wisp-default", threads=threads, compute=compute, kernels=kernels)
        opened = self._engine.model
        names = (lib.wisp_model_label(opened, i) for i in range(lib.wisp_model_dimensions(opened)))
        self.labels: list[str] = [name.decode() for name in names if name]
        if not self.labels:
            self._engine.close()
            raise errors.UnsupportedError(f"{self._path}: the model has no labels: it does not classify texts",
                                          file=self._path)

    def scores(self, texts: Iterable[str], seconds: Iterable[str] | None = None) -> NDArray[np.float32]:
        """Returns scores [texts, labels] of texts or, with as many `seconds`, of pairs of a text and a second one."""
        firsts = [encode(text, f"texts[{index}]") for index, text in enumerate(texts)]
        others = None if seconds is None else [encode(text, f"seconds[{index}]") for index, text in enumerate(seconds)]
        if others is not None and len(others) != len(firsts):
            raise errors.ArgumentError(f"{len(firsts)} texts and {len(others)} seconds", field="seconds")
        array, pairs = texts_of(firsts), None if others is None else texts_of(others)
        scores = np.empty((len(firsts), len(self.labels)), np.float32)
        with self._engine.session() as session:
            interruptible(lambda: call(lib.wisp_classify, session, array, pairs, len(firsts),
                                       scores.ctypes.data_as(FLOATS)),
                          lambda: lib.wisp_session_cancel(session))
        return scores

    def classify(self, texts: Iterable[str], seconds: Iterable[str] | None = None,
                 top_k: int | None = None) -> list[list[dict[str, Any]]]:
        """Returns, for each text, its labels, best first: {"label": name, "score": float}."""
        scores = self.scores(texts, seconds)
        order = np.argsort(-scores, axis=1, kind="stable")[:, :top_k]
        return [[{"label": self.labels[i], "score": float(row[i])} for i in best]
                for row, best in zip(scores, order, strict=True)]

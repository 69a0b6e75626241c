"""Scores of texts for a query."""

import os
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import errors
from .engine import OpenModel
from .library import FLOATS, call, encode, interruptible, lib, text_of, texts_of


class Reranker(OpenModel):
    """Scores texts by how well they answer a query, with a cross-encoder, a ColBERT or Qwen3-Reranker.

    Its names are those of CrossEncoder. Safe in threads: each call has a session of its own. Pickles as its path and
    options.

    Parameters
    ----------
    model : str or PathLike
        A GGUF file, a Hugging Face folder, a URL of a GGUF file or "hf:owner/name".
    threads, compute, kernels : optional
        As those of Embedder.

    Raises
    ------
    WispError
        If the model cannot be opened, or does not score pairs of texts (UnsupportedError).
    """

    def __init__(self, model: str | os.PathLike[str], *, threads: int | None = None, compute: str | None = None,
                 kernels: str | None = None) -> None:
        super().__init__(model, "wisp-default", threads=threads, compute=compute, kernels=kernels)
        if not lib.wisp_model_ranks(self._engine.model):
            self._engine.close()
            raise errors.UnsupportedError(f"{self._path}: the model does not score pairs of texts", file=self._path)

    def scores(self, query: str, texts: Iterable[str]) -> NDArray[np.float32]:
        """Returns a score for each text, of which more is better."""
        data = [encode(text, f"texts[{index}]") for index, text in enumerate(texts)]
        asked, array = encode(query, "query"), texts_of(data)
        scores = np.empty(len(data), np.float32)
        with self._engine.session() as session:
            interruptible(lambda: call(lib.wisp_rerank, session, text_of(asked), array, len(data),
                                       scores.ctypes.data_as(FLOATS)),
                          lambda: lib.wisp_session_cancel(session))
        return scores

    def predict(self, sentences: Sequence[tuple[str, str]]) -> NDArray[np.float32]:
        """Returns a score for each pair of a query and a text."""
        by_query: dict[str, list[int]] = {}
        for index, (query, _) in enumerate(sentences):
            by_query.setdefault(query, []).append(index)
        scores = np.empty(len(sentences), np.float32)
        for query, places in by_query.items():
            scores[places] = self.scores(query, [sentences[place][1] for place in places])
        return scores

    def rank(self, query: str, documents: Sequence[str], top_k: int | None = None,
             return_documents: bool = False) -> list[dict[str, Any]]:
        """Returns the documents, best first: {"corpus_id": index, "score": float} and, if asked for, "text"."""
        scores = self.scores(query, documents)
        order = np.argsort(-scores, kind="stable")[:top_k]
        return [{"corpus_id": int(i), "score": float(scores[i])} | ({"text": documents[i]} if return_documents else {})
                for i in order]

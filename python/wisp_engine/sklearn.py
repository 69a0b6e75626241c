"""wisp as a transformer of scikit-learn's pipelines."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin

from .embedder import Embedder


class WispTransformer(TransformerMixin, BaseEstimator):
    """Turns texts into vectors [texts, dimensions]. There is nothing to fit."""

    def __init__(self, model: str | None = None, threads: int | None = None, prompt_name: str | None = None,
                 truncate_dim: int | None = None) -> None:
        self.model, self.threads, self.prompt_name, self.truncate_dim = model, threads, prompt_name, truncate_dim

    def fit(self, X: Iterable[str], y: Any = None) -> "WispTransformer":
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def transform(self, X: Iterable[str]) -> NDArray[np.float32]:
        with Embedder(self.model, threads=self.threads) as embedder:
            return embedder.encode(X, prompt_name=self.prompt_name, truncate_dim=self.truncate_dim)

"""Columns of texts as columns of vectors, in Arrow: what the adapters for engines of many machines share."""

import functools
from typing import Any

import numpy as np
import pyarrow as pa

from .embedder import Embedder


@functools.cache
def shared(model: str | None, options: tuple[tuple[str, Any], ...]) -> Embedder:
    """Returns the embedder of this process: a model is opened once, however many tasks use it."""
    return Embedder(model, **dict(options))


class ColumnEmbedder:
    """Embeds columns. It is small and pickles: each process opens the model when it first computes.

    Parameters
    ----------
    model : str, optional
        As for Embedder. It must have the same meaning on every machine.
    prompt, prompt_name, truncate_dim : optional
        As for Embedder.encode.
    threads : int
        Threads of a call. These engines run a task for each core, so the default is 1.
    options
        Further options of Embedder. With `portable=True` machines of different kinds give the same bits.
    """

    def __init__(self, model: str | None = None, *, prompt: str | None = None, prompt_name: str | None = None,
                 truncate_dim: int | None = None, threads: int = 1, **options: Any) -> None:
        self._key = (model, tuple(sorted({"threads": threads, **options}.items())))
        self._call: dict[str, Any] = {"prompt": prompt, "prompt_name": prompt_name, "truncate_dim": truncate_dim}

    @property
    def dimensions(self) -> int:
        """The number of values of a vector."""
        return int(self._call["truncate_dim"] or shared(*self._key).dimensions)

    def __call__(self, texts: pa.Array | pa.ChunkedArray) -> pa.FixedSizeListArray:
        """Embeds texts. Rows without a text are rows without a vector."""
        values = texts.to_pylist()
        rows = np.zeros((len(values), self.dimensions), np.float32)
        present = [index for index, value in enumerate(values) if value is not None]
        if present:
            rows[present] = shared(*self._key).encode([values[index] for index in present], **self._call)
        absent = np.ones(len(values), bool)
        absent[present] = False
        return pa.FixedSizeListArray.from_arrays(pa.array(rows.reshape(-1)), self.dimensions, mask=pa.array(absent))

"""wisp under Daft."""

from typing import Any

import daft

from .arrow import ColumnEmbedder


def embed(column: daft.Expression, *, model: str | None = None, batch_size: int = 1024,
          **options: Any) -> daft.Expression:
    """Returns the expression of a column's vectors: `frame.with_column("v", embed(daft.col("text")))`.

    Batches of `batch_size` texts are embedded at the same time, on a thread for each core. `options` are those of
    ColumnEmbedder. Nulls stay null.
    """
    embedder = ColumnEmbedder(model, **options)
    kind = daft.DataType.fixed_size_list(daft.DataType.float32(), embedder.dimensions)

    @daft.func.batch(return_dtype=kind, batch_size=batch_size)
    def vectors(texts: daft.Series) -> daft.Series:
        return daft.Series.from_arrow(embedder(texts.to_arrow()), "vectors").cast(kind)

    return vectors(column)

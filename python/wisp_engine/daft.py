"""wisp under Daft."""

from typing import Any

import daft

from .arrow import ColumnEmbedder


def embed(column: daft.Expression, *, model: str | None = None, **options: Any) -> daft.Expression:
    """Returns the expression of a column's vectors: `frame.with_column("v", embed(daft.col("text")))`.

    `options` are those of ColumnEmbedder. Nulls stay null.
    """
    embedder = ColumnEmbedder(model, **options)
    kind = daft.DataType.fixed_size_list(daft.DataType.float32(), embedder.dimensions)

    @daft.func.batch(return_dtype=kind)
    def vectors(texts: daft.Series) -> daft.Series:
        return daft.Series.from_arrow(embedder(texts.to_arrow()), "vectors").cast(kind)

    return vectors(column)

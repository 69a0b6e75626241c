"""wisp as a function of DuckDB."""

from typing import Any

import duckdb
import pyarrow as pa

from .arrow import ColumnEmbedder


def register(connection: duckdb.DuckDBPyConnection, name: str = "embed", *, model: str | None = None,
             **options: Any) -> None:
    """Adds a function from VARCHAR to FLOAT[dimensions]: `SELECT embed(text) FROM notes`.

    `options` are those of ColumnEmbedder. NULL gives NULL.
    """
    embedder = ColumnEmbedder(model, **options)

    def vectors(texts: pa.ChunkedArray) -> pa.Array:
        return embedder(texts)

    connection.create_function(name, vectors, ["VARCHAR"], f"FLOAT[{embedder.dimensions}]",  # type: ignore[list-item]
                               type="arrow")  # type: ignore[arg-type]

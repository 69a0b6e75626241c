"""wisp under Spark."""

from typing import Any

import pandas as pd
from pyspark.sql.functions import pandas_udf
from pyspark.sql.types import ArrayType, FloatType


def embed_udf(*, model: str | None = None, **options: Any) -> Any:
    """Returns a UDF from a column of texts to arrays of floats: `frame.withColumn("v", embed_udf()("text"))`.

    `options` are those of ColumnEmbedder. Nulls stay null.
    """

    @pandas_udf(ArrayType(FloatType()))  # type: ignore[call-overload]
    def vectors(texts: pd.Series) -> pd.Series:
        import pyarrow as pa

        from wisp_engine.arrow import ColumnEmbedder

        rows = ColumnEmbedder(model, **options)(pa.array(texts, pa.string()))
        return pd.Series(rows.to_numpy(zero_copy_only=False))

    return vectors

"""wisp under Ray Data."""

from typing import Any

import pyarrow as pa
import ray
import ray.data

from .arrow import ColumnEmbedder


def embed(dataset: ray.data.Dataset, column: str, output: str = "embedding", *, model: str | None = None,
          workers: int | tuple[int, int] | None = None, batch_size: int = 1024, **options: Any) -> ray.data.Dataset:
    """Adds a column of vectors to a dataset.

    A batch that is lost with its worker is computed again, and each row appears once. Vectors have the same bits
    whatever the batches and workers are.

    Parameters
    ----------
    dataset : ray.data.Dataset
    column : str
        The column with texts. Nulls stay null.
    output : str
        The column to add: fixed-size lists of float32.
    workers : int or (int, int), optional
        Worker processes, or the fewest and most. The default is up to one for each core of the cluster. A fixed number
        must leave a core for what reads the dataset: Ray waits for one for ever.
    batch_size : int
        Rows of a batch.
    options
        Those of ColumnEmbedder: prompt, prompt_name, truncate_dim, portable, ...
    """
    if workers is None:
        if not ray.is_initialized():
            ray.init()
        workers = (1, max(int(ray.cluster_resources().get("CPU", 1)), 1))
    embedder = ColumnEmbedder(model, **options)

    class Actor:
        """Adds the column to batches, in a worker process. It takes no arguments: Ray restarts a worker that was
        killed, but may have freed its arguments by then (its issue 53727)."""

        def __call__(self, batch: pa.Table) -> pa.Table:
            return batch.append_column(output, embedder(batch[column]))

    return dataset.map_batches(Actor, batch_format="pyarrow", batch_size=batch_size, concurrency=workers, num_cpus=1)

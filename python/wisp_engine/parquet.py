"""Parquet files with a column of vectors, written in parts: a run that is killed loses no more than the part it was at.

    python -m wisp_engine.parquet texts.parquet vectors/ --column text --shard 1/4
"""

import argparse
import contextlib
import hashlib
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from .arrow import ColumnEmbedder
from .errors import ArgumentError

SETTINGS = "_wisp.json"  # readers of Parquet folders leave out names that begin with _
PROBES = pa.array(["a", "The cat sat on the mat.", "0 1 2 3 4 5 6 7 8 9, été; (x + y) = z?"])


def embed(sources: Sequence[str | os.PathLike[str]], target: str | os.PathLike[str], column: str = "text",
          output: str = "embedding", *, model: str | None = None, part_rows: int = 8192,
          shard: tuple[int, int] = (1, 1), show_progress: bool = False, **options: Any) -> int:
    """Writes the rows of Parquet files, with a column of vectors, as a folder of Parquet files.

    A part holds `part_rows` rows, in the order of the sources, and appears when it is complete. A later call with the
    same arguments leaves out the parts that are there. What the folder has in the end does not depend on how often it
    was begun, on the threads, or on which shard wrote what.

    Parameters
    ----------
    sources : sequence of str or PathLike
        Parquet files.
    target : str or PathLike
        A folder, which may exist.
    column : str
        The column with texts. Nulls stay null.
    output : str
        The column to add: fixed-size lists of float32.
    part_rows : int
        Rows of a part.
    shard : (int, int)
        (i, n) writes parts i, i + n, ... of all, counted from 1, so that n processes share the work.
    show_progress : bool
        Tell on standard error how far it is.
    options
        Those of ColumnEmbedder: prompt, prompt_name, truncate_dim, threads, portable, ...

    Returns
    -------
    int
        The rows that this call embedded.

    Raises
    ------
    ArgumentError
        If the folder was begun with other sources or options, or with a model or kernel set that computes other bits.
    """
    if not 1 <= shard[0] <= shard[1]:
        raise ArgumentError(f"shard: {shard[0]}/{shard[1]}: the first must be from 1 to the second")
    if part_rows < 1:
        raise ArgumentError(f"part_rows: {part_rows}: must be at least 1")
    folder, paths = Path(target), [Path(source) for source in sources]
    embedder = ColumnEmbedder(model, **options)
    folder.mkdir(parents=True, exist_ok=True)
    settle(folder, {"sources": [[path.name, path.stat().st_size] for path in paths], "column": column,
                    "output": output, "part_rows": part_rows,
                    "model": hashlib.sha256(embedder(PROBES).values.to_numpy().tobytes()).hexdigest()})
    mine = list(parts(paths, part_rows, folder))[shard[0] - 1::shard[1]]
    missing = [part for part in mine if not part[2].exists()]
    progress = Progress(part_rows * len(missing)) if show_progress else None
    done = 0
    for path, numbers in by_source(missing):
        for number, batch in enumerate(pq.ParquetFile(path).iter_batches(part_rows)):
            if number in numbers:
                table = pa.Table.from_batches([batch])
                # pyarrow writes rows that are null in a list of fixed size, and cannot read them again.
                vectors = embedder(table[column]).cast(pa.list_(pa.float32()))
                write(table.append_column(output, vectors), numbers[number])
                done += len(table)
                if progress:
                    progress.show(done)
    return done


def parts(paths: Sequence[Path], rows: int, folder: Path) -> Iterator[tuple[Path, int, Path]]:
    """Yields each part: its source, its number there, and the file to write."""
    for index, path in enumerate(paths):
        for number in range(-(-pq.ParquetFile(path).metadata.num_rows // rows)):
            yield path, number, folder / f"part-{index:05}-{number:06}.parquet"


def by_source(some: Sequence[tuple[Path, int, Path]]) -> Iterator[tuple[Path, dict[int, Path]]]:
    """Yields the sources of some parts, each with the numbers and files of its parts."""
    sources: dict[Path, dict[int, Path]] = {}
    for path, number, file in some:
        sources.setdefault(path, {})[number] = file
    yield from sources.items()


def settle(folder: Path, settings: dict[str, Any]) -> None:
    """Writes the settings beside the parts, or compares them with those that are there."""
    file = folder / SETTINGS
    if not file.exists():
        mine = folder / f"{SETTINGS}.{os.getpid()}"
        mine.write_text(json.dumps(settings) + "\n")
        with contextlib.suppress(FileExistsError):  # another shard was first
            os.link(mine, file)
        mine.unlink()
    kept = json.loads(file.read_text())
    for name, value in settings.items():
        if kept.get(name) != value:
            raise ArgumentError(f"{file}: {name}: the folder was begun with {kept.get(name)!r}, not {value!r}")


def write(table: pa.Table, file: Path) -> None:
    """Writes a file that appears under its name when it is complete and on disk."""
    temporary = file.with_name(f"_{file.name}.{os.getpid()}")
    with open(temporary, "wb") as stream:
        pq.write_table(table, stream)
        stream.flush()
        os.fsync(stream.fileno())
    os.replace(temporary, file)


class Progress:
    """A line on standard error: in place on a terminal, else each minute."""

    def __init__(self, rows: int) -> None:
        self.rows, self.start, self.shown = rows, time.monotonic(), time.monotonic()

    def show(self, done: int) -> None:
        now, terminal = time.monotonic(), sys.stderr.isatty()
        if now - self.shown < (0.1 if terminal else 60):
            return
        self.shown = now
        rate = done / (now - self.start)
        left = max(self.rows - done, 0) / rate
        line = f"{done} rows, {rate:.0f}/s, {min(100 * done / self.rows, 100):.0f}%, {left / 60:.1f} min left"
        print(f"\r\033[K{line}" if terminal else f"wisp: {line}", end="" if terminal else "\n", file=sys.stderr,
              flush=True)


def main() -> None:
    """Runs `python -m wisp_engine.parquet`."""
    parser = argparse.ArgumentParser(
        prog="python -m wisp_engine.parquet",
        description="Writes the rows of Parquet files, with a column of vectors, as a folder of Parquet files.")
    parser.add_argument("sources", nargs="+", help="Parquet files")
    parser.add_argument("target", help="the folder to write or to continue")
    parser.add_argument("--column", default="text", help="with the texts (default: text)")
    parser.add_argument("--output-column", default="embedding", help="to add (default: embedding)")
    parser.add_argument("--model", help="as Embedder takes it")
    parser.add_argument("--prompt-name", help="a prompt of the model")
    parser.add_argument("--part-rows", type=int, default=8192, help="rows of a part (default: 8192)")
    parser.add_argument("--threads", type=int, default=1, help="threads (default: 1)")
    parser.add_argument("--portable", action="store_true", help="the same bits on every machine")
    parser.add_argument("--shard", default="1/1", metavar="I/N", help="write parts I, I + N, ... only")
    taken = parser.parse_args()
    try:
        index, count = (int(part) for part in taken.shard.split("/"))
    except ValueError:
        parser.error(f"--shard {taken.shard}: expected I/N, such as 1/8")
    embed(taken.sources, taken.target, taken.column, taken.output_column, model=taken.model,
          prompt_name=taken.prompt_name, part_rows=taken.part_rows, threads=taken.threads, portable=taken.portable,
          shard=(index, count), show_progress=True)


if __name__ == "__main__":
    main()

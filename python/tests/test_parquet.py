"""Parquet files in parts: what a killed run leaves is continued, and the result is that of one run."""

import random
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from wisp_engine import ArgumentError, Embedder

pa = pytest.importorskip("pyarrow", reason="skipped: pyarrow is not installed")
pq = pytest.importorskip("pyarrow.parquet", reason="skipped: pyarrow is not installed")

TEXTS = [None if i % 31 == 5 else f"text {i % 57} of file {i // 900}" for i in range(1500)]


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sources")
    for name, some in (("a", TEXTS[:900]), ("b", TEXTS[900:])):
        pq.write_table(pa.table({"id": range(len(some)), "t": some}), folder / f"{name}.parquet", row_group_size=250)
    return [folder / "a.parquet", folder / "b.parquet"]


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if not path.name.startswith("_part")}


@pytest.fixture(scope="module")
def whole(sources, tmp_path_factory):
    from wisp_engine.parquet import embed

    folder = tmp_path_factory.mktemp("whole") / "vectors"
    assert embed(sources, folder, "t", part_rows=100) == len(TEXTS)
    return folder


def test_rows_and_columns(whole):
    table = pq.read_table(whole)
    assert table.column_names == ["id", "t", "embedding"] and table["t"].to_pylist() == TEXTS
    rows, present = table["embedding"].combine_chunks(), [text for text in TEXTS if text is not None]
    assert rows.null_count == len(TEXTS) - len(present)
    made = np.array(rows.drop_null().to_pylist(), np.float32)
    assert made.tobytes() == Embedder().encode(present).tobytes()


def test_shards_and_a_second_call(sources, whole, tmp_path):
    from wisp_engine.parquet import embed

    done = [embed(sources, tmp_path / "v", "t", part_rows=100, shard=(i, 2)) for i in (1, 2)]
    assert sum(done) == len(TEXTS) and min(done) >= 700
    assert contents(tmp_path / "v") == contents(whole)
    assert embed(sources, tmp_path / "v", "t", part_rows=100) == 0


def test_killed_again_and_again(sources, whole, tmp_path):
    """Runs are killed at random moments, with parts of few rows, until one comes to its end."""
    target, rng, kills = tmp_path / "v", random.Random(35), 0
    command = [sys.executable, "-m", "wisp_engine.parquet", *map(str, sources), str(target), "--column", "t",
               "--part-rows", "100"]
    while True:
        run = subprocess.Popen(command)
        parts = len(contents(target)) if target.exists() else 0
        deadline = time.monotonic() + 60
        # Wait for a part or two of this run, so that each run gets on, and kill it then.
        while run.poll() is None and time.monotonic() < deadline and (
                not target.exists() or len(contents(target)) < parts + rng.randrange(1, 4)):
            time.sleep(0.001)
        time.sleep(rng.random() * 0.05)
        run.send_signal(signal.SIGKILL)
        if run.wait() == 0:
            break
        kills += 1
    assert kills > 0
    assert contents(target) == contents(whole)


def test_other_settings_are_refused(sources, whole):
    from wisp_engine.parquet import embed

    before = contents(whole)
    for changed, field in (({"portable": True}, "model"), ({"prompt": "x: "}, "model"),
                           ({"part_rows": 50}, "part_rows"), ({"output": "v"}, "output")):
        with pytest.raises(ArgumentError, match=f"{field}: the folder was begun with"):
            embed(sources, whole, "t", **({"part_rows": 100} | changed))
    with pytest.raises(ArgumentError, match="sources"):
        embed(sources[:1], whole, "t", part_rows=100)
    for shard in ((0, 2), (3, 2)):
        with pytest.raises(ArgumentError, match="shard"):
            embed(sources, whole, "t", shard=shard)
    assert contents(whole) == before

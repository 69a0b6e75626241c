"""Ray Data: each row once and with its bits, also when workers are killed."""

import os
import signal
from pathlib import Path

import numpy as np
import pytest

from wisp_engine import Embedder

COUNT = int(os.environ.get("WISP_RAY_ROWS", "6000"))


@pytest.fixture
def ray():
    ray = pytest.importorskip("ray", reason="skipped: ray is not installed")
    pytest.importorskip("ray.data", reason="skipped: ray's data is not installed")
    # Two for workers, and one for what makes their batches: without it Ray waits for ever.
    ray.init(num_cpus=3, include_dashboard=False, log_to_driver=False)
    yield ray
    ray.shutdown()


def texts():
    return [f"sentence number {index} about {'cats' if index % 3 else 'banks'}" for index in range(COUNT)]


def embedded(ray, **options):
    from wisp_engine.ray import embed

    dataset = ray.data.from_items([{"id": index, "t": text} for index, text in enumerate(texts())])
    return embed(dataset.repartition(8), "t", **options)


def test_the_bits_of_one_process(ray):
    rows = embedded(ray, batch_size=257).take_all()
    assert sorted(row["id"] for row in rows) == list(range(COUNT))
    made = np.stack([row["embedding"] for row in sorted(rows, key=lambda row: row["id"])])
    assert made.astype(np.float32).tobytes() == Embedder().encode(texts()).tobytes()


def test_a_killed_worker(ray):
    """A worker dies in the middle. Its batch is computed again, and each row is there once."""
    killed, seen = False, []
    for batch in embedded(ray, batch_size=256, workers=2).iter_batches(batch_size=256):
        seen.extend(batch["id"].tolist())
        if not killed:
            killed = kill_one()
    assert killed and sorted(seen) == list(range(COUNT))


def kill_one():
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                name = Path(f"/proc/{entry}/cmdline").read_bytes()
            except OSError:
                continue
            if b"ray::" in name and b"MapBatches" in name:
                os.kill(int(entry), signal.SIGKILL)
                return True
    return False

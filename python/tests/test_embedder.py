"""Embeddings by the package: the bits of the C library, and behaviour that Python users expect."""

import json
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from wisp_engine import ArgumentError, Embedder, FormatError, InputOutputError, NotFoundError, WispError

DATA = Path(os.environ["WISP_REPO"]) / "tests/data"
TEXTS = [json.loads(line)["text"] for line in (DATA / "golden-default.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def embedder():
    return Embedder(threads=2)


def test_equals_pytorch():
    golden = np.fromfile(DATA / "golden-default.f32", np.float32).reshape(len(TEXTS), -1)
    rows = Embedder(compute="f32", predictor="dense").encode(TEXTS)
    assert (rows * golden).sum(axis=1).min() > 0.999999


def test_portable_bits():
    golden = np.fromfile(DATA / "golden-portable.f32", np.float32)
    rows = Embedder(portable=True).encode(TEXTS[:12])
    assert rows.tobytes() == golden[: rows.size].tobytes()


def test_shapes_and_types(embedder):
    assert embedder.encode("one").shape == (384,)
    assert embedder.encode([]).shape == (0, 384)
    assert embedder.encode(text for text in ["a", "b"]).shape == (2, 384)
    assert embedder.encode(["a"], truncate_dim=64).shape == (1, 64)
    assert isinstance(embedder.encode(["a", "b"], convert_to_numpy=False), list)
    rows = embedder.encode(["cats", "dogs"])
    for precision, kind, width in [("float16", np.float16, 384), ("int8", np.int8, 384), ("binary", np.int8, 48),
                                   ("ubinary", np.uint8, 48)]:
        made = embedder.encode(["cats", "dogs"], precision=precision)
        assert made.dtype == kind and made.shape == (2, width)
    packed = embedder.encode(["cats", "dogs"], precision="ubinary")
    assert np.array_equal(np.unpackbits(packed, axis=1), rows > 0)
    int8 = embedder.encode(["cats"], precision="int8")[0].astype(float)
    assert np.dot(int8, rows[0]) / np.linalg.norm(int8) > 0.9999


def test_bits_do_not_depend_on_the_batch(embedder):
    together = embedder.encode(TEXTS)
    alone = np.stack([embedder.encode(text) for text in TEXTS])
    assert together.tobytes() == alone.tobytes()
    assert np.stack(list(embedder.encode_stream(iter(TEXTS), chunk=7))).tobytes() == together.tobytes()


def test_similarity(embedder):
    rows = embedder.encode(["The cat sleeps on the sofa.", "Interest is due every month."])
    scores = embedder.similarity(rows, embedder.encode("animals resting"))
    assert scores.shape == (2, 1) and scores[0, 0] > scores[1, 0] + 0.1


def test_prompts(embedder):
    prompted = embedder.encode("cats", prompt="query: ")
    assert prompted.tobytes() == embedder.encode("query: cats").tobytes()
    assert embedder.encode_query("cats").tobytes() == embedder.encode("cats").tobytes()
    with pytest.raises(ArgumentError, match="no prompt 'nothing'"):
        embedder.encode("cats", prompt_name="nothing")


def test_errors_name_what_is_wrong(embedder, tmp_path):
    with pytest.raises(ArgumentError, match=r"sentences\[1\] must be a str, not int"):
        embedder.encode(["a", 3])
    with pytest.raises(NotFoundError, match=r'write "hf:owner/name"'):
        Embedder("owner/name")
    with pytest.raises(ArgumentError, match="compute: unknown value 'int9'"):
        Embedder(compute="int9")
    with pytest.raises(ArgumentError, match="threads must be an int from 1 to 1024, not 0"):
        Embedder(threads=0)
    bad = tmp_path / "bad.gguf"
    bad.write_bytes(b"not a model at all, but long enough to be one")
    with pytest.raises(FormatError) as caught:
        Embedder(bad)
    assert caught.value.file.endswith("bad.gguf")
    copy = pickle.loads(pickle.dumps(caught.value))
    assert type(copy) is FormatError and str(copy) == str(caught.value) and copy.file == caught.value.file
    with pytest.raises(InputOutputError, match="refused"):
        Embedder("http://127.0.0.1:9/model.gguf")


def test_odd_texts(embedder):
    replaced = embedder.encode("a\ud800b")
    assert np.isfinite(replaced).all()
    assert embedder.encode("nul\0byte").tobytes() != embedder.encode("nul").tobytes()


def test_closed():
    with Embedder() as embedder:
        embedder.encode("a")
    for use in (lambda: embedder.encode("a"), lambda: embedder.info, lambda: embedder.count_tokens("a")):
        with pytest.raises(ArgumentError, match="closed"):
            use()
    embedder.close()


def test_pickle(embedder):
    copy = pickle.loads(pickle.dumps(embedder))
    assert copy.encode(TEXTS).tobytes() == embedder.encode(TEXTS).tobytes()


def test_threads_get_the_same_bits(embedder):
    expected = embedder.encode(TEXTS).tobytes()
    with ThreadPoolExecutor(4) as pool:
        assert all(rows.tobytes() == expected for rows in pool.map(embedder.encode, [TEXTS] * 12))


def test_other_threads_run_meanwhile(embedder):
    """The call does not hold the interpreter's lock: another thread counts on."""
    counted, stop = [0], threading.Event()

    def count():
        while not stop.is_set():
            counted[0] += 1

    thread = threading.Thread(target=count)
    thread.start()
    before = counted[0]
    embedder.encode(TEXTS * 5)
    after = counted[0]
    stop.set()
    thread.join()
    assert after > before


@pytest.mark.skipif(not hasattr(os, "fork"), reason="skipped: no fork here")
def test_fork(embedder):
    expected = embedder.encode(TEXTS).tobytes()
    child = os.fork()
    if child == 0:
        os._exit(0 if embedder.encode(TEXTS).tobytes() == expected else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert embedder.encode(TEXTS).tobytes() == expected


@pytest.mark.skipif(sys.platform == "win32", reason="skipped: Windows has no signal for one process")
def test_interrupt():
    """Ctrl-C ends a long call, and the embedder stays usable."""
    program = """
import signal
from wisp_engine import Embedder
signal.signal(signal.SIGINT, signal.default_int_handler)  # the parent may ignore it
embedder = Embedder(threads=1)
expected = embedder.encode("a").tobytes()
print("ready", flush=True)
try:
    embedder.encode(["some text of a dozen words or so, to make it take a while"] * 1_000_000)
except KeyboardInterrupt:
    print("interrupted", embedder.encode("a").tobytes() == expected, flush=True)
"""
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "ready\n"
    time.sleep(3)  # past the making of a million bytes objects
    child.send_signal(signal.SIGINT)
    assert child.communicate(timeout=60)[0] == "interrupted True\n"


def test_progress(embedder, capfd):
    embedder.encode(["a"] * 10, show_progress_bar=True, batch_size=4)
    assert "10/10 texts" in capfd.readouterr().err


def test_environment_names_the_model(monkeypatch, tmp_path):
    monkeypatch.setenv("WISP_MODEL", str(tmp_path / "none.gguf"))
    with pytest.raises(NotFoundError, match=r"none\.gguf"):
        Embedder()


def test_hub_cache(monkeypatch, tmp_path):
    """A model in huggingface_hub's cache is opened without a network."""
    pytest.importorskip("huggingface_hub")
    commit = "0123456789012345678901234567890123456789"
    folder = tmp_path / "models--someone--tiny"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs/main").write_text(commit)
    snapshot = folder / "snapshots" / commit
    snapshot.mkdir(parents=True)
    shipped = Path(sys.modules["wisp_engine"].__file__).parent / "models/wisp-default.gguf"
    (snapshot / "tiny.gguf").symlink_to(shipped)
    program = "from wisp_engine import Embedder; print(Embedder('hf:someone/tiny/tiny.gguf').dimensions)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                          env=os.environ | {"HF_HUB_CACHE": str(tmp_path), "HF_HUB_OFFLINE": "1"}, check=False)
    assert done.stdout == "384\n", done.stderr


def test_every_error_is_a_wisp_error():
    import wisp_engine.errors as errors

    for name in errors.__all__:
        assert issubclass(getattr(errors, name), WispError)


def test_vector_cache(tmp_path):
    """Rows that are read have the bits of rows that are computed, in this process, another one and a fork."""
    options = {"vector_cache": tmp_path / "vectors", "threads": 2}
    plain = Embedder().encode(TEXTS)
    with Embedder(**options) as embedder:
        assert embedder.encode(TEXTS).tobytes() == plain.tobytes()
        computed = embedder.vector_cache_stats["computed"]
        found = len(TEXTS) - computed
        assert embedder.vector_cache_stats == {"found": found, "computed": computed, "lost": 0, "truncated": 0}
        with pytest.raises(ArgumentError):
            embedder.encode(["a"], truncate_dim=385)
        short = Embedder().encode(TEXTS[0], truncate_dim=64)
        assert embedder.encode(TEXTS[0], truncate_dim=64).tobytes() == short.tobytes()
        again = pickle.loads(pickle.dumps(embedder))
        assert again.encode(TEXTS).tobytes() == plain.tobytes()
        assert again.vector_cache_stats == {"found": len(TEXTS), "computed": 0, "lost": 0, "truncated": 1}
        if hasattr(os, "fork"):
            pid = os.fork()
            if pid == 0:
                same = embedder.encode(TEXTS).tobytes() == plain.tobytes()
                os._exit(0 if same and embedder.vector_cache_stats["found"] == len(TEXTS) else 1)
            assert os.waitpid(pid, 0)[1] == 0
        with ThreadPoolExecutor(4) as threads:
            rows = list(threads.map(embedder.encode, TEXTS * 3))
        assert np.stack(rows).tobytes() == plain.tobytes() * 3
    with pytest.raises(ArgumentError):
        embedder.vector_cache_stats  # noqa: B018
    assert Embedder().vector_cache_stats is None


def test_a_vector_cache_that_cannot_be(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputOutputError, match="another vector cache"):
        Embedder(vector_cache=tmp_path / "file")
    with pytest.raises(ArgumentError):
        Embedder(vector_cache=tmp_path, vector_cache_size=0)
    with pytest.raises(ArgumentError, match="vector_cache_size requires vector_cache"):
        Embedder(vector_cache_size=1000000)
    with pytest.raises(WispError, match="rows of 1537 bytes"):
        Embedder(vector_cache=tmp_path, vector_cache_size=1000)

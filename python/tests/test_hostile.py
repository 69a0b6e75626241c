"""Careless and hostile uses: nothing is lost, cut or taken for something else without a word."""

import http.server
import os
import re
import signal
import threading

import numpy as np
import pytest

from wisp_engine import ArgumentError, Embedder, Generator, Index, InputOutputError, UnsupportedError, WispError

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="skipped: no fork here")


@pytest.fixture(scope="module")
def embedder():
    return Embedder(threads=2)


@pytest.fixture(scope="module")
def generator():
    return Generator(threads=2)


def two_rows():
    index = Index.create(dimensions=4, kind="f32")
    index.add(["a", "b"], vectors=np.eye(4)[:2])
    return index


def test_a_file_that_is_no_index_stays(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("what the user wrote")
    with pytest.raises(ArgumentError, match="is not an index"):
        two_rows().save(path)
    assert path.read_text() == "what the user wrote"
    two_rows().save(path, force=True)
    two_rows().save(path)
    (tmp_path / "empty").touch()
    two_rows().save(tmp_path / "empty")


@pytest.mark.parametrize("k", [0, -1, 2**64, 1.5, True, None])
def test_k(k):
    with pytest.raises(ArgumentError, match="k must be"):
        two_rows().search(np.ones(4), k)
    assert len(two_rows().search(np.ones(4), 2**40)) == 2


@pytest.mark.parametrize(("name", "values"), {
    "max_tokens": [0, -1, 2**32, 1.5, True], "top_k": [0, -1, 2**32], "top_p": [0, 0.0, 1e-320, float("nan")],
    "typical_p": [0], "repetition_penalty": [0], "penalty_window": [0, -1], "seed": [-1, 2**64, "1"],
    "keep_tokens": [-1, 2**32], "context_shift": [1, "yes"], "temperature": [float("inf"), "0"],
    "stop": ["", ["a\0b"], [5], 5]}.items())
def test_options_of_a_text(generator, name, values):
    for value in values:
        with pytest.raises(ArgumentError, match=name):
            generator.generate("a", **{"max_tokens": 1, name: value})


@pytest.mark.parametrize("ids", [[2**32 + 5], [-1], [1.5], ["1"]])
def test_ids_are_not_taken_modulo(generator, ids):
    for call in (generator.detokenize, generator.logits):
        with pytest.raises(ArgumentError):
            call(ids)
    with pytest.raises(ArgumentError):
        generator.generate("a", max_tokens=1, logit_bias={ids[0]: 1.0})


def test_numbers_of_embedders(embedder):
    for options in ({"truncate_dim": 0}, {"truncate_dim": -1}, {"truncate_dim": 2**32 + 8}, {"batch_size": 0}):
        with pytest.raises(ArgumentError):
            embedder.encode("a", **options)
    for threads in (0, -1, 2**32 + 1, True):
        with pytest.raises(ArgumentError):
            Embedder(threads=threads)
    for dimensions in (0, -1, 2**32 + 4):
        with pytest.raises(WispError):
            Index.create(dimensions=dimensions)


def test_a_nul_cuts_nothing(embedder, generator, tmp_path):
    for call in (lambda: embedder.encode("a", prompt="b\0c"), lambda: embedder.encode("a", prompt_name="query\0"),
                 lambda: Embedder(compute="int8\0x"), lambda: Embedder(device="cpu\0x"),
                 lambda: Index.create(dimensions=4, kind="f32\0x"), lambda: Index.open(f"{tmp_path}/a\0b"),
                 lambda: generator.chat([{"role": "user", "content": "a"}], format="plain\0x"),
                 lambda: two_rows().save(f"{tmp_path}/a\0b", force=True)):
        with pytest.raises(ArgumentError, match="must not have a NUL"):
            call()
    assert list(tmp_path.iterdir()) == []
    assert (embedder.encode("a\0b") != embedder.encode("a")).any()


def test_one_prompt_costs_no_other(generator):
    with pytest.raises(ArgumentError, match=r"prompts\[1\]: .*context") as raised:
        generator.generate_batch(["Once", "long " * 3000, "The dog"], max_tokens=5)
    first, second, third = raised.value.results
    assert first.text == generator.generate("Once", max_tokens=5).text
    assert third.text == generator.generate("The dog", max_tokens=5).text
    assert isinstance(second, ArgumentError) and second.field == "prompt"


def test_a_str_is_not_a_sequence_of_ids(embedder):
    index = two_rows()
    for call in (lambda: index.remove("ab"), lambda: index.add("ab", vectors=np.eye(4)[:2])):
        with pytest.raises(ArgumentError, match="ids must be a sequence"):
            call()
    assert len(index) == 2
    with pytest.raises(ArgumentError, match="metadata has 0 entries"):
        Index.create(embedder).add(["a"], ["text"], metadata=[])


def test_metadata_can_be_read_by_all(tmp_path):
    index = two_rows()
    index.add(["c"], vectors=np.eye(4)[2:3], metadata=[{"a": "x\ud800y", "\udc00": 1}])
    assert index.search(np.eye(4)[2], 1)[0].metadata == {"a": "x\ufffdy", "\ufffd": 1}
    for bad in (float("nan"), float("inf"), {1, 2}, b"x"):
        with pytest.raises(ArgumentError, match=r"metadata\[0\] cannot become JSON"):
            index.add(["d"], vectors=np.eye(4)[3:], metadata=[bad])
    assert len(index) == 3


def test_vectors_of_fewer_dimensions_are_normalised_again(embedder, tmp_path):
    index = Index.create(embedder, dimensions=64)
    index.add(["a"], ["The cat sleeps."])
    assert index.search("The cat sleeps.", 1)[0].score == pytest.approx(1, abs=0.02)


@needs_fork
def test_a_fork_while_others_work(embedder, generator):
    index = Index.create(embedder)
    index.add(["a"], ["one"])
    wanted, story = embedder.encode("one text"), generator.generate("Once", max_tokens=4).text
    ended = threading.Event()

    def work():
        while not ended.is_set():
            embedder.encode(["a b c"] * 4)
            generator.generate("One", max_tokens=2)
            index.search("one")

    def child():
        assert (embedder.encode("one text") == wanted).all()
        assert generator.generate("Once", max_tokens=4).text == story
        try:
            assert index.search("one", 1)[0].id == "a"
        except ArgumentError as failure:
            assert "closed" in str(failure)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        for _ in range(8):
            process = os.fork()
            if process == 0:
                signal.alarm(60)
                try:
                    child()
                    os._exit(0)
                finally:
                    os._exit(1)
            assert os.waitpid(process, 0)[1] == 0
    finally:
        ended.set()
        thread.join()
    assert index.search("one", 1)[0].id == "a"


@needs_fork
def test_an_index_in_use_when_the_process_forks_is_closed_in_the_child():
    index = two_rows()
    with index._lock:
        process = os.fork()
        if process == 0:
            signal.alarm(20)
            try:
                len(index)
            except ArgumentError:
                os._exit(0)
            finally:
                os._exit(1)
        assert os.waitpid(process, 0)[1] == 0
    assert len(index) == 2


# ---- servers ----------------------------------------------------------------------------------------

GOOD = b"GGUF" + bytes(100)
ANSWERS = {
    "good": (200, {"Content-Length": str(len(GOOD))}, GOOD),
    "no-length": (200, {}, GOOD),
    "html": (200, {"Content-Length": "15"}, b"<!doctype html>"),
    "empty": (200, {"Content-Length": "0"}, b""),
    "short": (200, {"Content-Length": "500"}, GOOD),
    "huge": (200, {"Content-Length": "18446744073709551616"}, GOOD),
    "negative": (200, {"Content-Length": "-5"}, GOOD),
    "no-number": (200, {"Content-Length": "x"}, GOOD),
    "file": (302, {"Location": "file:///etc/passwd"}, b""),
    "ftp": (302, {"Location": "ftp://127.0.0.1/x"}, b""),
    "odd": (302, {"Location": "http://["}, b""),
    "missing": (404, {"Content-Length": "0"}, b""),
    "headers": (200, {f"X-{i}": "y" for i in range(300)}, GOOD),
}


@pytest.fixture(scope="module")
def address():
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            name = self.path[1:].split("?")[0].split(".")[0]
            status, headers, body = ANSWERS[re.sub(r"-\d{5}-of-\d{5}$", "", name)]
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


@pytest.mark.parametrize("name", ANSWERS)
def test_answers_of_servers(address, name, tmp_path, monkeypatch):
    monkeypatch.setenv("WISP_CACHE", str(tmp_path))
    with pytest.raises(WispError) as raised:
        Embedder(f"{address}/{name}.gguf?token=secret")
    kept = [path for path in tmp_path.rglob("*") if path.is_file()]
    if name in ("good", "no-length"):
        assert not isinstance(raised.value, InputOutputError) and len(kept) == 1
    else:
        assert isinstance(raised.value, InputOutputError) and kept == []
        assert "secret" not in str(raised.value) and "secret" not in raised.value.file


def test_all_files_of_a_model_in_several_come(address, tmp_path, monkeypatch):
    monkeypatch.setenv("WISP_CACHE", str(tmp_path))
    with pytest.raises(UnsupportedError, match="GGUF version 0"):
        Embedder(f"{address}/good-00001-of-00003.gguf?token=secret")
    kept = sorted(path.name for path in tmp_path.rglob("*.gguf"))
    assert [name[32:] for name in kept] == [f"-good-0000{i}-of-00003.gguf" for i in (1, 2, 3)]
    assert len({name[:32] for name in kept}) == 1
    with pytest.raises(InputOutputError, match="URL of the model is invalid"):
        Embedder("http://[/a.gguf")
    with pytest.raises(InputOutputError, match=r"missing-00002-of-00003\.gguf: HTTP Error 404"):
        Embedder(f"{address}/missing-00001-of-00003.gguf")


def test_redirects_from_https_are_not_followed_to_http():
    from wisp_engine.files import OPENER, SafeRedirects

    assert any(isinstance(handler, SafeRedirects) for handler in OPENER.handlers)
    request = type("Request", (), {"full_url": "https://a/x"})
    with pytest.raises(OSError, match="from https to http"):
        SafeRedirects().redirect_request(request, None, 302, "", None, "http://a/x")  # type: ignore[arg-type]


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="skipped: Windows has access lists")
def test_what_others_put_into_the_cache_is_not_opened(address, tmp_path, monkeypatch):
    monkeypatch.setenv("WISP_CACHE", str(tmp_path))
    url = f"{address}/good.gguf"
    with pytest.raises(UnsupportedError, match="GGUF version 0"):
        Embedder(url)
    kept = next(path for path in tmp_path.rglob("*.gguf"))
    kept.unlink()
    kept.symlink_to("/etc/passwd")
    with pytest.raises(InputOutputError, match="is not a file"):
        Embedder(url)
    kept.unlink()
    kept.write_bytes(GOOD)
    kept.chmod(0o666)
    with pytest.raises(InputOutputError, match="others can write"):
        Embedder(url)
    kept.unlink()
    kept.parent.chmod(0o777)
    with pytest.raises(InputOutputError, match="others can write"):
        Embedder(url)

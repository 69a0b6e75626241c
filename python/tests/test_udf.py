"""The module of `npx wisp-engine udf` in engines other than JavaScript's: wasmtime, and ClickHouse with its SQL."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from wisp_engine import Embedder

REPO = Path(os.environ["WISP_REPO"])
TEXTS = ["cats are nice", "", "Ein Satz mit „Zeichen“ 😀", "word " * 400, "a\nb"]


def make(path, *options):
    node = shutil.which("node")
    if not node or not (REPO / "js/wisp-udf-simd128.wasm").exists():
        pytest.skip("skipped: needs Node and the modules (make wasm)")
    model = REPO / "models/wisp-default.gguf"
    return subprocess.run([node, REPO / "js/cli.js", "udf", *options, model, path], check=True, text=True,
                          capture_output=True).stdout


@pytest.fixture(scope="module")
def expected():
    return Embedder(portable=True).encode(TEXTS)


def row_binary(text):
    data, length = text.encode(), b""
    size = len(data)
    while size > 0x7F:
        length, size = length + bytes([size & 0x7F | 0x80]), size >> 7
    return length + bytes([size]) + data


@pytest.mark.parametrize("options", [[], ["--relaxed"]])
def test_wasmtime(options, expected, tmp_path):
    """The same bits in a third engine, beside V8 and SpiderMonkey."""
    wasmtime = pytest.importorskip("wasmtime", reason="skipped: wasmtime is not installed")
    make(tmp_path / "m.wasm", *options)
    store = wasmtime.Store()
    module = wasmtime.Module.from_file(store.engine, str(tmp_path / "m.wasm"))
    assert list(module.imports) == []
    exports = wasmtime.Instance(store, module, []).exports(store)
    memory = exports["memory"]

    def contents(buffer):
        data, size = np.frombuffer(bytes(memory.read(store, buffer, buffer + 8)), "<u4")
        return int(data), int(size)

    rows = b"".join(map(row_binary, TEXTS))
    argument = exports["clickhouse_create_buffer"](store, len(rows))
    memory.write(store, rows, contents(argument)[0])
    data, size = contents(exports["embed"](store, argument, len(TEXTS)))
    made = np.frombuffer(bytes(memory.read(store, data, data + size)), np.uint8).reshape(len(TEXTS), -1)
    assert made[:, 2:].tobytes() == expected.tobytes()
    assert memory.data_len(store) < 40e6


@pytest.mark.skipif("WISP_UDF_HOSTS" not in os.environ, reason="skipped: in make run/clickhouse")
def test_go(expected, tmp_path):
    """The example in Go, where its compiler and its packages are."""
    if not shutil.which("go"):
        pytest.skip("skipped: Go is not installed")
    folder = shutil.copytree(REPO / "tests/udf/go", tmp_path / "go")
    if subprocess.run(["go", "mod", "download"], cwd=folder).returncode != 0:
        pytest.skip("skipped: the packages of the example cannot be fetched")
    subprocess.run(["go", "build", "-o", "host", "."], cwd=folder, check=True)
    make(tmp_path / "m.wasm")
    command = [folder / "host", tmp_path / "m.wasm", *TEXTS]
    out = subprocess.run(command, check=True, text=True, capture_output=True).stdout
    made = np.array([line.split() for line in out.splitlines()], np.float32)
    assert made.tobytes() == expected.tobytes()


def test_clickhouse(expected, tmp_path):
    """The SQL that the command prints, as it stands."""
    chdb = pytest.importorskip("chdb", reason="skipped: chdb is not installed")
    (tmp_path / "config.xml").write_text(
        "<clickhouse><allow_experimental_webassembly_udf>true</allow_experimental_webassembly_udf></clickhouse>")
    connection = chdb.connect(f"{tmp_path}/data?config-file={tmp_path}/config.xml")
    for statement in re.split(r";\n", make(tmp_path / "m.wasm").strip()):
        connection.query(statement.rstrip(";"))
    literals = ", ".join("'" + text.replace("\n", "\\n") + "'" for text in TEXTS)
    rows = connection.query(f"SELECT embed(arrayJoin([{literals}]))", "RowBinary").bytes()
    made = np.frombuffer(rows, np.uint8).reshape(len(TEXTS), -1)
    assert made[:, 2:].tobytes() == expected.tobytes()
    answer = connection.query("SELECT embed_prompt('a', 'query: ') = embed('query: a'), similarity('a', 'a'), "
                              "similarity('a cat', 'the cat') > similarity('a cat', 'interest is due')", "TSV")
    assert str(answer).split() == ["1", "1", "1"]
    best = connection.query("SELECT t FROM (SELECT arrayJoin(['the bank', 'cats are nice', 'a house']) AS t) "
                            "ORDER BY similarity(t, 'pets') DESC LIMIT 1", "TSV")
    assert str(best).strip() == "cats are nice"
    connection.close()

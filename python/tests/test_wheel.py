"""The wheel in an environment of its own: it installs without an index, and embeds without a network."""

import json
import os
import re
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import numpy as np
import pytest

WHEEL = os.environ["WISP_WHEEL"]

# What Python asks the network for fails. The default model must come from the wheel, and not from this checkout.
USE = """
import json, sys
def refuse(event, arguments):
    if event.startswith(("socket.connect", "socket.getaddrinfo", "socket.gethostbyname")):
        raise OSError(f"{event}: there is no network here")
sys.addaudithook(refuse)
import wisp_engine
from wisp_engine import Embedder, Generator
rows = Embedder(portable=True).encode(["The cat sleeps on the sofa.", "Interest is due every month."])
text = Generator().generate("Once upon a time", max_tokens=4)
print(json.dumps({"from": wisp_engine.__file__, "rows": rows.tolist(), "text": len(text.text)}))
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """A virtual environment that has numpy, the wheel's one dependency, and then the wheel."""
    folder = tmp_path_factory.mktemp("wheel") / "environment"
    venv.create(folder)
    python = folder / "bin" / "python"
    packages = next(folder.glob("lib/python*/site-packages"))
    for entry in Path(np.__file__).parents[1].glob("numpy*"):
        (packages / entry.name).symlink_to(entry)
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PIP_", "WISP_"))}
    install = [sys.executable, "-m", "pip", "--isolated", "--python", python, "install", "--quiet", "--no-index", WHEEL]
    subprocess.run(install, env=clean, check=True, cwd=folder)
    return python, clean, folder


def test_it_works_offline(environment):
    python, clean, folder = environment
    done = subprocess.run([python, "-I", "-c", USE], env=clean, check=True, cwd=folder, stdout=subprocess.PIPE)
    said = json.loads(done.stdout)
    assert Path(said["from"]).is_relative_to(folder)
    assert said["text"] > 0
    rows = np.array(said["rows"], np.float32)
    from wisp_engine import Embedder  # as it is in build/python, with another build of the library
    here = Embedder(portable=True).encode(["The cat sleeps on the sofa.", "Interest is due every month."])
    np.testing.assert_array_equal(rows, here)


def test_it_needs_numpy_alone(environment):
    python, clean, folder = environment
    show = "from importlib.metadata import requires; print(*requires('wisp-engine'), sep='\\n')"
    done = subprocess.run([python, "-I", "-c", show], env=clean, check=True, cwd=folder, stdout=subprocess.PIPE)
    needed = [need for need in done.stdout.decode().splitlines() if "extra ==" not in need]
    assert len(needed) == 1 and needed[0].startswith("numpy"), needed


def test_it_needs_no_newer_glibc_than_its_name_says():
    promised = re.search(r"manylinux_2_(\d+)", WHEEL)
    with zipfile.ZipFile(WHEEL) as wheel:
        library = wheel.read("wisp_engine/libwisp.so")
    needed = [int(minor) for minor in re.findall(rb"GLIBC_2\.(\d+)", library)]
    assert 0 < max(needed) <= int(promised[1])

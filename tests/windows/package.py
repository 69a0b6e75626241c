# SPDX-License-Identifier: Apache-2.0
"""Usage: package.py LAUNCHER WHEEL. Runs the tests of the Python package in Python for Windows, in Wine, against a wheel.

Those of programs, of adapters and of what needs packages that Python for Windows does not have here are left out."""

import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]
TOOLS = REPO / ".tools"
TESTS = ("classifier", "embedder", "generator", "hostile", "images", "index", "reranker")

# What runs there: its arguments are the top of the checkout and the folder of the wheel and the tests.
RUN = """
import os, sys
sys.path.insert(0, sys.argv[2])
os.environ["WISP_REPO"] = sys.argv[1]
os.chdir(os.path.join(sys.argv[2], "tests"))
import pytest, wisp_engine
assert wisp_engine.__file__.startswith(sys.argv[2]), wisp_engine.__file__
sys.exit(pytest.main(["-p", "no:cacheprovider", "-rs", "--tb=short"]))
"""


def windows_path(path):
    return "Z:" + str(path).replace("/", "\\")


def main(launcher, wheel):
    with tempfile.TemporaryDirectory(prefix="wisp-") as folder:
        folder = Path(folder)
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder)
        (folder / "tests").mkdir()
        for name in TESTS:
            shutil.copy(REPO / f"python/tests/test_{name}.py", folder / "tests")
        (folder / "run.py").write_text(RUN, encoding="utf-8")
        output = folder / "output"
        done = subprocess.run(
            [TOOLS / "bin/wine", launcher, windows_path(output), windows_path(TOOLS / "python-windows/python.exe"), "-X", "utf8",
             windows_path(folder / "run.py"), windows_path(REPO), windows_path(folder)], stdin=subprocess.DEVNULL)
        said = output.read_text(encoding="utf-8", errors="replace") if output.exists() else ""
        print(said)
        return done.returncode or " passed" not in said


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

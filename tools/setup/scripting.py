"""The packages that Python and Node scripts of this repository use, as pinned in their lists."""

import importlib.util
import shutil
import sys

from .apt import fetch_debs, unpack
from .workspace import REPO, TOOLS, SetupError, building, run, step, write_wrapper

REQUIREMENTS = REPO / "tools/requirements.txt"


def private_pip(folder):
    """pip from Debian's package, for a Python that came without; returns the command's beginning."""
    unpack(fetch_debs(None, ["python3-pip-whl"], r"python3.*"), folder)
    wheel = next(folder.glob("usr/share/python-wheels/pip-*.whl"))
    return [str(wheel / "pip")]


def install_python():
    with building("python") as folder:
        python = folder / "bin/python"
        with step("making a Python environment"):
            run([sys.executable, "-m", "venv", "--without-pip", folder])
        if importlib.util.find_spec("ensurepip"):
            run([python, "-m", "ensurepip"])
            pip = ["-m", "pip"]
        else:
            pip = private_pip(folder / "pip")
        with step(f"installing {REQUIREMENTS.name}"):
            run([python, *pip, "install", "--quiet", "--disable-pip-version-check", "--no-cache-dir",
                 "-r", REQUIREMENTS])
    write_wrapper("python", 'exec "$tools/python/bin/python" "$@"\n')


def install_node_modules():
    npm = shutil.which("npm")
    if not npm:
        raise SetupError("npm is not on PATH; it comes with Node")
    if not (REPO / "package.json").exists():
        raise SetupError("there is no package.json")
    command = "ci" if (REPO / "package-lock.json").exists() else "install"
    with step(f"npm {command}"):
        run([npm, command, "--no-audit", "--no-fund", "--ignore-scripts", "--cache", TOOLS / "npm-cache"], cwd=REPO)

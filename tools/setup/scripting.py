"""Installs the packages of this repository's Python and Node scripts, in the versions of their lists."""

import contextlib
import importlib.util
import platform
import shutil
import sys

from .apt import fetch_debs
from .prefix import unpack
from .workspace import BIN, REPO, TOOLS, SetupError, building, run, scratch, step, write_wrapper

# The package must work in these Nodes, besides the one on PATH.
NODES = {"22": "22.23.3", "24": "24.21.0"}


def has_pip(python):
    try:
        run([python, "-m", "pip", "--version"])
        return True
    except SetupError:
        return False


@contextlib.contextmanager
def pip_of(python):
    """Gives the words that start pip: the Python's own, else the wheel in Debian's package, which needs no installation."""
    if has_pip(python):
        yield [python, "-m", "pip"]
        return
    with scratch() as folder:
        unpack(fetch_debs(None, ["python3-pip-whl"], assumed=".*"), folder)
        yield [python, next(folder.glob("usr/share/python-wheels/pip-*.whl")) / "pip"]


def install_requirements(pip, file, *more):
    """Installs the packages of a list, each of which has the digests of its files."""
    with step(f"installing {file.name}"):
        run([*pip, "install", "--quiet", "--disable-pip-version-check", "--no-cache-dir", "--require-hashes", *more,
             "-r", file])


def install_environment(name, requirements, *more):
    """Makes .tools/NAME, a Python environment with the packages of a list. `more` are options of pip."""
    with building(name) as folder:
        python = folder / "bin/python"
        with step("making a Python environment"):
            run([sys.executable, "-m", "venv", "--without-pip", folder])
        if importlib.util.find_spec("ensurepip"):
            run([python, "-m", "ensurepip"])
        with pip_of(python) as pip:
            install_requirements(pip, requirements, *more)


def install_python():
    install_environment("python", REPO / "tools/requirements.txt")
    write_wrapper("python", 'exec "$tools/python/bin/python" "$@"\n')


def install_sbom():
    install_environment("sbom", REPO / "tools/requirements-sbom.txt")
    write_wrapper("python-sbom", 'exec "$tools/sbom/bin/python" "$@"\n')


def install_wheel():
    install_environment("wheel", REPO / "tools/requirements-wheel.txt")
    write_wrapper("python-wheel", 'exec "$tools/wheel/bin/python" "$@"\n')


def install_clickhouse():
    install_environment("clickhouse", REPO / "tools/requirements-clickhouse.txt", "--no-deps")
    write_wrapper("python-clickhouse", 'exec "$tools/clickhouse/bin/python" "$@"\n')


def install_adapters():
    install_environment("adapters", REPO / "tools/requirements-adapters.txt")
    write_wrapper("python-adapters", 'exec "$tools/adapters/bin/python" "$@"\n')


def install_zig():
    install_environment("zig", REPO / "tools/requirements-zig.txt")
    write_wrapper("zig", 'export ZIG_GLOBAL_CACHE_DIR="$tools/zig/cache" ZIG_LOCAL_CACHE_DIR="$tools/zig/cache"\n'
                  'exec "$tools/zig/bin/python" -m ziglang "$@"\n')


def install_cuda():
    install_environment("cuda", REPO / "tools/requirements-cuda.txt")
    write_wrapper("nvcc", 'exec "$tools"/cuda/lib/python3*/site-packages/nvidia/cu13/bin/nvcc "$@"\n')


def install_node_modules():
    npm = shutil.which("npm")
    if not npm:
        raise SetupError("npm is not on PATH; it comes with Node")
    if not (REPO / "package.json").exists():
        raise SetupError("there is no package.json")
    command = "ci" if (REPO / "package-lock.json").exists() else "install"
    with step(f"npm {command}"):
        run([npm, command, "--no-audit", "--no-fund", "--ignore-scripts", "--cache", TOOLS / "npm-cache"], cwd=REPO)


def install_nodes():
    """Installs newer Nodes from npm packages."""
    machine = {"x86_64": "x64", "aarch64": "arm64"}.get(platform.machine())
    if not machine:
        raise SetupError(f"npm has no package of Node for {platform.machine()}")
    with building("nodes") as folder:
        for name, version in NODES.items():
            (folder / name).mkdir()
            (folder / name / "package.json").write_text("{}", encoding="utf-8")
            with step(f"fetching Node {version}"):
                run(["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--no-package-lock", "--cache",
                     TOOLS / "npm-cache", f"node-linux-{machine}@{version}"], cwd=folder / name)
    for name, version in NODES.items():
        write_wrapper(f"node{name}", f'exec "$tools/nodes/{name}/node_modules/node-linux-{machine}/bin/node" "$@"\n')
        found = run([BIN / f"node{name}", "--version"]).strip()
        if found != f"v{version}":
            raise SetupError(f"node{name} says that it is {found}")

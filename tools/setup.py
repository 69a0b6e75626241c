#!/usr/bin/env python3
"""Makes wisp's development tools available in .tools/ without touching the system.

Each component is taken from the machine if it is good enough, else downloaded with the machine's own apt, pip or
npm settings. Programs are then reachable as .tools/bin/PROGRAM. Run again at any time: what is there is kept.
"""

import argparse
import collections
import fcntl
import hashlib
import importlib
import os
import sys
from pathlib import Path

sys.dont_write_bytecode = True  # keeps __pycache__ out of the checkout

REPO = Path(__file__).resolve().parents[1]
TOOLS = REPO / ".tools"

# `module` has the recipe install_NAME. A higher `version` runs a recipe again after it has changed. `makes` has files
# that must exist afterwards. `reads` has lists of packages, whose change runs the recipe again.
Component = collections.namedtuple("Component", "module version makes reads about by_hand")


def programs(*names):
    return tuple(f".tools/bin/{name}" for name in names)


COMPONENTS = {
    "emcc": Component(
        "emscripten", 2, programs("emcc", "emar"), (), "Emscripten: C to WebAssembly, with relaxed SIMD",
        "install Emscripten 3.1.50 or later so that emcc is on PATH"),
    "wasm-cc": Component(
        "emscripten", 1, programs("wasm-cc"), (), "compiles a file as emcc does, but faster (set up emcc first)",
        "remove .tools/stamp/emcc"),
    "cmocka": Component(
        "cmocka", 1, (".tools/cmocka/src/cmocka.c", ".tools/cmocka/lib/libcmocka.a"), (),
        "cmocka 1.1.7: unit tests in C, as source and as a static library",
        "put cmocka 1.1.7's source archive at .tools/debs/cmocka_1.1.7.orig.tar.xz"),
    "clang": Component(
        "llvm", 1, programs("clang", "clang-format", "clang-tidy", "llvm-symbolizer", "llvm-cov"), (),
        "clang, clang-format and clang-tidy 19, with sanitizers and libFuzzer",
        "apt install clang-19 clang-format-19 clang-tidy-19 llvm-19 libclang-rt-19-dev g++"),
    "cppcheck": Component(
        "checkers", 1, programs("cppcheck"), (), "cppcheck: static analysis of C", "apt install cppcheck"),
    "valgrind": Component(
        "checkers", 1, programs("valgrind"), (), "valgrind: memory errors at run time",
        "apt install valgrind libc6-dbg"),
    "aarch64": Component(
        "cross", 1, programs("aarch64-linux-gnu-gcc", "qemu-aarch64"), (), "gcc for 64-bit ARM, and qemu to run it",
        "apt install gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user-static"),
    "m32": Component(
        "cross", 1, programs("gcc-m32"), (), "32-bit x86 programs with the system's gcc", "apt install gcc-multilib"),
    "musl": Component(
        "cross", 1, programs("musl-gcc"), (), "gcc with the C library musl, for static programs", "apt install musl-tools"),
    "big-endian": Component(
        "cross", 1, programs("s390x-linux-gnu-gcc", "qemu-s390x"), (),
        "gcc for s390x, whose bytes are in the other order, and qemu to run it",
        "apt install gcc-s390x-linux-gnu libc6-dev-s390x-cross qemu-user-static"),
    "windows": Component(
        "cross", 1, programs("x86_64-w64-mingw32-gcc", "x86_64-w64-mingw32-dlltool", "wine", "node-windows"), (),
        "mingw-w64: gcc for Windows, and Wine and Node to run it",
        "apt install gcc-mingw-w64-x86-64-posix wine64"),
    "python-windows": Component(
        "cross", 1, (".tools/python-windows/python.exe",), ("tools/requirements-windows.txt",),
        "Python for Windows from Maven Central, with numpy and pytest, for make windows (set up windows first)",
        "install Maven so that mvn is on PATH, or look at the message above"),
    "zig": Component(
        "scripting", 1, programs("zig"), ("tools/requirements-zig.txt",),
        "zig: a C compiler with the C libraries of other systems, for the addon's packages", "look at the pip message above"),
    "python": Component(
        "scripting", 1, (*programs("python"), ".tools/python/bin/python"), ("tools/requirements.txt",),
        "Python with the packages of tools/requirements.txt",
        "apt install python3-venv, or look at the pip message above"),
    "wheel": Component(
        "scripting", 1, programs("python-wheel"), ("tools/requirements-wheel.txt",),
        "Python with the packages of tools/requirements-wheel.txt, which build and check the Python package",
        "look at the pip message above"),
    "clickhouse": Component(
        "scripting", 1, programs("python-clickhouse"), ("tools/requirements-clickhouse.txt",),
        "Python with ClickHouse in it (chdb), which runs functions of WebAssembly (0.8 GB)",
        "look at the pip message above"),
    "adapters": Component(
        "scripting", 1, programs("python-adapters"), ("tools/requirements-adapters.txt",),
        "Python with what the Python package's adapters adapt to (2 GB; Spark needs Java 17)",
        "look at the pip message above"),
    "torch": Component(
        "pytorch", 2, programs("python-torch"), (), "Python with PyTorch and transformers, for the tests of training",
        "pip install -r tools/requirements-train.txt for the python3 that is on PATH"),
    "sbom": Component(
        "scripting", 1, programs("python-sbom"), ("tools/requirements-sbom.txt",),
        "Python with the packages of tools/requirements-sbom.txt", "look at the pip message above"),
    "sentence": Component(
        "pytorch", 1, (".tools/sentence/sentence_transformers/__init__.py",), ("tools/requirements-sentence.txt",),
        "sentence-transformers beside torch, for the comparison of models (set up python and torch first)",
        "look at the pip message above"),
    "cuda": Component(
        "scripting", 1, programs("nvcc"), ("tools/requirements-cuda.txt",), "nvcc: CUDA's compiler, for make cuda",
        "look at the pip message above, or install CUDA 13 so that nvcc is on PATH"),
    "node_modules": Component(
        "scripting", 1, ("node_modules",), ("package.json", "package-lock.json"),
        "the npm packages of package.json", "run npm install if package.json has changed since package-lock.json"),
    "nodes": Component(
        "scripting", 1, programs("node22", "node24"), (), "Node 22 and 24, for the tests of the package",
        "look at the npm message above"),
    "curl": Component(
        "http", 1, (".tools/curl/usr/include/curl/curl.h",), (), "libcurl and its headers, for tests of models by URL",
        "apt install libcurl4-openssl-dev"),
    "civetweb": Component(
        "http", 1, (".tools/civetweb/usr/lib",), (), "CivetWeb, for tests of wisp serve", "apt install libcivetweb1"),
    "civetweb-source": Component(
        "http", 1, (".tools/civetweb-source/src/civetweb.c",), (), "CivetWeb's source, for the static program",
        "put civetweb 1.15's source archive at .tools/debs/civetweb_1.15+dfsg.orig.tar.xz"),
    "wuffs": Component(
        "wuffs", 1, (".tools/wuffs/wuffs.c",), ("tools/requirements-wuffs.txt",), "Wuffs' source, which decodes images",
        "put pywuffs 2.0.1's source archive at .tools/sdists/pywuffs-2.0.1.tar.gz"),
    "chromium": Component(
        "browsers", 1, programs("chromium"), (), "headless Chromium", "apt install chromium"),
    "firefox": Component(
        "browsers", 1, programs("firefox"), (), "headless Firefox", "apt install firefox-esr"),
}


def say(text):
    print(f"setup: {text}", file=sys.stderr)


def stamp_text(component):
    """Returns the stamp of a finished component: the version of its recipe and the contents of the lists it read."""
    digest = hashlib.sha256()
    for name in component.reads:
        file = REPO / name
        digest.update(file.read_bytes() if file.exists() else b"")
    return f"{component.version} {digest.hexdigest()}\n"


def is_done(name):
    component = COMPONENTS[name]
    stamp = TOOLS / "stamp" / name
    return (stamp.exists() and stamp.read_text(encoding="utf-8") == stamp_text(component)
            and all((REPO / path).exists() for path in component.makes))


def install(name):
    """Runs a component's recipe. Writes the stamp last, so that an interrupted run starts again."""
    component = COMPONENTS[name]
    stamp = TOOLS / "stamp" / name
    stamp.parent.mkdir(exist_ok=True)
    stamp.unlink(missing_ok=True)
    recipe = importlib.import_module(f"setup.{component.module}")
    getattr(recipe, f"install_{name.replace('-', '_')}")()
    temporary = stamp.with_suffix(".new")
    temporary.write_text(stamp_text(component), encoding="utf-8")
    temporary.replace(stamp)
    say(f"{name} is ready")


def try_install(name, setup_error):
    """Installs a component, or says why it cannot and how to proceed. Returns whether it succeeded."""
    try:
        install(name)
        return True
    except (setup_error, OSError) as error:
        say(f"{name} could not be set up: {error}")
        say(f"what you can do: {COMPONENTS[name].by_hand}; then run this again")
        return False


def install_missing(names):
    """Installs components one after the other. Returns whether all succeeded. Another setup.py in this checkout gets its
    turn between two components."""
    workspace = importlib.import_module("setup.workspace")
    good = True
    for name in names:
        with open(TOOLS / "lock", "w", encoding="utf-8") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                say(f"{name} waits for another setup.py")
                fcntl.flock(lock, fcntl.LOCK_EX)
            workspace.clear_temporary()
            if not is_done(name):
                good = try_install(name, workspace.SetupError) and good
    return good


def parse_arguments():
    listing = "\n".join(f"  {name:13} {component.about}" for name, component in COMPONENTS.items())
    parser = argparse.ArgumentParser(description=__doc__, epilog="components:\n" + listing,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="list the components and stop")
    parser.add_argument("names", nargs="*", metavar="NAME", help="a component to make available")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.names if name not in COMPONENTS]
    if unknown:
        parser.error(f"no such component: {', '.join(unknown)} (see --list)")
    if arguments.list:
        print(listing)
    elif not arguments.names:
        parser.error("name at least one component (see --list)")
    return arguments


def main():
    names = parse_arguments().names
    missing = [name for name in dict.fromkeys(names) if not is_done(name)]
    if not missing:
        return 0
    os.nice(10)  # compilation beside it goes first: make demo shows the native answer before the tools are there
    try:
        TOOLS.mkdir(exist_ok=True)
        # This file keeps the folder out of git, whatever the repository's own .gitignore says.
        (TOOLS / ".gitignore").write_text("*\n", encoding="utf-8")
        return 0 if install_missing(missing) else 1
    except OSError as error:
        say(f"{TOOLS.name} cannot be written: {error}")
        return 1
    except KeyboardInterrupt:
        say("interrupted; run it again to go on")
        return 130


if __name__ == "__main__":
    sys.exit(main())

"""Installs clang with its sanitizers and libFuzzer, clang-format and clang-tidy, all of one version.

The version is pinned because clang-format's output differs between versions; 19 is in Debian 12 and in Debian 13.
"""

import re

from .prefix import LIBRARIES, ON_EVERY_HOST, fetch_programs
from .workspace import (BIN, SetupError, building, run, scratch, step, system_program, version_of,
                        wrap_private_program, wrap_system_program)

VERSION = "19"
PROGRAMS = ("clang", "clang-format", "clang-tidy", "llvm-cov", "llvm-profdata", "llvm-symbolizer")

# clang uses the development files of the installed gcc, so they are assumed besides those of every host.
ASSUMED = ON_EVERY_HOST + (r"|libgcc-\d+-dev|libobjc-\d+-dev|"
                           r"lib(asan|tsan|hwasan|lsan|ubsan|itm|atomic|gomp|quadmath)\d+")

# libFuzzer is C++. clang reads this file in its own folder on each start.
DRIVER_CONFIGURATION = "-L<CFGDIR>/../../gcc/{machine}/{version}\n"

PROBE = """\
#include <stddef.h>
#include <stdint.h>
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) { return size > 3 && data[0] == 'w' && data[1] == 'i'; }
"""


def try_clang():
    """Builds and runs a small fuzz target with the sanitizers."""
    with scratch() as folder, step("trying clang's sanitizers and libFuzzer"):
        (folder / "probe.c").write_text(PROBE, encoding="utf-8")
        run([BIN / "clang", "-g", "-O1", "-fsanitize=fuzzer,address,undefined", "probe.c", "-o", "probe"], cwd=folder)
        run([folder / "probe", "-runs=1000"], cwd=folder)
        run([BIN / "clang-tidy", "--version"])
        run([BIN / "clang-format", "--dry-run", "probe.c"], cwd=folder)


def use_system():
    """Makes the wrappers run the system's programs if all are there in the pinned version."""
    paths = {name: system_program(f"{name}-{VERSION}", name) for name in PROGRAMS}
    for path in paths.values():
        if not path or not re.search(rf"version {VERSION}\.", version_of(path)):
            return False
    for name, path in paths.items():
        wrap_system_program(name, path)
    return True


def use_private():
    """Downloads the programs and makes the wrappers run them."""
    gcc_version = run(["gcc", "-dumpversion"]).strip().partition(".")[0]
    packages = [f"{name}-{VERSION}" for name in ("clang", "clang-format", "clang-tidy", "llvm")]
    packages += [f"libclang-rt-{VERSION}-dev", f"libstdc++-{gcc_version}-dev"]
    with building("clang") as prefix:
        fetch_programs(prefix, packages, ASSUMED)
        configuration = DRIVER_CONFIGURATION.format(machine=run(["gcc", "-dumpmachine"]).strip(), version=gcc_version)
        (prefix / f"usr/lib/llvm-{VERSION}/bin/clang.cfg").write_text(configuration, encoding="utf-8")
    for name in PROGRAMS:
        wrap_private_program(name, f"clang/usr/lib/llvm-{VERSION}/bin/{name}", [f"clang/{LIBRARIES}"])


def install_clang():
    if use_system():
        try:
            return try_clang()
        except SetupError:
            pass  # the system's clang lacks compiler-rt, which the private one has
    use_private()
    try_clang()

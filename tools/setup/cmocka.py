"""cmocka's source, for the Makefile to compile for each kind of build, and a library made from it."""

import tarfile

from .apt import fetch_source
from .workspace import building, run, step

# Debian's stable suites keep their upstream version: this one is 1.1.7.
SUITE = "trixie"

# What cmocka's configure step finds on any POSIX system with gcc or clang.
CONFIGURATION = """\
#define HAVE_CLOCK_REALTIME 1
#define HAVE_GCC_THREAD_LOCAL_STORAGE 1
#define HAVE_INTTYPES_H 1
#define HAVE_MALLOC_H 1
#define HAVE_SIGLONGJMP 1
#define HAVE_SIGNAL_H 1
#define HAVE_STRINGS_H 1
#define HAVE_STRSIGNAL 1
#define HAVE_STRUCT_TIMESPEC 1
"""

# Archive member -> where it goes. The private header includes config.h, so both stay out of the users' way in src/.
FILES = {
    "COPYING": "COPYING",
    "include/cmocka.h": "include/cmocka.h",
    "include/cmocka_private.h": "src/cmocka_private.h",
    "src/cmocka.c": "src/cmocka.c",
}


def unpack_source(archive, folder):
    """Unpacks the files that make up the library."""
    with tarfile.open(archive) as tar:
        top = tar.getnames()[0].partition("/")[0]
        for member, place in FILES.items():
            (folder / place).parent.mkdir(exist_ok=True)
            (folder / place).write_bytes(tar.extractfile(f"{top}/{member}").read())
    (folder / "src/config.h").write_text(CONFIGURATION, encoding="utf-8")


def build_library(folder):
    """Compiles the static library; test programs call cmocka rarely, so one optimised build does."""
    (folder / "lib").mkdir()
    with step("compiling cmocka"):
        run(["gcc", "-O2", "-g", "-fPIC", "-DHAVE_CONFIG_H", "-Iinclude", "-Isrc", "-c", "src/cmocka.c",
             "-o", "lib/cmocka.o"], cwd=folder)
        run(["ar", "rcs", "lib/libcmocka.a", "lib/cmocka.o"], cwd=folder)
        (folder / "lib/cmocka.o").unlink()


def install_cmocka():
    archive = fetch_source(SUITE, "cmocka")
    with building("cmocka") as folder:
        unpack_source(archive, folder)
        build_library(folder)

"""Fetches cmocka's source, which the Makefile compiles for each flavour, and makes a library from it."""

from .apt import DEBS, fetch_source, unpack_files
from .workspace import building, run, step

SUITE = "trixie"
ARCHIVE = DEBS / "cmocka_1.1.7.orig.tar.xz"
SHA256 = "810570eb0b8d64804331f82b29ff47c790ce9cd6b163e98d47a4807047ecad82"

# cmocka's configure step finds this on any POSIX system with gcc or clang.
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

# Maps an archive member to its place. The private header includes config.h, so both stay out of the users' way in src/.
FILES = {
    "COPYING": "COPYING",
    "include/cmocka.h": "include/cmocka.h",
    "include/cmocka_private.h": "src/cmocka_private.h",
    "src/cmocka.c": "src/cmocka.c",
}


def build_library(folder):
    """Compiles the static library; test programs call cmocka rarely, so one optimised build does."""
    (folder / "lib").mkdir()
    with step("compiling cmocka"):
        run(["gcc", "-O2", "-g", "-fPIC", "-DHAVE_CONFIG_H", "-Iinclude", "-Isrc", "-c", "src/cmocka.c",
             "-o", "lib/cmocka.o"], cwd=folder)
        run(["ar", "rcs", "lib/libcmocka.a", "lib/cmocka.o"], cwd=folder)
        (folder / "lib/cmocka.o").unlink()


def install_cmocka():
    fetch_source(SUITE, "cmocka", ARCHIVE, SHA256)
    with building("cmocka") as folder:
        unpack_files(ARCHIVE, FILES, folder)
        (folder / "src/config.h").write_text(CONFIGURATION, encoding="utf-8")
        build_library(folder)

"""Fetches the HTTP libraries that the program loads when it needs them, for tests: libcurl and CivetWeb. The static program
has CivetWeb in it, which is compiled from its source."""

from .apt import DEBS, fetch_source, unpack_files
from .prefix import LIBRARIES, ON_EVERY_HOST, fetch_programs
from .workspace import TOOLS, SetupError, building, run, scratch, step

PROGRAM = """\
#include <curl/curl.h>
#include <stdio.h>
int main(void) { return puts(curl_version()) < 0; }
"""

INCLUDE = "usr/include"

CIVETWEB = DEBS / "civetweb_1.15+dfsg.orig.tar.xz"
CIVETWEB_SHA256 = "ec372e9737bc820118bbb735f46a07d41f795814ca0f38bc6e67048e7a460f33"
CIVETWEB_FILES = ("LICENSE.md", "include/civetweb.h", "src/civetweb.c", "src/handle_form.inl", "src/md5.inl",
                  "src/response.inl", "src/sha1.inl", "src/timer.inl")


def try_curl():
    """Compiles and runs a program with the library."""
    prefix = TOOLS / "curl"
    machine = LIBRARIES.rsplit("/", maxsplit=1)[-1]
    with scratch() as folder, step("trying libcurl"):
        (folder / "probe.c").write_text(PROGRAM, encoding="utf-8")
        run(["gcc", f"-I{prefix / INCLUDE / machine}", f"-I{prefix / INCLUDE}", "probe.c", "-o", "probe",
             prefix / LIBRARIES / "libcurl.so.4"], cwd=folder, env={"LD_LIBRARY_PATH": str(prefix / LIBRARIES)})
        if "libcurl" not in run([folder / "probe"], env={"LD_LIBRARY_PATH": str(prefix / LIBRARIES)}):
            raise SetupError("libcurl does not say its version")


def install_curl():
    with building("curl") as prefix:
        fetch_programs(prefix, ["libcurl4-openssl-dev", "libcurl4"], ON_EVERY_HOST)
        headers = prefix / INCLUDE / LIBRARIES.rsplit("/", maxsplit=1)[-1] / "curl"
        if headers.is_dir() and not (prefix / INCLUDE / "curl").exists():
            (prefix / INCLUDE / "curl").symlink_to(headers.relative_to(prefix / INCLUDE))
    try_curl()


def install_civetweb():
    with building("civetweb") as prefix:
        fetch_programs(prefix, ["libcivetweb1"], ON_EVERY_HOST)
    with step("trying CivetWeb"):
        run(["python3", "-c", "import ctypes; ctypes.CDLL('libcivetweb.so.1').mg_start"],
            env={"LD_LIBRARY_PATH": str(TOOLS / "civetweb" / LIBRARIES)})


def install_civetweb_source():
    fetch_source("bookworm", "civetweb", CIVETWEB, CIVETWEB_SHA256)
    with building("civetweb-source") as folder:
        unpack_files(CIVETWEB, {name: name for name in CIVETWEB_FILES}, folder)

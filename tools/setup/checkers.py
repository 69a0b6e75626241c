"""Installs programs that look for mistakes: cppcheck and valgrind."""

from .prefix import LIBRARIES, fetch_programs
from .workspace import (BIN, SetupError, building, run, scratch, step, system_program, wrap_private_program,
                        wrap_system_program, write_wrapper)

OVERRUN = """\
#include <stdlib.h>
int main(void) {
	char *text = malloc(4);
	text[4] = 0;
	free(text);
	return 0;
}
"""


def must_find_overrun(folder, command):
    """Fails unless the command reports a fault in the program with exit status 9."""
    try:
        run(command, cwd=folder)
    except SetupError as error:
        if "status 9:" in str(error):
            return
        raise
    raise SetupError(f"{command[0]} does not see a write past the end of an allocation")


def try_cppcheck():
    with scratch() as folder, step("trying cppcheck"):
        (folder / "probe.c").write_text(OVERRUN, encoding="utf-8")
        must_find_overrun(folder, [BIN / "cppcheck", "--quiet", "--error-exitcode=9", "probe.c"])


def install_cppcheck():
    system = system_program("cppcheck")
    if system:
        wrap_system_program("cppcheck", system)
    else:
        with building("cppcheck") as prefix:
            fetch_programs(prefix, ["cppcheck"])
            # cppcheck looks for its descriptions of libraries and platforms beside itself.
            for data in (prefix / LIBRARIES / "cppcheck").iterdir():
                (prefix / "usr/bin" / data.name).symlink_to(f"../../{LIBRARIES}/cppcheck/{data.name}")
        wrap_private_program("cppcheck", "cppcheck/usr/bin/cppcheck", [f"cppcheck/{LIBRARIES}"])
    try_cppcheck()


def link_debug_files(prefix):
    """Lays out the C library's debug symbols, named by build id, if valgrind's extra search path finds them."""
    folder = prefix / "debug" / LIBRARIES
    folder.mkdir(parents=True)
    for file in prefix.glob("usr/lib/debug/.build-id/*/*.debug"):
        (folder / file.name).symlink_to(f"../../../../usr/lib/debug/.build-id/{file.parent.name}/{file.name}")


def try_valgrind():
    with scratch() as folder, step("trying valgrind"):
        (folder / "probe.c").write_text(OVERRUN, encoding="utf-8")
        run(["gcc", "-g", "probe.c", "-o", "probe"], cwd=folder)
        must_find_overrun(folder, [BIN / "valgrind", "--quiet", "--error-exitcode=9", "./probe"])


def install_valgrind():
    system = system_program("valgrind")
    if system:
        wrap_system_program("valgrind", system)
        try:
            return try_valgrind()
        except SetupError:
            pass  # valgrind needs the C library's debug symbols
    with building("valgrind") as prefix:
        fetch_programs(prefix, ["valgrind", "libc6-dbg"])
        link_debug_files(prefix)
    write_wrapper("valgrind", 'VALGRIND_LIB="$tools/valgrind/usr/libexec/valgrind" exec '
                              '"$tools/valgrind/usr/bin/valgrind.bin" '
                              '--extra-debuginfo-path="$tools/valgrind/debug" "$@"\n')
    try_valgrind()

"""Installs compilers for other machines: 64-bit ARM with an emulator, and 32-bit x86."""

import re

from .prefix import LIBRARIES, ON_EVERY_HOST, fetch_programs
from .workspace import (BIN, SetupError, building, run, scratch, step, system_program, wrap_private_program,
                        wrap_system_program, write_wrapper)

ARM_PROGRAMS = tuple(f"aarch64-linux-gnu-{name}" for name in ("gcc", "ar", "objdump", "nm", "strip"))

POINTER_SIZE = """\
#include <stdlib.h>
int main(void) { return sizeof(void *) != 4; }
"""

DOT_PRODUCT = """\
#include <arm_neon.h>
int main(void) {
	int32x4_t sum = vdotq_s32(vdupq_n_s32(0), vdupq_n_s8(2), vdupq_n_s8(3));
	return vgetq_lane_s32(sum, 3) != 24;
}
"""

# The host's gcc brings these too; the x32 variant comes with 32-bit libraries.
NOT_FOR_M32 = ON_EVERY_HOST + r"|libgcc-\d+-dev|libx32.*|libc6-x32"


def use_system_arm():
    """Makes the wrappers run the system's cross compiler and emulator if it has both."""
    emulator = system_program("qemu-aarch64", "qemu-aarch64-static")
    paths = {name: system_program(name) for name in ARM_PROGRAMS}
    if not emulator or not all(paths.values()):
        return False
    write_wrapper("qemu-aarch64", 'QEMU_LD_PREFIX="${QEMU_LD_PREFIX:-/usr/aarch64-linux-gnu}" '
                                  f'exec "{emulator}" "$@"\n')
    for name, path in paths.items():
        wrap_system_program(name, path)
    return True


def free_linker_scripts(folder):
    """Removes folders from the linker scripts among libraries, so that the linker finds their parts."""
    for script in folder.glob("*.so"):
        if script.is_file() and script.read_bytes()[:2] == b"/*":
            script.write_text(re.sub(r"/\S*/", "", script.read_text(encoding="utf-8")), encoding="utf-8")


def use_private_arm():
    with building("aarch64") as prefix:
        fetch_programs(prefix, ["gcc-aarch64-linux-gnu", "libc6-dev-arm64-cross", "qemu-user-static"])
        free_linker_scripts(prefix / "usr/aarch64-linux-gnu/lib")
        for emulator in prefix.glob("usr/bin/qemu-*"):
            if emulator.name != "qemu-aarch64-static":
                emulator.unlink()
    for name in ARM_PROGRAMS:
        wrap_private_program(name, f"aarch64/usr/bin/{name}", [f"aarch64/{LIBRARIES}"])
    write_wrapper("qemu-aarch64", 'QEMU_LD_PREFIX="${QEMU_LD_PREFIX:-$tools/aarch64/usr/aarch64-linux-gnu}" '
                                  'exec "$tools/aarch64/usr/bin/qemu-aarch64-static" "$@"\n')


def install_aarch64():
    if not use_system_arm():
        use_private_arm()
    with scratch() as folder, step("trying the ARM compiler and emulator"):
        (folder / "probe.c").write_text(DOT_PRODUCT, encoding="utf-8")
        for flags in (["-static"], []):
            run([BIN / "aarch64-linux-gnu-gcc", "-O2", "-march=armv8.2-a+dotprod", *flags, "probe.c", "-o", "probe"],
                cwd=folder)
            run([BIN / "qemu-aarch64", "./probe"], cwd=folder)


def try_m32(*compiler):
    """Makes and runs 32-bit programs, with the address sanitizer too."""
    with scratch() as folder, step(f"trying {' '.join(map(str, compiler))}"):
        (folder / "probe.c").write_text(POINTER_SIZE, encoding="utf-8")
        for flags in (["-O2"], ["-static"], ["-fsanitize=address,undefined"]):
            run([*compiler, *flags, "probe.c", "-o", "probe"], cwd=folder)
            run([folder / "probe"])


def use_private_m32():
    version = run(["gcc", "-dumpversion"]).strip().partition(".")[0]
    machine = run(["gcc", "-dumpmachine"]).strip()
    with building("m32") as prefix:
        fetch_programs(prefix, [f"lib32gcc-{version}-dev", "libc6-dev-i386"], NOT_FOR_M32)
        free_linker_scripts(prefix / "usr/lib32")
    write_wrapper("gcc-m32", f"""\
gcc=$tools/m32/usr/lib/gcc/{machine}/{version}/32
libc=$tools/m32/usr/lib32
exec gcc -m32 -idirafter /usr/include/{machine} -idirafter "$tools/m32/usr/include/{machine}" \\
	-B"$gcc" -B"$libc" "$@" -L"$gcc" -L"$libc" \\
	-Wl,--dynamic-linker="$libc/ld-linux.so.2" -Wl,-rpath,"$libc" -Wl,--disable-new-dtags
""")


def install_m32():
    try:
        try_m32("gcc", "-m32")
        return write_wrapper("gcc-m32", 'exec gcc -m32 "$@"\n')
    except SetupError:
        use_private_m32()
    try_m32(BIN / "gcc-m32")

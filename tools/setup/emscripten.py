"""Installs Emscripten: the system's when it is recent enough, else Debian's newest in a private prefix.

The private programs want a newer C library than the machine may have. They are therefore started through the private
dynamic loader with a library path of their own: unlike LD_LIBRARY_PATH or a patched interpreter this reaches no other
program, such as node or Python, and holds no absolute path.
"""

import os
import re
import shlex

from .apt import fetch_debs
from .prefix import LIBRARIES, unpack
from .workspace import (BIN, TOOLS, SetupError, building, run, say, scratch, step, system_program, version_of,
                        wrap_system_program, write_program, write_wrapper)

OLDEST_VERSION = (3, 1, 50)  # the first with the final relaxed SIMD opcodes
FRONT_ENDS = ("emcc", "em++", "emar", "emranlib")
INSPECTORS = ("wasm-opt", "wasm-dis")

# "forky" has Emscripten 6 with LLVM 21 but still changes; "trixie" is stable, with 3.1.69 and LLVM 19.
SUITES = ("forky", "trixie")

# These are left out: compilers and interpreters that emcc does not use, and the machine's own node and Python; LLVM's many
# tools, of which emcc uses two (SMALL_TOOLS), and what only they need; the library of those who embed clang.
NOT_USED = (r"llvm-\d+(-runtime)?|libclang1-\d+|lib(curl|ssl|nghttp|nghttp3|ngtcp|psl|ssh2|ldap|sasl2|krb5|k5crypto|gssapi|"
            r"keyutils|com-err|idn2|unistring|brotli|db5|pfm|rtmp).*|openssl-provider-legacy|gcc-\d+-base|"
            r"python3.*|libpython3.*|media-types|netbase|tzdata|debconf|nodejs|libnode.*|node-(?!acorn).*|ccache|"
            r"binutils.*|libbinutils|linux-libc-dev|libc6-dev|libc-dev-bin|libc-gconv.*|perl.*|"
            r"lib(stdc\+\+|gcc|objc)-\d+-dev|lib(asan|tsan|hwasan|lsan|ubsan|itm|atomic|gomp|quadmath)\d+")

CONFIGURATION = """\
import os
import shutil
here = os.path.dirname(os.path.abspath(os.environ['EM_CONFIG']))
LLVM_ROOT = here + '/bin'
BINARYEN_ROOT = here
NODE_JS = shutil.which('node')
CACHE = here + '/cache'
"""

# This one script has many names: Debian's tools call each other with and without the version in the name.
RUN_PRIVATE = f"""\
#!/bin/sh
# Runs the program of this name with the C library it was built for. Written by tools/setup.py.
here=$(cd "${{0%/*}}/.." && pwd)
name=${{0##*/}}
file=${{name%-[0-9]*}}
for real in "$here"/usr/lib/llvm-*/bin/"$file" "$here/usr/bin/$file"; do
	[ -e "$real" ] && break
done
# Through the loader clang cannot see its own path, so it has to take the name that it was called by.
case "$file:$1" in
clang*:-cc1*) own= ;;
clang*) own=-no-canonical-prefixes ;;
*) own= ;;
esac
exec "$here"/{LIBRARIES}/ld-linux-*.so.* --library-path "$here/{LIBRARIES}" --argv0 "$here/bin/$name" "$real" $own "$@"
"""

# Stand-ins for two of LLVM's tools, whose package is large. wasm-ld needs no index of an archive, so that the machine's own
# ar does; emcc has sections removed from modules.
SMALL_TOOLS = {"llvm-ar": """\
#!/bin/sh
# Written by tools/setup.py.
exec ar "$@"
""", "llvm-ranlib": """\
#!/bin/sh
# Written by tools/setup.py: archives need no index.
exit 0
""", "llvm-objcopy": '''\
#!/usr/bin/env python3
"""Copies a WebAssembly module without some custom sections: llvm-objcopy IN OUT --remove-section=PATTERN..."""
# Written by tools/setup.py.
import fnmatch
import sys


def number_at(data, at):
    """Returns a number in LEB128 and where it ends."""
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def main():
    option = "--remove-section="
    if len(sys.argv) < 3 or not all(word.startswith(option) for word in sys.argv[3:]):
        sys.exit(f"this llvm-objcopy only knows {option}: {' '.join(sys.argv[1:])}")
    patterns = [word[len(option):] for word in sys.argv[3:]]
    with open(sys.argv[1], "rb") as file:
        data = file.read()
    if data[:4] != b"\\0asm":
        sys.exit(f"{sys.argv[1]} is not a WebAssembly module")
    kept, at = [data[:8]], 8
    while at < len(data):
        size, body = number_at(data, at + 1)
        if data[at] == 0:
            length, name = number_at(data, body)
            is_kept = not any(fnmatch.fnmatchcase(data[name:name + length].decode(), pattern) for pattern in patterns)
        else:
            is_kept = True
        if is_kept:
            kept.append(data[at:body + size])
        at = body + size
    with open(sys.argv[2], "wb") as file:
        file.write(b"".join(kept))


main()
'''}

WARM_UP = """\
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <wasm_simd128.h>
__attribute__((export_name("probe"))) float probe(const float *x, size_t n) {
	float *copy = calloc(n, sizeof *copy);
	v128_t sum = wasm_f32x4_add(wasm_v128_load(x), wasm_v128_load(copy));
#ifdef __wasm_relaxed_simd__
	sum = wasm_f32x4_relaxed_madd(sum, sum, wasm_f32x4_splat(expf(x[0])));
#endif
	free(copy);
	return wasm_f32x4_extract_lane(sum, 0);
}
"""


# As the Makefile links modules.
LINK = ["-O3", "--no-entry", "-sSTANDALONE_WASM", "-sFILESYSTEM=0", "-sMALLOC=emmalloc", "-sALLOW_MEMORY_GROWTH",
        "-sMAXIMUM_MEMORY=4GB", "-sDEFAULT_TO_CXX=0", "-sAUTO_NATIVE_LIBRARIES=0"]
LINK_THREADS = ["-matomics", "-mbulk-memory", "-sINITIAL_MEMORY=4MB", "-sSHARED_MEMORY", "-sIMPORTED_MEMORY",
                "-sERROR_ON_UNDEFINED_SYMBOLS=0"]

THREADS = """\
__attribute__((export_name("probe"))) int probe(int *x) { return __atomic_fetch_add(x, 1, __ATOMIC_SEQ_CST); }
"""

# Says why modules with threads cannot be built, if they cannot; the Makefile looks for it.
WITHOUT_THREADS = TOOLS / "emcc-without-threads"


def use_system():
    """Makes the wrappers run the system's Emscripten if it is recent enough."""
    emcc = system_program("emcc")
    version = re.search(r"\b(\d+)\.(\d+)\.(\d+)", version_of(emcc)) if emcc else None
    if not version or tuple(map(int, version.groups())) < OLDEST_VERSION:
        return False
    folder = os.path.dirname(emcc)
    for name in FRONT_ENDS + INSPECTORS:
        # An SDK keeps the tools it does not put on PATH beside emcc's folder.
        beside = os.path.join(folder, "..", "bin", name)
        path = system_program(name) or (beside if os.path.exists(beside) else None)
        if path:
            wrap_system_program(name, path)
    return True


def make_tool_folder(prefix):
    """Gives every private program a name in bin/ that starts it through the private loader."""
    llvm = next(prefix.glob("usr/lib/llvm-*"))
    version = llvm.name.partition("-")[2]
    write_program(prefix / "run-private", RUN_PRIVATE)
    (prefix / "bin").unlink()
    (prefix / "bin").mkdir()
    for program in [*(llvm / "bin").iterdir(), *(prefix / "usr/bin").glob("wasm-*[a-z]")]:
        for name in (program.name, f"{program.name}-{version}"):
            if not (prefix / "bin" / name).is_symlink():
                (prefix / "bin" / name).symlink_to("../run-private")
    for name, text in SMALL_TOOLS.items():
        write_program(prefix / "bin" / name, text)


# Debian's starters stop at a space in their path.
LAUNCH = """\
#!/bin/sh
# Written by tools/setup.py.
exec python3 -E "$0.py" "$@"
"""


def write_wrappers():
    for name in FRONT_ENDS:
        write_wrapper(name, 'EM_CONFIG="$tools/emcc/config" '
                            f'exec python3 -E "$tools/emcc/usr/share/emscripten/{name}.py" "$@"\n')
    for name in INSPECTORS:
        write_wrapper(name, f'exec "$tools/emcc/bin/{name}" "$@"\n')


def fetch_private(suite):
    """Unpacks Emscripten from a suite of Debian."""
    with building("emcc") as prefix:
        unpack(fetch_debs(suite, ["emscripten"], NOT_USED), prefix)
        make_tool_folder(prefix)
        for name in FRONT_ENDS:
            write_program(prefix / "usr/share/emscripten" / name, LAUNCH)
        (prefix / "config").write_text(CONFIGURATION, encoding="utf-8")
        # emcc's JavaScript optimiser imports its parser the way node finds packages.
        (prefix / "usr/share/node_modules").symlink_to("nodejs")
    write_wrappers()
    return True


def try_modules():
    """Compiles as the Makefile does, so that Emscripten's own libraries are there."""
    with scratch() as folder, step("building Emscripten's libraries of C"):
        (folder / "probe.c").write_text(WARM_UP, encoding="utf-8")
        run([BIN / "emcc", "-msimd128", "-mrelaxed-simd", *LINK, "probe.c", "-o", "probe.wasm"], cwd=folder)
        options = re.findall("--experimental-wasm-relaxed-simd", run(["node", "--v8-options"]))[:1]  # in an older Node
        run(["node", *options, "-e", "new WebAssembly.Module(require('fs').readFileSync('probe.wasm'))"], cwd=folder)


def try_threads():
    """Returns why this Emscripten cannot build the modules whose workers share memory, or nothing. Needs no libraries."""
    with scratch() as folder:
        (folder / "probe.c").write_text(THREADS, encoding="utf-8")
        try:
            run([BIN / "emcc", *LINK, *LINK_THREADS, "-nodefaultlibs", "probe.c", "-o", "probe.wasm"], cwd=folder)
        except SetupError as error:
            return first_line(error)
    return ""


def first_line(error):
    """Returns the line of a failed command's output that says why."""
    lines = str(error).splitlines()
    return next((line for line in lines if "error:" in line), lines[-1])


def candidates():
    """Gives the ways to come by Emscripten, best first, each with a name."""
    yield "this machine's Emscripten", use_system
    for suite in SUITES:
        yield f"Emscripten of Debian {suite}", lambda suite=suite: fetch_private(suite)


def install_emcc():
    """Takes the first Emscripten that builds all modules, else the last that builds those without threads."""
    failures = []
    usable = None
    WITHOUT_THREADS.unlink(missing_ok=True)
    for name, prepare in candidates():
        try:
            if not prepare():
                continue
            try_modules()
        except SetupError as error:
            failures.append(f"{name}: {error}")
            say(f"{name} cannot be used: {first_line(error)}")
            continue
        reason = try_threads()
        if not reason:
            return
        say(f"{name} cannot build the modules with threads: {reason}")
        usable = (name, prepare, reason)
    if not usable:
        raise SetupError("\n".join(failures))
    name, prepare, reason = usable
    prepare()
    WITHOUT_THREADS.write_text(f"{name} cannot build it: {reason}\n", encoding="utf-8")
    say(f"going on with {name}, without those modules; remove .tools/stamp/emcc to look for a newer one")


def clang_of_system():
    """Returns the clang that the system's emcc runs, or nothing if it does not say."""
    config = system_program("em-config")
    clang = os.path.join(run([config, "LLVM_ROOT"]).strip(), "clang") if config else ""
    return clang if os.path.exists(clang) else ""


def install_wasm_cc():
    """Writes wasm-cc, which compiles a file as emcc does, without starting Python for each."""
    words = shlex.split(run([BIN / "emcc", "--cflags"]).replace(str(TOOLS), "$tools"))
    flags = " ".join(f'"{word}"' for word in words)
    clang = clang_of_system() if system_emcc() else "$tools/emcc/bin/clang"
    if clang:
        write_wrapper("wasm-cc", f'exec $EM_COMPILER_WRAPPER "{clang}" {flags} "$@"\n')
    else:
        write_wrapper("wasm-cc", 'exec "$tools/bin/emcc" "$@"\n')
    with scratch() as folder:
        (folder / "probe.c").write_text(WARM_UP, encoding="utf-8")
        compile_it = ["-O3", "-msimd128", "-c", "probe.c"]
        run([BIN / "emcc", *compile_it, "-o", "emcc.o"], cwd=folder)
        run([BIN / "wasm-cc", *compile_it, "-o", "wasm-cc.o"], cwd=folder)
        if (folder / "emcc.o").read_bytes() != (folder / "wasm-cc.o").read_bytes():
            raise SetupError("emcc and its own clang do not compile the same")


def system_emcc():
    """Returns whether .tools/bin/emcc runs the system's."""
    return "$tools/emcc" not in (BIN / "emcc").read_text(encoding="utf-8")

"""Installs Emscripten: the system's when it is recent enough, else Debian's newest in a private prefix.

The private programs want a newer C library than the machine may have. They are therefore started through the private
dynamic loader with a library path of their own: unlike LD_LIBRARY_PATH or a patched interpreter this reaches no other
program, such as node or Python, and holds no absolute path.
"""

import os
import re

from .apt import fetch_debs
from .prefix import LIBRARIES, unpack
from .workspace import (BIN, SetupError, building, run, scratch, step, system_program, version_of,
                        wrap_system_program, write_program, write_wrapper)

OLDEST_VERSION = (3, 1, 50)  # the first with the final relaxed SIMD opcodes
FRONT_ENDS = ("emcc", "em++", "emar", "emranlib")
INSPECTORS = ("wasm-opt", "wasm-dis", "llvm-objdump")

# "forky" has Emscripten 6 with LLVM 21 but still changes; "trixie" is stable, with 3.1.69 and LLVM 19.
SUITES = ("forky", "trixie")

# These are left out: compilers and interpreters that emcc does not use, and the machine's own node and Python.
NOT_USED = (r"python3.*|libpython3.*|media-types|netbase|tzdata|debconf|nodejs|libnode.*|node-(?!acorn).*|ccache|"
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
int main(void) {
	const float x[4] = {1, 2, 3, 4};
	return probe(x, 4) != 1 || printf("ready\\n") < 0;
}
"""


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


def fetch_emscripten():
    """Downloads Emscripten from the first suite that has it."""
    failures = []
    for suite in SUITES:
        try:
            return fetch_debs(suite, ["emscripten"], NOT_USED)
        except SetupError as error:
            failures.append(str(error))
    raise SetupError("\n".join(dict.fromkeys(failures)))


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


def write_wrappers():
    for name in FRONT_ENDS:
        write_wrapper(name, 'EM_CONFIG="$tools/emcc/config" '
                            f'exec python3 -E "$tools/emcc/usr/share/emscripten/{name}.py" "$@"\n')
    for name in INSPECTORS:
        write_wrapper(name, f'exec "$tools/emcc/bin/{name}" "$@"\n')


def build_system_libraries():
    """Compiles for the usual kinds of build once, so that Emscripten's own libraries are there."""
    with scratch() as folder, step("building Emscripten's system libraries"):
        (folder / "probe.c").write_text(WARM_UP, encoding="utf-8")
        emcc = [BIN / "emcc", "-msimd128", "probe.c"]
        run([*emcc, "-mrelaxed-simd", "-O3", "-sSTANDALONE_WASM", "--no-entry", "-o", "probe.wasm"], cwd=folder)
        # Leaves out relaxed SIMD, which not every node runs, and options that need a JavaScript minifier.
        for flags in (["-O0", "-g"], ["-O1"]):
            run([*emcc, *flags, "-sENVIRONMENT=node", "-o", "probe.cjs"], cwd=folder)
            run(["node", "probe.cjs"], cwd=folder)


def install_emcc():
    if use_system():
        return
    with building("emcc") as prefix:
        unpack(fetch_emscripten(), prefix)
        make_tool_folder(prefix)
        (prefix / "config").write_text(CONFIGURATION, encoding="utf-8")
        # emcc's JavaScript optimiser imports its parser the way node finds packages.
        (prefix / "usr/share/node_modules").symlink_to("nodejs")
    write_wrappers()
    build_system_libraries()

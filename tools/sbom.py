#!/usr/bin/env python3
"""Writes sbom.cdx.json, the list of what is built in, shipped and used to develop wisp (CycloneDX 1.6).

What the linkers took from libraries is read from their maps, which `make native wasm` leaves beside what it links; so the
list names the parts of the C library and of the compiler's runtime that are in a WebAssembly module or in the native
library. Development tools come from package.json, its lock, tools/requirements*.txt and tools/setup.py; their scope is
"excluded", which is CycloneDX's word for what is not part of the product.

    tools/sbom.py             writes the file
    tools/sbom.py --check     fails if the file is not what would be written, or is not valid CycloneDX

A check accepts other versions of the compilers' parts than the file has, since these are the release's.
"""

import argparse
import hashlib
import json
import re
import sys
import uuid
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from setup.workspace import REPO, TOOLS, version_of  # noqa: E402  (the path must be set first)
sys.path.pop(0)

SBOM = REPO / "sbom.cdx.json"
MAPS = {"native": "build/libwisp.so.map", "wasm-simd128": "build/wasm/wisp-simd128.wasm.map",
        "wasm-relaxed": "build/wasm/wisp-relaxed.wasm.map",
        "wasm-generate-simd128": "build/wasm/wisp-generate-simd128.wasm.map",
        "wasm-generate-relaxed": "build/wasm/wisp-generate-relaxed.wasm.map",
        "wasm-threads-simd128": "build/wasm/wisp-threads-simd128.wasm.map",
        "wasm-threads-relaxed": "build/wasm/wisp-threads-relaxed.wasm.map",
        "wasm-embed-threads-simd128": "build/wasm/wisp-embed-threads-simd128.wasm.map",
        "wasm-embed-threads-relaxed": "build/wasm/wisp-embed-threads-relaxed.wasm.map",
        "wasm-encoders-simd128": "build/wasm/wisp-encoders-simd128.wasm.map",
        "wasm-encoders-relaxed": "build/wasm/wisp-encoders-relaxed.wasm.map",
        "wasm-udf-simd128": "build/wasm/linked-udf-simd128.wasm.map",
        "wasm-udf-relaxed": "build/wasm/linked-udf-relaxed.wasm.map",
        "wasm-languages": "build/wasm/wisp-languages.wasm.map",
        "wasm-convert": "build/wasm/wisp-convert.wasm.map",
        "wasm-program": "build/wasm/wisp-program.wasm.map"}

EXCEPTION = "Apache-2.0 WITH LLVM-exception"
# Archives whose objects linkers add, and their contents: (name, licence, description).
RUNTIME = {
    "libgcc": ("libgcc", "GPL-3.0-or-later WITH GCC-exception-3.1", "gcc's runtime: detection of the processor"),
    "libc": ("musl", "MIT", "the C library, as Emscripten has it"),
    "builtins": ("compiler-rt", EXCEPTION, "LLVM's runtime of the compiler, as Emscripten has it"),
    "libemmalloc": ("emmalloc", "MIT OR NCSA", "Emscripten's allocator"),
    "libstandalonewasm": ("standalone-wasm", "MIT OR NCSA", "Emscripten's support of modules without its JavaScript"),
}


def archives_in(map_file):
    """Returns the names of the archives from which the linker took objects, each with the objects."""
    taken = {}
    for line in map_file.read_text(encoding="utf-8", errors="replace").splitlines():
        # Sections that a linker left out have no size. GNU ld lists why it took an object at first, without a size too.
        found = re.search(r"(\w[\w+-]*)\.a[(:]([\w.-]+\.o)\)?", line)
        if found and (re.match(r"\s*(-|[0-9a-f]+)\s+[0-9a-f]+\s+[0-9a-f]+\s", line)
                      or re.search(r"0x[0-9a-f]{8,}\s+0x[1-9a-f][0-9a-f]*\s", line)):
            taken.setdefault(re.sub(r"-(debug|optz|noexcept|nontrapping|ww|sjlj|stubs|mt|tracing|memvalidate|nocatch|memgrow)\b.*", "",
                                    found.group(1)), set()).add(found.group(2))
    return taken


def first_number(text):
    found = re.search(r"\d+(\.\d+)+", text)
    return found.group() if found else "unknown"


def runtime_version(archive):
    """Returns the version of a compiler's part on this machine."""
    if archive == "libgcc":
        return first_number(version_of("gcc"))
    musl = next(TOOLS.glob("emcc/usr/share/emscripten/system/lib/libc/musl/VERSION"), None)
    if archive == "libc" and musl:
        return musl.read_text(encoding="utf-8").strip()
    return "emscripten-" + first_number(version_of(TOOLS / "bin/emcc"))


def component(name, version, licence, **others):
    licences = {"license": {"id": licence}} if re.fullmatch(r"[\w.-]+", licence) else {"expression": licence}
    kind = others.pop("type", "library")
    reference = others.pop("reference", f"{name}@{version}" if version else name)
    return {"type": kind, "bom-ref": reference, "name": name, **({"version": version} if version else {}),
            **others, "licenses": [licences]}


def tool(name, version, url):
    return {"type": "application", "bom-ref": url, "name": name, "version": version, "scope": "excluded", "purl": url}


def wisp_version():
    return re.search(r'WISP_VERSION "([^"]+)"', (REPO / "src/wisp.h").read_text(encoding="utf-8")).group(1)


def products():
    """Returns what is shipped: each product's component, and the references of its parts."""
    version, shipped, parts = wisp_version(), [], {}
    runtime = {}
    for place, file in MAPS.items():
        for archive, objects in archives_in(REPO / file).items():
            if archive not in RUNTIME:
                sys.exit(f"{file}: {archive}.a is linked in, and tools/sbom.py does not know its licence")
            runtime.setdefault(archive, {}).setdefault(place, objects)
    for archive, places in sorted(runtime.items()):
        name, licence, about = RUNTIME[archive]
        objects = sorted(set().union(*places.values()))
        shipped.append(component(name, runtime_version(archive), licence, reference=f"runtime:{name}", scope="required",
                                 description=about, properties=[{"name": "wisp:objects", "value": " ".join(objects)}]))
        for place in places:
            parts.setdefault(place, []).append(f"runtime:{name}")
    models = {"wisp-minilm-l6-relu": ("wisp-default.gguf", "Apache-2.0", "derived from sentence-transformers/all-MiniLM-L6-v2"),
              "stories260K": ("wisp-stories.gguf", "MIT", "converted from karpathy/tinyllamas")}
    for name, (file, licence, about) in models.items():
        content = (REPO / "models" / file).read_bytes()
        shipped.append(component(name, None, licence, type="machine-learning-model", scope="required",
                                 description=f"models/{file}, {about}",
                                 hashes=[{"alg": "SHA-256", "content": hashlib.sha256(content).hexdigest()}]))
    shipped += [
        component("unicode-character-database", unicode_version(), "Unicode-3.0", type="data", scope="required",
                  description="tables generated into src/text/unicode_tables.c"),
    ]
    always = [f"unicode-character-database@{unicode_version()}"]
    for name, about, places in (
            ("wisp", "the program, build/wisp; it takes libc, libm and threads from the system", ["native"]),
            ("libwisp", "the libraries, build/libwisp.a and build/libwisp.so", ["native"]),
            ("wisp-engine", "the npm package, with the modules wisp-*.wasm, wisp-generate-*.wasm, wisp-threads-*.wasm, wisp-udf-*.wasm, wisp-languages.wasm, wisp-convert.wasm and wisp-program.wasm, and the models",
             [place for place in MAPS if place.startswith("wasm")])):
        shipped.append(component(name, version, "Apache-2.0", type="application" if name == "wisp" else "library",
                                 reference=f"product:{name}", scope="required", description=about,
                                 **({"purl": f"pkg:npm/{name}@{version}"} if name == "wisp-engine" else {})))
        used = sorted({part for place in places for part in parts.get(place, [])})
        parts[f"product:{name}"] = [*used, *always, *models]
    return shipped, {name: used for name, used in parts.items() if name.startswith("product:")}


def unicode_version():
    text = (REPO / "tools/generate_unicode.py").read_text(encoding="utf-8")
    return max(re.findall(r'"(\d+\.\d+\.\d+)": \("unicodedata2', text), key=lambda v: [int(n) for n in v.split(".")])


def development():
    """Returns the packages that build and test wisp and are part of nothing that is shipped."""
    lock = json.loads((REPO / "package-lock.json").read_text(encoding="utf-8"))
    tools = [tool(path.rpartition("node_modules/")[2], entry["version"],
                  f"pkg:npm/{path.rpartition('node_modules/')[2].replace('@', '%40')}@{entry['version']}")
             for path, entry in lock["packages"].items() if path]
    for file in sorted((REPO / "tools").glob("requirements*.txt")):
        for name, version in re.findall(r"^([\w.-]+)(?:\[[\w,-]+\])?==([\w.+]+)", file.read_text(encoding="utf-8"),
                                        re.MULTILINE):
            tools.append(tool(name, version, f"pkg:pypi/{name.lower().replace('_', '-')}@{version}"))
    tools.append(tool("cmocka", "1.1.7", "pkg:deb/debian/cmocka@1.1.7"))
    return sorted({entry["purl"]: entry for entry in tools}.values(), key=lambda entry: entry["purl"])


def make_sbom():
    version = wisp_version()
    shipped, parts = products()
    tools = development()
    text = json.dumps([shipped, tools, parts], sort_keys=True)
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        # Equal contents have the same number, so that the file does not change by itself.
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, text)}",
        "version": 1,
        "metadata": {"component": {"type": "application", "bom-ref": "project", "name": "wisp", "version": version,
                                   "licenses": [{"license": {"id": "Apache-2.0"}}]}},
        "components": [*shipped, *tools],
        "dependencies": [{"ref": "project", "dependsOn": sorted(parts)},
                         *({"ref": name, "dependsOn": used} for name, used in sorted(parts.items()))],
    }


def comparable(sbom):
    """Returns the list without what depends on the compilers of this machine."""
    kept = json.loads(json.dumps(sbom))
    del kept["serialNumber"]
    for entry in kept["components"]:
        if entry["bom-ref"].startswith("runtime:"):
            del entry["version"], entry["properties"]
    return kept


def validate(text):
    """Returns what is wrong with the file by CycloneDX's schema, or nothing."""
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator
    return JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)


def check(sbom):
    if not SBOM.exists():
        return f"{SBOM.name} is missing: run tools/sbom.py"
    text = SBOM.read_text(encoding="utf-8")
    stored = json.loads(text)
    if comparable(stored) != comparable(sbom):
        old, new = ({json.dumps(entry, sort_keys=True) for entry in comparable(one)["components"]}
                    for one in (stored, sbom))
        for mark, entries in (("-", old - new), ("+", new - old)):
            for entry in sorted(entries):
                print(mark, entry, file=sys.stderr)
        return f"{SBOM.name} is not current: run tools/sbom.py"
    wrong = validate(text)
    return f"{SBOM.name}: {wrong}" if wrong else None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare and validate the file instead of writing it")
    arguments = parser.parse_args()
    missing = [file for file in MAPS.values() if not (REPO / file).exists()]
    if missing:
        return f"{missing[0]} is missing: run make native wasm"
    sbom = make_sbom()
    if arguments.check:
        return check(sbom)
    SBOM.write_text(json.dumps(sbom, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return None


if __name__ == "__main__":
    sys.exit(main())

"""Lists every runner: its command, its requirements and its files.

A runner is ENGINE@THREADS. To add one, add an entry to one of the families; the protocol is in bench/README.md. A
further browser is an entry in runners/browsers.mjs and one in BROWSERS.
"""

import dataclasses
import functools
import glob
import os
import platform
import subprocess
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]
SHARED = os.environ.get("WISP_SHARED", "../shared")

FOLDER = f"{SHARED}/models/all-MiniLM-L6-v2"
GGUF = {"f32": "build/bench/minilm-f32.gguf", "int8": "build/bench/minilm-q8_0.gguf",
        "q4_0": "build/bench/minilm-q4_0.gguf", "bf16": "build/bench/minilm-f32.gguf"}
ONNX = "build/bench/onnx"
ONNX_FILES = {"fp32": "model.onnx", "int8": "model_quantized.onnx", "q8": "model_quantized.onnx"}
PYTHON = ".tools/bench-python/bin/python"
PACKAGES = ".tools/bench-python/lib/python3*/site-packages"
MODULES = "bench/node_modules"
NODE24 = f"{MODULES}/node-*/bin/node"
NODES = {"node": "node", "node24": NODE24}
BROWSERS = ("chromium", "firefox")
# V8 compiles WebAssembly for a machine without AVX-VNNI when it is told so, in Node and in Chromium.
NO_VNNI = "--no-enable-avx-vnni"
THREADS = (1, 2)

NODE_MACHINE = {"x86_64": "x64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())

# The driver times the runners of a group in turn.
GROUPS = ("native", "javascript", "firefox", "tokenizers")
# A quick run times only these, which give the main comparisons.
QUICK = ("calibrate", "wisp-int8", "onnxruntime-int8", "torch-bf16", "llamacpp-q8_0", "node24-wisp-int8", "node-tjs-q8",
         "chromium-wisp-int8", "chromium-tjs-q8", "chromium-wllama-q8_0", "tokens-wisp", "tokens-huggingface")


@dataclasses.dataclass(frozen=True)
class Runner:
    """`needs` has patterns of files that must exist; `model` and `runtime` have patterns of files whose bytes count.
    `kind` names the work: "embed" texts, "tokenize" texts, or "calibrate", which is arithmetic alone."""
    engine: str
    threads: int
    group: str
    about: str
    command: tuple
    needs: tuple = ()
    model: tuple = ()
    runtime: tuple = ()
    kind: str = "embed"
    peer: bool = True
    every_run: bool = True  # False: it runs only when wisp is measured alone

    @property
    def name(self):
        return f"{self.engine}@{self.threads}"

    @property
    def in_browser(self):
        return self.engine.split("-")[0] in BROWSERS

    def missing(self):
        return [pattern for pattern in (*self.needs, *self.model) if not files_of(pattern)]


def files_of(pattern):
    """Returns the files that match a pattern within the checkout, or an absolute pattern."""
    names = sorted(glob.glob(pattern, root_dir=REPO, recursive=True))
    return [path for path in (REPO / name for name in names) if path.is_file()]


def onnx_model(dtype):
    return (f"{ONNX}/onnx/{ONNX_FILES[dtype]}", f"{ONNX}/*.json")


def calibrate(threads):
    for group in ("native", "javascript", "firefox"):
        yield Runner("calibrate" if group == "native" else f"calibrate-{group}", threads, group,
                     "arithmetic alone, a fixed amount dealt out to the threads",
                     ("build/bench/calibrate", str(threads)), needs=("build/bench/calibrate",), kind="calibrate",
                     peer=False)


@functools.lru_cache
def kernel_sets():
    """Returns the names of the kernel sets that run here, the fastest first; none before the runner is built."""
    program = REPO / "build/bench/wisp"
    if not program.exists():
        return []
    return subprocess.run([program, "--list-kernels"], stdout=subprocess.PIPE, text=True, check=True).stdout.split()


def computes_bf16():
    """Returns whether wisp's default kernel set computes in bf16 here: with AMX it does."""
    return kernel_sets()[:1] == ["amx"]


def wisp_native(threads):
    for compute, model in GGUF.items():
        if compute == "bf16" and not computes_bf16():
            continue
        yield native_runner(f"wisp-{compute}", threads, compute, model)
        if compute in ("f32", "int8"):
            for kernels in kernel_sets()[1:-1]:  # the first is the default, the last the scalar reference
                yield native_runner(f"wisp-{compute}-{kernels}", threads, compute, model, kernels)


def native_runner(engine, threads, compute, model, kernels=None):
    more = ("--kernels", kernels) if kernels else ()
    return Runner(engine, threads, "native", f"wisp, native, {compute}{f', {kernels} kernels' if kernels else ''}",
                  ("build/bench/wisp", "--model", model, "--compute", compute, "--threads", str(threads), *more),
                  needs=("build/bench/wisp",), model=(model,), runtime=("build/bench/libwisp.so",), peer=False,
                  every_run=kernels in (None, "avx2"))


def wisp_wasm(threads):
    """Lists the package in Node and in browsers. The system's Node may lack relaxed SIMD."""
    for place in (*NODES, *BROWSERS):
        for compute in ("f32", "int8"):
            yield wasm_runner(place, threads, compute)
    for place in ("node24", *BROWSERS):
        yield wasm_runner(place, threads, "int8", one_engine=True)
    for place in ("node24", "chromium"):
        yield wasm_runner(place, threads, "int8", vnni=False)


def wisp_addon(threads):
    """Lists the package in Node with its addon, beside transformers.js, whose onnxruntime-node is native code too."""
    for compute in ("f32", "int8"):
        yield Runner(f"node-wisp-native-{compute}", threads, "javascript", f"wisp's addon in Node, {compute}",
                     (NODE24, "bench/runners/node.mjs", "wisp", "--model", GGUF[compute], "--threads", str(threads),
                      "--addon", "build/wisp.node"),
                     needs=("build/wisp.node", NODE24), model=(GGUF[compute],), runtime=("js/**/*.js", "build/wisp.node"),
                     peer=False, every_run=compute == "int8")


def wasm_runner(place, threads, compute, one_engine=False, vnni=True):
    """With one_engine the threads share an engine and its memory, for which a page must be isolated; else there is a
    worker for each."""
    in_page = place in BROWSERS
    more = ("--browser", place) if in_page else ()
    name, about = f"{place}-wisp-{compute}", f"wisp in WebAssembly in {place}, {compute}"
    if one_engine:
        more += ("--one-engine", "--isolated") if in_page else ("--one-engine",)
        name += "-isolated" if in_page else "-threads"
        about += ", threads of one engine" + (", page with COOP/COEP" if in_page else "")
    if not vnni:
        name, about = f"{name}-no-vnni", f"{about}, as on a machine without VNNI"
    return Runner(name, threads, group_of(place), about,
                  (*script_of(place, vnni), "wisp", "--model", GGUF[compute], "--threads", str(threads), *more),
                  needs=("js/wisp-*.wasm", *place_needs(place)), model=(GGUF[compute],),
                  runtime=() if in_page else
                  ("js/**/*.js", "js/wisp-embed-threads-relaxed.wasm" if one_engine else "js/wisp-relaxed.wasm"), peer=False,
                  every_run=compute == "int8" or place == "chromium")


def group_of(place):
    return "firefox" if place == "firefox" else "javascript"


def script_of(place, vnni=True):
    """Returns a Node and a script with the flag for V8. puppeteer-core, which drives Firefox, needs Node 22 or later."""
    flag = () if vnni else (NO_VNNI,)
    if place in BROWSERS:
        return (NODE24, "bench/runners/browser.mjs", *(f"--js-flags={each}" for each in flag))
    return (NODES[place], *flag, "bench/runners/node.mjs")


def place_needs(place):
    if place in BROWSERS:
        driver = "puppeteer-core" if place == "firefox" else "playwright-core"
        return (f".tools/bin/{place}", f"{MODULES}/{driver}/package.json", NODE24)
    return (NODES[place],) if "/" in NODES[place] else ()


def onnxruntime(threads):
    for dtype in ("fp32", "int8"):
        yield Runner(f"onnxruntime-{dtype}", threads, "native", f"onnxruntime in Python, {dtype}",
                     (PYTHON, "bench/runners/run_onnxruntime.py", "--model", ONNX, "--dtype", dtype, "--threads",
                      str(threads)), needs=(PYTHON,), model=onnx_model(dtype),
                     runtime=(f"{PACKAGES}/onnxruntime/capi/*.so*", f"{PACKAGES}/tokenizers/*.so"))


def python_packages(threads):
    """Timed where someone has installed them in .tools/bench-python (bench/README.md), wisp's own package among them."""
    q8_0 = (("--model", GGUF["int8"]), (GGUF["int8"],))
    yield package_runner("python-wisp-int8", threads, "wisp", "wisp_engine", "wisp_engine", *q8_0)
    yield package_runner("python-llama-q8_0", threads, "llama", "llama_cpp", "llama_cpp", *q8_0)
    for dtype in ("fp32", "int8"):
        yield package_runner(f"fastembed-{dtype}", threads, "fastembed", "fastembed", "onnxruntime/capi",
                             ("--model", ONNX, "--dtype", dtype), onnx_model(dtype))


def package_runner(engine, threads, script, package, runtime, words, model):
    """`runtime` is the folder of the package's libraries."""
    return Runner(engine, threads, "native", f"{package} in Python, {engine.split('-')[-1]}",
                  (PYTHON, f"bench/runners/run_{script}.py", *words, "--threads", str(threads)),
                  needs=(PYTHON, f"{PACKAGES}/{package}/__init__.py"), model=model,
                  runtime=(f"{PACKAGES}/{runtime}/**/*.so*",), peer=script != "wisp")


def openvino(threads):
    """OpenVINO is timed where someone has installed it in .tools/bench-python (bench/README.md)."""
    for dtype, file in (("f32", "onnx/model.onnx"), ("bf16", "onnx/model.onnx"), ("int8", "openvino/int8.*"),
                        ("int8-bf16", "openvino/int8.*")):
        yield Runner(f"openvino-{dtype}", threads, "native", f"OpenVINO in Python, {dtype}",
                     (PYTHON, "bench/runners/run_openvino.py", "--model", ONNX, "--dtype", dtype, "--threads",
                      str(threads)), needs=(PYTHON, f"{PACKAGES}/openvino/__init__.py"),
                     model=(f"{ONNX}/{file}", f"{ONNX}/*.json"), runtime=(f"{PACKAGES}/openvino/libs/*.so*",))


def pytorch(threads):
    for dtype in ("fp32", "bf16"):
        yield Runner(f"torch-{dtype}", threads, "native", f"PyTorch through sentence-transformers, {dtype}",
                     (PYTHON, "bench/runners/run_torch.py", "--model", FOLDER, "--dtype", dtype, "--threads",
                      str(threads)), needs=(PYTHON,),
                     model=(f"{FOLDER}/model.safetensors", f"{FOLDER}/tokenizer.json", f"{FOLDER}/config.json"),
                     runtime=(f"{PACKAGES}/torch/lib/libtorch_cpu.so", f"{PACKAGES}/torch/lib/libtorch_python.so",
                              f"{PACKAGES}/torch/lib/libgomp*", f"{PACKAGES}/tokenizers/*.so"))


def llama(threads):
    yield Runner("llamacpp-q8_0", threads, "native", "llama.cpp through node-llama-cpp, wisp's Q8_0 file",
                 (NODE24, "bench/runners/node.mjs", "llama", "--model", GGUF["int8"], "--threads", str(threads)),
                 needs=(f"{MODULES}/node-llama-cpp/package.json",), model=(GGUF["int8"],),
                 runtime=(f"{MODULES}/@node-llama-cpp/linux-{NODE_MACHINE}/bins/*/*",))


def transformers_node(threads):
    for dtype in ("fp32", "q8"):
        yield Runner(f"node-tjs-{dtype}", threads, "javascript",
                     f"transformers.js in Node (onnxruntime-node, native code), {dtype}",
                     (NODE24, "bench/runners/node.mjs", "transformers", "--model", ONNX, "--dtype", dtype, "--threads",
                      str(threads)), needs=(f"{MODULES}/@huggingface/transformers/package.json",),
                     model=onnx_model(dtype),
                     runtime=(f"{MODULES}/@huggingface/transformers/dist/transformers.node.mjs",
                              f"{MODULES}/onnxruntime-node/bin/*/linux/{NODE_MACHINE}/*"))


def browser_peers(threads):
    """Lists peers in pages. With two threads they need an isolated page. The server counts what a page downloads."""
    isolated = ("--isolated",) if threads > 1 else ()
    for browser in BROWSERS:
        more = ("--browser", browser, "--threads", str(threads), *isolated)
        for dtype in ("fp32", "q8") if browser == "chromium" else ("q8",):
            yield Runner(f"{browser}-tjs-{dtype}", threads, group_of(browser),
                         f"transformers.js in {browser} (wasm), {dtype}",
                         (*script_of(browser), "transformers", "--model", ONNX, "--dtype", dtype, *more),
                         needs=(*place_needs(browser), f"{MODULES}/@huggingface/transformers/package.json"),
                         model=onnx_model(dtype))
        if browser == "chromium":
            yield Runner(f"{browser}-tjs-q8-no-vnni", threads, group_of(browser),
                         f"transformers.js in {browser} (wasm), q8, as on a machine without VNNI",
                         (*script_of(browser, vnni=False), "transformers", "--model", ONNX, "--dtype", "q8", *more),
                         needs=(*place_needs(browser), f"{MODULES}/@huggingface/transformers/package.json"),
                         model=onnx_model("q8"))
        yield Runner(f"{browser}-wllama-q8_0", threads, group_of(browser), f"wllama in {browser}, wisp's Q8_0 file",
                     (*script_of(browser), "wllama", "--model", GGUF["int8"], *more),
                     needs=(*place_needs(browser), f"{MODULES}/@wllama/wllama/package.json"), model=(GGUF["int8"],))


def tokenizers(threads):
    if threads > 1:
        return
    yield Runner("tokens-wisp", 1, "tokenizers", "wisp's tokeniser, native",
                 ("build/bench/wisp", "--model", GGUF["int8"], "--tokenize"), needs=("build/bench/wisp",),
                 kind="tokenize", peer=False)
    yield Runner("tokens-huggingface", 1, "tokenizers", "Hugging Face tokenizers (Rust) in Python, one thread",
                 (PYTHON, "bench/runners/run_tokenizers.py", "--model", ONNX), needs=(PYTHON,), kind="tokenize")


FAMILIES = (calibrate, wisp_native, wisp_wasm, wisp_addon, python_packages, onnxruntime, openvino, pytorch, llama,
            transformers_node, browser_peers, tokenizers)


def all_runners():
    """Returns all runners in the order of the tables: by engine, then by threads."""
    runners = [runner for family in FAMILIES for threads in THREADS for runner in family(threads)]
    engines = list(dict.fromkeys(runner.engine for runner in runners))
    return sorted(runners, key=lambda runner: (GROUPS.index(runner.group), engines.index(runner.engine),
                                               runner.threads))

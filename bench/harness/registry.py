"""Every runner there is: how it is started, what it needs, which files it consists of.

A runner is ENGINE@THREADS. To add one, add an entry to engines(); the protocol is in bench/README.md. A further browser
is an entry in runners/browsers.mjs and one in BROWSERS.
"""

import dataclasses
import glob
import os
import platform
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]
SHARED = os.environ.get("WISP_SHARED", "../shared")

FOLDER = f"{SHARED}/models/all-MiniLM-L6-v2"
GGUF = {"f32": "build/bench/minilm-f32.gguf", "int8": "build/bench/minilm-q8_0.gguf"}
ONNX = "build/bench/onnx"
ONNX_FILES = {"fp32": "model.onnx", "int8": "model_quantized.onnx", "q8": "model_quantized.onnx"}
PYTHON = ".tools/bench-python/bin/python"
PACKAGES = ".tools/bench-python/lib/python3*/site-packages"
NODES = {"node": "node", "node24": "bench/node_modules/node-*/bin/node"}
MODULES = "bench/node_modules"
BROWSERS = ("chromium",)
THREADS = (1, 2)

NODE_MACHINE = {"x86_64": "x64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())


@dataclasses.dataclass(frozen=True)
class Runner:
    """`needs` are patterns of files that must exist; `model` and `runtime` patterns of those whose bytes count."""
    engine: str
    threads: int
    about: str
    command: tuple
    needs: tuple = ()
    model: tuple = ()
    runtime: tuple = ()

    @property
    def name(self):
        return f"{self.engine}@{self.threads}"

    def missing(self):
        return [pattern for pattern in (*self.needs, *self.model) if not files_of(pattern)]


def files_of(pattern):
    """Files that match a pattern within the checkout, or an absolute one."""
    return [path for path in (REPO / name for name in sorted(glob.glob(pattern, root_dir=REPO))) if path.is_file()]


def onnx_model(dtype):
    return (f"{ONNX}/onnx/{ONNX_FILES[dtype]}", f"{ONNX}/*.json")


def calibrate(threads):
    yield Runner("calibrate", threads, "arithmetic alone, a fixed amount dealt out to the threads",
                 ("build/bench/calibrate", str(threads)), needs=("build/bench/calibrate",))


def wisp_native(threads):
    for compute, model in GGUF.items():
        yield Runner(f"wisp-{compute}", threads, f"wisp, native, {compute}",
                     ("build/bench/wisp", "--model", model, "--compute", compute, "--threads", str(threads)),
                     needs=("build/bench/wisp",), model=(model,), runtime=("build/bench/libwisp.so",))


def wisp_wasm(threads):
    """In Node and in browsers: one instance, or several in workers."""
    kinds = [(node, "node.mjs", (path,)) for node, path in NODES.items()]
    kinds += [(browser, "browser.mjs", ("node", browser)) for browser in BROWSERS]
    for place, script, start in kinds:
        build = "simd128" if place == "node" else "relaxed"
        for compute, model in GGUF.items():
            browser = ("--browser", place) if place in BROWSERS else ()
            yield Runner(f"{place}-wisp-{compute}", threads, f"wisp in WebAssembly in {place}, {compute}",
                         (start[0], f"bench/runners/{script}", "wisp", *browser, "--model", model, "--dtype", compute,
                          "--threads", str(threads)),
                         needs=("js/wisp-*.wasm", *place_needs(place)), model=(model,),
                         runtime=("js/*.js", f"js/wisp-{build}.wasm"))


def place_needs(place):
    if place in BROWSERS:
        return (f".tools/bin/{place}", f"{MODULES}/playwright-core/package.json")
    return (NODES[place],) if "/" in NODES[place] else ()


def onnxruntime(threads):
    for dtype in ("fp32", "int8"):
        yield Runner(f"onnxruntime-{dtype}", threads, f"onnxruntime in Python, {dtype}",
                     (PYTHON, "bench/runners/run_onnxruntime.py", "--model", ONNX, "--dtype", dtype, "--threads",
                      str(threads)), needs=(PYTHON,), model=onnx_model(dtype),
                     runtime=(f"{PACKAGES}/onnxruntime/capi/*.so*", f"{PACKAGES}/tokenizers/*.so"))


def pytorch(threads):
    for dtype in ("fp32", "bf16"):
        yield Runner(f"torch-{dtype}", threads, f"PyTorch through sentence-transformers, {dtype}",
                     (PYTHON, "bench/runners/run_torch.py", "--model", FOLDER, "--dtype", dtype, "--threads",
                      str(threads)), needs=(PYTHON,),
                     model=(f"{FOLDER}/model.safetensors", f"{FOLDER}/tokenizer.json", f"{FOLDER}/config.json"),
                     runtime=(f"{PACKAGES}/torch/lib/libtorch_cpu.so", f"{PACKAGES}/torch/lib/libtorch_python.so",
                              f"{PACKAGES}/torch/lib/libgomp*", f"{PACKAGES}/tokenizers/*.so"))


def llama(threads):
    yield Runner("llamacpp-q8_0", threads, "llama.cpp through node-llama-cpp, wisp's Q8_0 file",
                 ("node", "bench/runners/node.mjs", "llama", "--model", GGUF["int8"], "--threads", str(threads)),
                 needs=(f"{MODULES}/node-llama-cpp/package.json",), model=(GGUF["int8"],),
                 runtime=(f"{MODULES}/@node-llama-cpp/linux-{NODE_MACHINE}/bins/*/*",))


def transformers_node(threads):
    for dtype in ("fp32", "q8"):
        yield Runner(f"node-tjs-{dtype}", threads, f"transformers.js in Node (onnxruntime-node), {dtype}",
                     ("node", "bench/runners/node.mjs", "transformers", "--model", ONNX, "--dtype", dtype, "--threads",
                      str(threads)), needs=(f"{MODULES}/@huggingface/transformers/package.json",),
                     model=onnx_model(dtype),
                     runtime=(f"{MODULES}/@huggingface/transformers/dist/transformers.node.mjs",
                              f"{MODULES}/onnxruntime-node/bin/*/linux/{NODE_MACHINE}/*"))


def browser_peers(threads):
    """With two threads these need an isolated page."""
    isolated = ("--isolated",) if threads > 1 else ()
    for browser in BROWSERS:
        start = ("node", "bench/runners/browser.mjs")
        more = ("--browser", browser, "--threads", str(threads), *isolated)
        for dtype in ("fp32", "q8"):
            yield Runner(f"{browser}-tjs-{dtype}", threads, f"transformers.js in {browser} (wasm), {dtype}",
                         (*start, "transformers", "--model", ONNX, "--dtype", dtype, *more),
                         needs=(*place_needs(browser), f"{MODULES}/@huggingface/transformers/package.json"),
                         model=onnx_model(dtype),
                         runtime=(f"{MODULES}/@huggingface/transformers/dist/transformers.min.js",
                                  f"{MODULES}/onnxruntime-web/dist/ort-wasm-simd-threaded.asyncify.*"))
        yield Runner(f"{browser}-wllama-q8_0", threads, f"wllama in {browser}, wisp's Q8_0 file",
                     (*start, "wllama", "--model", GGUF["int8"], *more),
                     needs=(*place_needs(browser), f"{MODULES}/@wllama/wllama/package.json"), model=(GGUF["int8"],),
                     runtime=(f"{MODULES}/@wllama/wllama/esm/index.min.js",
                              f"{MODULES}/@wllama/wllama/esm/wasm/wllama.wasm"))


FAMILIES = (calibrate, wisp_native, wisp_wasm, onnxruntime, pytorch, llama, transformers_node, browser_peers)


def all_runners():
    """In the order of the tables: engines together, then by threads."""
    runners = [runner for family in FAMILIES for threads in THREADS for runner in family(threads)]
    engines = list(dict.fromkeys(runner.engine for runner in runners))
    return sorted(runners, key=lambda runner: (engines.index(runner.engine), runner.threads))

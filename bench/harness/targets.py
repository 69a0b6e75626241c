"""Compares the results of a run with the targets that wisp has beside its peers: one Check for each target."""

import dataclasses

from . import peaks

NATIVE_PEERS = ("onnxruntime-int8", "torch-bf16", "llamacpp-q8_0")
WASM_PLACES = {"chromium": "Chromium", "node24": "Node 24"}


@dataclasses.dataclass(frozen=True)
class Check:
    """Requires `value` >= `limit`, or `value` <= `limit` with `at_most`; without a limit only reports the value."""
    what: str
    value: float
    limit: float | None = None
    at_most: bool = False
    unit: str = "x"

    @property
    def met(self):
        if self.limit is None:
            return None
        return self.value <= self.limit if self.at_most else self.value >= self.limit

    @property
    def target(self):
        if self.limit is None:
            return "-"
        return f"{'at most' if self.at_most else 'at least'} {self.limit:g}{self.unit}"


def median(report, runner, workload):
    record = report["runners"].get(runner, {})
    return record.get("results", {}).get(workload, {}).get("median")


def versus(report, wisp, peers, workload, limit, what, at_most=False):
    """Yields a Check of wisp's result divided by that of the best peer; nothing if either is missing."""
    own = median(report, wisp, workload)
    others = {peer: median(report, peer, workload) for peer in peers}
    others = {peer: value for peer, value in others.items() if value}
    if not own or not others:
        return
    best = (min if report["workloads"][workload]["unit"] == "ms" else max)(others, key=others.get)
    yield Check(f"{what}, {workload}, beside {best}", own / others[best], limit, at_most)


def native(report):
    for threads in (1, 2):
        peers = [f"{engine}@{threads}" for engine in NATIVE_PEERS]
        what = f"native, {threads} thread{'s' if threads > 1 else ''}"
        for workload, limit in (("W1", 1.4), ("W2", 1.25)):
            yield from versus(report, f"wisp-int8@{threads}", peers, workload, limit, what)
        yield from versus(report, f"wisp-int8@{threads}", peers, "W3-1x16", 0.4, what, at_most=True)


def wasm(report):
    for place, name in WASM_PLACES.items():
        wisp = f"{place}-wisp-int8"
        for workload in ("W1", "W2"):
            for threads in (1, 2):
                workers = f"{name}, {threads} worker{'s' if threads > 1 else ''}"
                yield from versus(report, f"{wisp}@{threads}", [f"chromium-tjs-q8@{threads}"], workload, 2.5, workers)
                yield from versus(report, f"{wisp}@{threads}", [f"chromium-wllama-q8_0@{threads}"], workload, 15,
                                  workers)
            yield from versus(report, f"{wisp}@2", ["chromium-tjs-q8@1"], workload, 4.5,
                              f"{name}, 2 workers, the peer without COOP/COEP")
        yield from versus(report, f"{wisp}@1", ["chromium-tjs-q8@1"], "W3-1x16", 0.4, f"{name}, 1 worker", at_most=True)


def without_vnni(report):
    """Yields Checks of kernels for machines without VNNI. onnxruntime cannot be told to leave out what the machine has.
    The targets on such a machine are 1.25 (W1) and 1.2 (W2) beside onnxruntime's int8, which is 1.6 to 1.7 times as fast
    as its fp32 there; wisp's f32 is 1.17 and 1.24 times as fast as that fp32 (a Zen 3). So wisp's int8 has to be 1.8 and
    1.61 times as fast as its own f32 on AVX2. V8 can be told, so Chromium's peer works without VNNI, too."""
    for threads in (1, 2):
        count = f"{threads} thread{'s' if threads > 1 else ''}"
        for workload, limit in (("W1", 1.8), ("W2", 1.61)):
            for peer, least in (("wisp-f32-avx2", limit), ("onnxruntime-fp32", None)):
                yield from versus(report, f"wisp-int8-avx2@{threads}", [f"{peer}@{threads}"], workload, least,
                                  f"native avx2, {count}")
        for place, name in WASM_PLACES.items():
            for workload, limit in (("W1", 2.5), ("W2", 2.2), ("W3-1x16", 0.5)):
                yield from versus(report, f"{place}-wisp-int8-no-vnni@{threads}",
                                  [f"chromium-tjs-q8-no-vnni@{threads}"], workload, limit,
                                  f"{name} without VNNI, {count}", at_most=workload.startswith("W3"))


def addon(report):
    for threads in (1, 2):
        count = f"{threads} thread{'s' if threads > 1 else ''}"
        for workload, limit in (("W1", 1.5), ("W2", 1.4), ("W3-1x16", 0.75)):
            yield from versus(report, f"node-wisp-native-int8@{threads}", [f"node-tjs-q8@{threads}"], workload, limit,
                              f"Node with the addon, {count}", at_most=workload.startswith("W3"))


def one_text(report):
    """Yields Checks of one text on two threads."""
    for name, wisp, peer in (("native", "wisp-int8", "onnxruntime-int8"),
                             ("Chromium, isolated", "chromium-wisp-int8-isolated", "chromium-tjs-q8"),
                             ("Firefox, isolated", "firefox-wisp-int8-isolated", "firefox-tjs-q8"),
                             ("Node 24", "node24-wisp-int8-threads", None)):
        for workload in ("W3-1x64", "W3-1x256"):
            one, two = median(report, f"{wisp}@1", workload), median(report, f"{wisp}@2", workload)
            if one and two:
                yield Check(f"{name}, one text, 2 threads beside 1, {workload}", one / two, 1.7)
            if peer:
                yield from versus(report, f"{wisp}@2", [f"{peer}@2"], workload, 0.7, f"{name}, one text, 2 threads",
                                  at_most=True)


def firefox(report):
    for workload in ("W1", "W2", "W3-1x16"):
        for threads in (1, 2):
            yield from versus(report, f"firefox-wisp-int8@{threads}", [f"firefox-tjs-q8@{threads}"], workload,
                                  {"W1": 2.2, "W2": 1.8}.get(workload),
                              f"Firefox, {threads} worker{'s' if threads > 1 else ''}")


def quality(report):
    for runner, record in report["runners"].items():
        found = record.get("quality", {})
        if "wisp-int8" in record["engine"] and "cosine_mean" in found:
            texts = f"{found['texts']} texts of W1"
            yield Check(f"{runner}, mean cosine, {texts}", found["cosine_mean"], 0.999, unit="")
            yield Check(f"{runner}, least cosine, {texts}", found["cosine_min"], 0.995, unit="")


def scaling(report):
    """Yields Checks of W2 on two threads, with the scaling of arithmetic alone, the limit of the machine, beside it."""
    for engine, calibration in (("wisp-int8", "calibrate"), ("node24-wisp-int8", "calibrate-javascript"),
                                ("chromium-wisp-int8", "calibrate-javascript"),
                                ("firefox-wisp-int8", "calibrate-firefox")):
        one, two = median(report, f"{engine}@1", "W2"), median(report, f"{engine}@2", "W2")
        alone = [median(report, f"{calibration}@{threads}", "arithmetic") for threads in (1, 2)]
        if one and two and all(alone):
            possible = alone[0] / alone[1]
            yield Check(f"{engine}, 2 beside 1, W2 (arithmetic alone gives {possible:.2f}x)", two / one, 1.85)


FEWEST_ROWS = 4  # a matrix product of fewer rows waits for its weights


def shares(report):
    """Yields Checks of the least part of the dot instruction's peak that a shape reaches."""
    for place, found in report["peaks"].items():
        for kernels, all_rates in found["gemm_int8"].items():
            peak = found["peaks"].get(peaks.INSTRUCTION_OF.get(kernels))
            rates = [rate for shape, rate in all_rates.items() if int(shape.split()[0]) >= FEWEST_ROWS]
            if peak and rates:
                low, high = min(rates) / peak, max(rates) / peak
                what = f"int8 product from {FEWEST_ROWS} rows, {kernels} ({place})"
                yield Check(f"{what}, share of the peak; at best {100 * high:.0f} %", 100 * low, 70, unit=" %")
            inside = found.get("passes", {}).get(kernels)
            if peak and inside:
                yield Check(f"int8 products inside forward passes, {kernels} ({place}), share of the peak",
                            100 * inside / peak, 75, unit=" %")


def loading(report):
    for name, wisp, peer, limit in (("Node 24", "node24-wisp-int8@1", "node-tjs-q8@1", 0.25),
                                    ("Node with the addon", "node-wisp-native-int8@1", "node-tjs-q8@1", 0.25),
                                    ("Chromium", "chromium-wisp-int8@1", "chromium-tjs-q8@1", 0.1),
                                    ("Firefox", "firefox-wisp-int8@1", "firefox-tjs-q8@1", 0.25)):
        starts = [report["runners"].get(runner, {}).get("starts", {}).get("warm") for runner in (wisp, peer)]
        if all(starts):
            own, other = (found["open_seconds"] for found in starts)
            yield Check(f"{name}, open to first embedding, warm ({1000 * own:.0f} ms), beside {peer}", own / other,
                        limit, at_most=True)


def memory(report):
    for runner, record in report["runners"].items():
        load, model = record.get("load"), record.get("bytes", {}).get("model")
        if not load or not model or "wisp-int8" not in record["engine"]:
            continue
        size, resident = model["raw"] / 1e6, load["memory_mb"]["resident"]
        if record["group"] == "native":
            yield Check(f"{runner}, resident after load", resident, round(1.3 * size + 30, 1), True, " MB")
        elif "empty_page_mb" in load and load["memory_mb"]["resident"]:
            shared = record["about"].get("sharedMemory")
            limit = round(size + 16 * record["threads"], 1) if shared else None
            yield Check(f"{runner}, resident after load, beyond an empty page", resident - load["empty_page_mb"], limit,
                        True, " MB")


def tokenizer(report):
    own, other = (median(report, f"tokens-{name}@1", "tokenize") for name in ("wisp", "huggingface"))
    if own and other:
        same = report["runners"]["tokens-wisp@1"].get("same_ids")
        yield Check(f"tokeniser beside Hugging Face's, {'the same ids' if same else 'OTHER IDS'}", own / other, 5)


SECTIONS = (native, wasm, without_vnni, addon, one_text, firefox, quality, scaling, shares, loading, memory, tokenizer)


def all_checks(report):
    return [check for section in SECTIONS for check in section(report)]


def losses(report):
    """Yields (group, threads, workload, wisp's runner, peer, ratio) if a peer in wisp's group was better than all of
    wisp's int8 runners with as many threads. The ratio is below 1."""
    runners = {name: record for name, record in report["runners"].items() if record.get("results")}
    for workload, entry in report["workloads"].items():
        for group in dict.fromkeys(record["group"] for record in runners.values()):
            for threads in (1, 2):
                entrants = {name: median(report, name, workload) for name, record in runners.items()
                            if record["group"] == group and record["threads"] == threads
                            and workload in record["results"]}
                speeds = {name: 1 / value if entry["unit"] == "ms" else value for name, value in entrants.items()}
                own = max((name for name in speeds if "wisp" in name and "int8" in name), key=speeds.get, default=None)
                for name in speeds:
                    if own and "wisp" not in name and speeds[name] > speeds[own]:
                        yield group, threads, workload, own, name, speeds[own] / speeds[name]

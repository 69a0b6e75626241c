#!/usr/bin/env python3
"""Writes RESULTS.md from the JSON that driver.py leaves: report.py FOLDER OUTPUT. The folder has peers.json, and
wisp.json if wisp was measured alone as well."""

import json
import sys
from pathlib import Path

sys.dont_write_bytecode = True  # keeps __pycache__ out of the checkout

from harness import files, peaks, table, targets  # noqa: E402


def markdown(rows):
    head, *body = rows
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *body]
    return "\n".join("| " + " | ".join(str(cell) for cell in row) + " |" for row in lines)


def of_group(report, group):
    return {name: record for name, record in report["runners"].items()
            if record["group"] == group and not name.startswith("calibrate")}


def speed(report, group):
    records = of_group(report, group)
    names = [name for name in report["workloads"] if any(name in record.get("results", {})
                                                         for record in records.values())]
    rows = [["runner", *(f"{name}, {report['workloads'][name]['unit']}" for name in names), "cosine mean", "min"]]
    for runner, record in records.items():
        results, found = record.get("results", {}), record.get("quality", {})
        rows.append([runner, *(table.cell(results.get(name)) if name not in record.get("left_out", {}) else "too slow"
                               for name in names),
                     *(f"{found[key]:.5f}" if key in found else "" for key in ("cosine_mean", "cosine_min"))])
    return markdown(rows)


def seconds(found, field):
    return f"{1000 * found[field]:.0f}" if found else ""


def cost(report):
    rows = [["runner", "cold: open, ms", "from start, ms", "warm: open, ms", "from start, ms",
             "cold download, MB (brotli)", "resident, MB", "empty page, MB", "peak, MB", "model, MB (brotli)",
             "runtime, MB (brotli)"]]
    for runner, record in report["runners"].items():
        load, size = record.get("load"), record.get("bytes", {})
        if runner.startswith(("calibrate", "tokens")) or not load:
            continue
        cold, warm = (record.get("starts", {}).get(kind) for kind in ("cold", "warm"))
        rows.append([runner, seconds(cold, "open_seconds"), seconds(cold, "total_seconds"),
                     seconds(warm, "open_seconds"), seconds(warm, "total_seconds"),
                     table.megabytes(cold and cold.get("wire_bytes")), f"{load['memory_mb']['resident']:.0f}",
                     f"{load['empty_page_mb']:.0f}" if "empty_page_mb" in load else "",
                     f"{load.get('peak_mb_at_end', 0):.0f}", table.megabytes(size.get("model")),
                     table.megabytes(size.get("runtime"))])
    return markdown(rows)


def per_thousand(result, field, unit):
    """Returns the joules or the processor milliseconds that a thousand texts or tokens take."""
    if not result or result.get(field) is None:
        return ""
    return table.number({"joules": 1e3, "processor_seconds": 1e6}[field] * result[field] / result[unit])


def energy(report):
    why = report["machine"]["energy"]
    readable = not why
    rows = [["runner", "W1, processor ms for 1,000 texts", "W2, processor ms for 1,000 tokens",
             *(["W1, J for 1,000 texts", "W2, J for 1,000 tokens"] if readable else [])]]
    for runner, record in report["runners"].items():
        found = [(record.get("results", {}).get(name), unit) for name, unit in (("W1", "texts"), ("W2", "tokens"))]
        cells = [per_thousand(result, field, unit) for field in ("processor_seconds", "joules")[:1 + readable]
                 for result, unit in found]
        if any(cells) and not runner.startswith(("calibrate", "tokens")):
            rows.append([runner, *cells])
    said = "Joules are of the whole processor, other programs and idle cores included." if readable else (
        f"The energy that this machine uses cannot be read ({why}), so processor time stands in for it: a core at work "
        "takes about as much power for one program as for another, wider vectors somewhat more.")
    return f"{said}\n\n{markdown(rows)}"


def shares(report):
    rows = [["kernel set", "instruction", "peak, GMAC/s", "int8 product, least", "most", "share, least", "most",
             "in passes, GMAC/s", "share"]]
    for place, found in report["peaks"].items():
        for kernels, rates in found["gemm_int8"].items():
            instruction = peaks.INSTRUCTION_OF.get(kernels)
            peak = found["peaks"].get(instruction)
            if not peak or not rates:
                continue
            low, high = min(rates.values()), max(rates.values())
            inside = found.get("passes", {}).get(kernels)
            rows.append([f"{kernels} ({place})", instruction, f"{peak:.1f}", f"{low:.1f}", f"{high:.1f}",
                         f"{100 * low / peak:.0f} %", f"{100 * high / peak:.0f} %",
                         *([f"{inside:.1f}", f"{100 * inside / peak:.0f} %"] if inside else ["-", "-"])])
    others = [f"{name} {rate:.1f} ({place})" for place, found in report["peaks"].items()
              for name, rate in found["peaks"].items()]
    return f"{markdown(rows)}\n\nAll probes, GMAC/s: {', '.join(others)}."


def checks(report):
    rows = [["what", "found", "target", "met"]]
    for check in targets.all_checks(report):
        digits = 4 if check.unit == "" else 2
        rows.append([check.what, f"{check.value:.{digits}f}{check.unit}", check.target,
                     {True: "yes", False: "**no**", None: ""}[check.met]])
    return markdown(rows)


def losses(report):
    rows = [["group", "threads", "workload", "wisp", "the faster peer", "wisp's share of its speed"]]
    rows += [[*map(str, words), f"{ratio:.2f}"] for *words, ratio in targets.losses(report)]
    return markdown(rows) if len(rows) > 1 else "Nowhere in this run."


def versions(report):
    found = {}
    for record in report["runners"].values():
        for name, version in record.get("about", {}).items():
            if name not in ("wisp", "kernels", "compute", "workers", "threads", "isolated", "sharedMemory", "features",
                            "system", "capability", "attention", "backend", "installed_mb"):
                found.setdefault(name, version)
    return ", ".join(f"{name} {version}" for name, version in sorted(found.items()))


def circumstances(report):
    settings, limits = report["settings"], report["settings"]["limits"]
    used = [result["cores"]["others"] for record in report["runners"].values()
            for result in record.get("results", {}).values()]
    note = f"\n\n**{report['note']}**" if report["note"] else ""
    return (f"{table.machine(report)}.\n\n{versions(report)}; {report['machine']['compiler']}.\n\n"
            f"{settings['minutes']} minutes; each start cold and warm {settings['starts']} times; W1 and W2 are "
            f"thinned (every 4th, 16th or 64th text by length) for engines that would need more than {limits['run']} s "
            f"a run, calls of more than {limits['call']} s are left out. Medians with least and most; * where others "
            f"used more than {table.QUIET} cores meanwhile, which went up to {max(used, default=0):.1f}.{note}")


def document(peers, alone):
    parts = ["# Results", "Written by `make bench-results`; README.md says what is measured and how.",
             circumstances(peers), "## Targets", checks(peers), "## Where wisp loses",
             "A peer of the same group with as many threads was faster. (transformers.js in Node runs native code.)",
             losses(peers)]
    for group, title in (("native", "Native"), ("javascript", "Node and Chromium"), ("firefox", "Firefox")):
        if of_group(peers, group):
            parts += [f"## {title}", speed(peers, group)]
            parts.append(f"![{title}: speed beside peers](results/{group}.svg)")
    parts += ["## Starts, memory, bytes", cost(peers), "## Energy", energy(peers)]
    if peers["peaks"]:
        parts += ["## Share of the peak", shares(peers)]
    if of_group(peers, "tokenizers"):
        rows = [["tokeniser", "MB/s"]] + [[record["what"], table.cell(record.get("results", {}).get("tokenize"))]
                                          for record in of_group(peers, "tokenizers").values()]
        parts += ["## Tokeniser, W2", markdown(rows)]
    if alone:
        parts += ["## wisp alone, every kernel set", circumstances(alone)]
        parts += [speed(alone, group) for group in ("native", "javascript") if of_group(alone, group)]
    failed = [f"- {name}: {record['error']}" for name, record in peers["runners"].items() if "error" in record]
    if failed:
        parts += ["## Runners that failed", "\n".join(failed)]
    return "\n\n".join(parts) + "\n"


def main():
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    folder, output = map(Path, sys.argv[1:])
    peers = folder / "peers.json"
    if not peers.exists():
        print(f"report: there is no {peers}: run make bench-peers", file=sys.stderr)
        return 1
    alone = folder / "wisp.json"
    found = [json.loads(path.read_text(encoding="utf-8")) if path.exists() else None for path in (peers, alone)]
    files.write_whole(output, document(*found))
    return 0


if __name__ == "__main__":
    sys.exit(main())

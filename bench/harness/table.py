"""Prints results as tables of text, from the JSON that the driver also writes."""

# A result is marked if other processes used more than this many cores meanwhile.
QUIET = 0.1


def number(value):
    if value >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def cell(result):
    """Formats median and spread, with a mark if the machine was not quiet."""
    if not result:
        return "-"
    mark = "*" if result["cores"]["others"] + result["cores"]["stolen"] > QUIET else ""
    return f"{number(result['median'])}{mark} ({number(result['least'])}-{number(result['most'])})"


def megabytes(size):
    if not size:
        return "-"
    packed = f" ({size['brotli'] / 1e6:.2f})" if size["brotli"] is not None else ""
    return f"{size['raw'] / 1e6:.2f}{packed}"


def layout(rows):
    """Aligns the cells of each column: the first column to the left, the others to the right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join("  ".join(text.ljust(width) if i == 0 else text.rjust(width)
                               for i, (text, width) in enumerate(zip(row, widths))).rstrip() for row in rows)


def shown(report):
    return {name: record for name, record in report["runners"].items()
            if not name.startswith(("calibrate", "tokens"))}


def tokenizers(report):
    rows = [f"  {name}: {cell(record['results']['tokenize'])} MB/s" for name, record in report["runners"].items()
            if "tokenize" in record.get("results", {})]
    return "\n".join(["W2 tokenised:", *rows]) if rows else "no tokeniser measured"


def speed(report):
    names = list(report["workloads"])
    rows = [["runner", *(f"{name} {entry['unit']}" for name, entry in report["workloads"].items())]]
    for runner, record in shown(report).items():
        results = record.get("results", {})
        rows.append([runner, *(cell(results.get(name)) for name in names)])
    return layout(rows)


def quality_cells(record):
    found = record.get("quality", {})
    cosines = [f"{found[key]:.5f}" if key in found else "-" for key in ("cosine_min", "cosine_mean")]
    return [*cosines, f"{found['spearman']:.4f}" if "spearman" in found else "-"]


def cost(report):
    rows = [["runner", "cosine min", "mean", "Spearman", "start s", "open s", "resident MB", "peak MB",
             "model MB (br)", "runtime MB (br)", "installed MB", "cores used"]]
    for runner, record in shown(report).items():
        load, size = record.get("load", {}), record.get("bytes", {})
        if not load:
            rows.append([runner, *["-"] * (len(rows[0]) - 1)])
            continue
        used = [result["cores"]["own"] for result in record.get("results", {}).values()]
        rows.append([runner, *quality_cells(record), f"{load['start_seconds']:.2f}", f"{load['open_seconds']:.2f}",
                     f"{load['memory_mb']['resident']:.0f}", number(load.get("peak_mb_at_end", 0)),
                     megabytes(size.get("model")), megabytes(size.get("runtime")),
                     str(record["about"].get("installed_mb", "-")), f"{max(used):.1f}" if used else "-"])
    return layout(rows)


def calibration(report):
    rows = [f"  {name}: {cell(record['results']['arithmetic'])} ms, "
            f"{record['results']['arithmetic']['cores']['others']:.2f} cores used by others"
            for name, record in report["runners"].items() if "arithmetic" in record.get("results", {})]
    return "\n".join(["arithmetic alone:", *rows]) if rows else "not calibrated"


def machine(report):
    found = report["machine"]
    return (f"{found['cpu']} ({found['family']}), {found['cores']} cores{', virtual' if found['virtual'] else ''}, "
            f"{found['memory_gb']} GB; {found['system']}; {' '.join(found['features'])}\n"
            f"wisp {report['wisp']['commit']}{' and changes' if report['wisp']['changed'] else ''}, "
            f"{report['date']}, {report['settings']['rounds']} rounds")


def failures(report):
    return "".join(f"\n{name} failed: {record['error']}" for name, record in report["runners"].items()
                   if "error" in record)


def text(report):
    legend = f"median (least-most); * others used more than {QUIET} cores meanwhile"
    parts = [machine(report), calibration(report), tokenizers(report), f"{speed(report)}\n{legend}", cost(report)]
    return "\n\n".join(parts) + failures(report)

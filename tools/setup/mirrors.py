"""Reads the Debian mirrors that this machine's own apt uses."""

import re
from pathlib import Path

APT_FOLDER = Path("/etc/apt")

# Maps one-line options to their names in deb822.
DEB822_FIELDS = {"arch": "architectures", "lang": "languages", "target": "targets"}


def parse_one_line(text):
    """Reads the entries of a sources.list file, each as a dictionary of deb822 fields."""
    pattern = re.compile(r"^\s*(deb|deb-src)\s+(?:\[([^\]]*)\]\s*)?(\S+)\s+(\S+)\s*([^#\n]*)", re.MULTILINE)
    for kind, options, uri, suite, components in pattern.findall(text):
        entry = {"types": kind, "uris": uri, "suites": suite, "components": components.strip()}
        for option in options.split():
            name, _, value = option.partition("=")
            entry[DEB822_FIELDS.get(name, name)] = value.replace(",", " ")
        yield entry


def parse_deb822(text):
    """Reads the enabled entries of a .sources file as dictionaries. A value keeps its continuation lines."""
    without_comments = re.sub(r"^#.*\n?", "", text, flags=re.MULTILINE)
    for paragraph in re.split(r"\n\s*\n", without_comments):
        fields = re.findall(r"^([\w-]+):[ \t]*(.*(?:\n[ \t].*)*)", paragraph, re.MULTILINE)
        entry = {name.lower(): value.rstrip() for name, value in fields}
        if "uris" in entry and "suites" in entry and entry.pop("enabled", "yes").lower() != "no":
            yield entry


def configured_sources():
    """Returns all package sources of this machine's apt."""
    files = [APT_FOLDER / "sources.list", *sorted((APT_FOLDER / "sources.list.d").glob("*"))]
    for file in files:
        if file.is_file() and file.suffix == ".list":
            yield from parse_one_line(file.read_text(encoding="utf-8"))
        elif file.is_file() and file.suffix == ".sources":
            yield from parse_deb822(file.read_text(encoding="utf-8"))


def release_names():
    """Returns the names under which sources may list this machine's own release."""
    description = Path("/etc/os-release").read_text(encoding="utf-8")
    codename = re.search(r"^VERSION_CODENAME=\"?(\w+)", description, re.MULTILINE)
    return [*([codename.group(1)] if codename else []), "stable", "oldstable"]


def wanted_sources(suite):
    """Returns sources of `suite` on the mirrors of this machine's release. None means that release itself."""
    names = release_names()
    endings = ("",) if suite else ("", "-updates", "-security", "/updates")
    for entry in configured_sources():
        suites = [name for name in entry["suites"].split() if name in {n + e for n in names for e in endings}]
        if suites and "main" in entry.get("components", "").split():
            yield {**entry, "suites": suite or " ".join(suites), "components": "main"}

"""The Debian mirrors that this machine's own apt is set up with."""

import re
from pathlib import Path

APT_FOLDER = Path("/etc/apt")

# One-line options that deb822 calls by another name.
DEB822_FIELDS = {"arch": "architectures", "lang": "languages", "target": "targets"}


def parse_one_line(text):
    """The entries of a sources.list file, each as a dictionary of deb822 fields."""
    pattern = re.compile(r"^\s*(deb|deb-src)\s+(?:\[([^\]]*)\]\s*)?(\S+)\s+(\S+)\s*([^#\n]*)", re.MULTILINE)
    for kind, options, uri, suite, components in pattern.findall(text):
        entry = {"types": kind, "uris": uri, "suites": suite, "components": components.strip()}
        for option in options.split():
            name, _, value = option.partition("=")
            entry[DEB822_FIELDS.get(name, name)] = value.replace(",", " ")
        yield entry


def parse_deb822(text):
    """The enabled entries of a .sources file, each as a dictionary; a value keeps its continuation lines."""
    without_comments = re.sub(r"^#.*\n?", "", text, flags=re.MULTILINE)
    for paragraph in re.split(r"\n\s*\n", without_comments):
        fields = re.findall(r"^([\w-]+):[ \t]*(.*(?:\n[ \t].*)*)", paragraph, re.MULTILINE)
        entry = {name.lower(): value.rstrip() for name, value in fields}
        if "uris" in entry and "suites" in entry and entry.pop("enabled", "yes").lower() != "no":
            yield entry


def configured_sources():
    """All package sources that this machine's apt is set up with."""
    files = [APT_FOLDER / "sources.list", *sorted((APT_FOLDER / "sources.list.d").glob("*"))]
    for file in files:
        if file.is_file() and file.suffix == ".list":
            yield from parse_one_line(file.read_text(encoding="utf-8"))
        elif file.is_file() and file.suffix == ".sources":
            yield from parse_deb822(file.read_text(encoding="utf-8"))


def release_names():
    """The names under which sources may list this machine's own release."""
    description = Path("/etc/os-release").read_text(encoding="utf-8")
    codename = re.search(r"^VERSION_CODENAME=\"?(\w+)", description, re.MULTILINE)
    return [*([codename.group(1)] if codename else []), "stable", "oldstable"]


def wanted_sources(suite):
    """The sources of `suite`, taken from the mirrors of this machine's release; None is that release itself."""
    names = release_names()
    endings = ("",) if suite else ("", "-updates", "-security", "/updates")
    for entry in configured_sources():
        suites = [name for name in entry["suites"].split() if name in {n + e for n in names for e in endings}]
        if suites and "main" in entry.get("components", "").split():
            yield {**entry, "suites": suite or " ".join(suites), "components": "main"}

"""Debian packages without touching the system: a private apt root below .tools/apt.

The mirrors, keyrings, proxies and certificates are the ones the machine's own apt is set up with; lists, cache and
the record of installed packages are private, so none of this needs root or changes what apt knows of the machine.
"""

import functools
import platform
import re
import shutil
from pathlib import Path
from urllib.parse import unquote

from .workspace import TOOLS, SetupError, run, step

APT_FOLDER = Path("/etc/apt")
DEBS = TOOLS / "debs"
TRIPLET = f"{platform.machine()}-linux-gnu"
LIBRARIES = f"usr/lib/{TRIPLET}"

# Debian's folders for programs and libraries below / are links into /usr.
MERGED_FOLDERS = ("bin", "sbin", "lib", "lib32", "lib64")
UNUSED_FOLDERS = ("usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/lintian")

# What every machine with gcc, git and Python has (a package's name matches as a whole).
ON_EVERY_HOST = (r"libc6|libc6-dev|libc-dev-bin|linux-libc-dev|libcrypt1|libcrypt-dev|libgcc-s1|libstdc\+\+6|gcc-\d+-base|"
                 r"binutils(-common|-x86-64-linux-gnu)?|libbinutils|libc-bin|python3.*|libpython3.*|perl.*|libperl.*|media-types|tzdata|"
                 r"debconf.*|dpkg|tar|coreutils|sed|sensible-utils|ucf|init-system-helpers|install-info|debianutils")

# One-line options that deb822 calls by another name.
DEB822_FIELDS = {"arch": "architectures", "lang": "languages", "target": "targets"}

CONFIGURATION = """\
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
#clear DPkg::Pre-Invoke;
#clear DPkg::Post-Invoke;
#clear DPkg::Pre-Install-Pkgs;
APT::Sandbox::User "root";
APT::Architectures:: "{architecture}";
Dir::State "{root}";
Dir::State::lists "{root}/lists";
Dir::State::status "{root}/status";
Dir::Cache "{root}/cache";
Dir::Cache::pkgcache "pkgcache.bin";
Dir::Cache::srcpkgcache "srcpkgcache.bin";
Dir::Etc::sourcelist "/dev/null";
Dir::Etc::sourceparts "{root}/sources";
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
"""


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


def write_sources(root, suite, kind):
    """Fills the private apt root's list of sources."""
    entries = [{**entry, "types": kind, "targets": "Sources" if kind == "deb-src" else "Packages"}
               for entry in wanted_sources(suite) if kind == "deb-src" or "deb" in entry["types"].split()]
    if not entries:
        raise SetupError("no Debian mirror for this release was found in /etc/apt/sources.list*")
    paragraphs = ("\n".join(f"{name}: {value}" for name, value in entry.items()) for entry in entries)
    (root / "sources").mkdir(parents=True, exist_ok=True)
    (root / "sources/wisp.sources").write_text("\n\n".join(dict.fromkeys(paragraphs)) + "\n", encoding="utf-8")


@functools.lru_cache(maxsize=None)
def apt_root(suite, kind="deb"):
    """Makes or refreshes the private apt root of a suite; returns its configuration file."""
    if not shutil.which("apt-get") or not shutil.which("dpkg-deb"):
        raise SetupError("this machine has no apt-get and dpkg-deb to fetch Debian packages with")
    root = TOOLS / "apt" / f"{suite or 'host'}-{kind}"
    for folder in (root / "lists/partial", root / "cache/archives/partial", DEBS / "partial"):
        folder.mkdir(parents=True, exist_ok=True)
    (root / "status").write_text("", encoding="utf-8")
    write_sources(root, suite, kind)
    architecture = run(["dpkg", "--print-architecture"]).strip()
    configuration = CONFIGURATION.format(root=root, architecture=architecture)
    (root / "conf").write_text(configuration, encoding="utf-8")
    with step(f"reading the package lists of {suite or 'this release'}"):
        apt("apt-get", root / "conf", "update", "--error-on=any")
    return root / "conf"


def apt(program, configuration, *arguments, cwd=None):
    """Runs an apt program on a private root."""
    return run([program, "-c", configuration, "-q", *arguments], cwd=cwd, env={"LC_ALL": "C"})


def resolve(configuration, packages):
    """What installing `packages` takes: a list of (file name, bytes)."""
    # apt names only what its archive folder lacks, so this asks without DEBS.
    listing = apt("apt-get", configuration, "install", "--yes", "--no-install-recommends", "--print-uris", *packages)
    return [(name, int(size)) for name, size in re.findall(r"^'[^']*' (\S+) (\d+)", listing, re.MULTILINE)]


def package_name(file_name):
    return unquote(file_name).split("_")[0]


def assume_installed(configuration, names):
    """Tells the private apt root that these packages are there, so that they and what only they need are left out."""
    paragraphs = []
    if names:
        shown = apt("apt-cache", configuration, "show", "--no-all-versions", *names)
        for paragraph in shown.strip().split("\n\n"):
            kept = re.findall(r"^(?:Package|Version|Architecture|Multi-Arch|Provides):.*", paragraph, re.MULTILINE)
            # "hold" keeps apt from replacing them by what it sees as another build of the same version.
            kept += ["Status: hold ok installed", "Maintainer: none", "Description: assumed"]
            paragraphs.append("\n".join(kept) + "\n")
    (configuration.parent / "status").write_text("\n".join(paragraphs), encoding="utf-8")


def fetch_debs(suite, packages, assumed):
    """Downloads packages with all they depend on and returns the files.

    suite: a release's code name, or None for the one this machine runs.
    assumed: a regular expression; packages whose whole name matches count as installed.
    """
    configuration = apt_root(suite)
    with step(f"fetching {packages[0]} from {suite or 'this release'}") as details:
        assume_installed(configuration, [])
        everything = [package_name(file) for file, _ in resolve(configuration, packages)]
        skipped = [name for name in everything if name not in packages and re.fullmatch(assumed, name)]
        assume_installed(configuration, skipped)
        files = resolve(configuration, packages)
        new_bytes = sum(size for file, size in files if not (DEBS / file).exists())
        apt("apt-get", configuration, "install", "--yes", "--no-install-recommends", "--download-only",
            "-o", f"Dir::Cache::archives={DEBS}", *packages)
        details.append(f"{len(files)} packages, {new_bytes / 1e6:.1f} MB downloaded")
    return [DEBS / file for file, _ in files]


def fetch_source(suite, package):
    """Downloads the upstream source archive of a package and returns the file."""
    configuration = apt_root(suite, "deb-src")
    with step(f"fetching the source of {package} from {suite}") as details:
        listing = apt("apt-get", configuration, "source", "--tar-only", "--print-uris", package)
        name, size = re.search(r"^'[^']*' (\S+) (\d+)", listing, re.MULTILINE).groups()
        apt("apt-get", configuration, "source", "--tar-only", "--download-only", package, cwd=DEBS)
        details.append(f"{int(size) / 1e6:.1f} MB")
    return DEBS / name


def unpack(debs, prefix):
    """Unpacks packages below `prefix`, which gets the folder layout of a Debian system."""
    for name in MERGED_FOLDERS:
        (prefix / "usr" / name).mkdir(parents=True, exist_ok=True)
        (prefix / name).symlink_to(f"usr/{name}")
    with step(f"unpacking {len(debs)} packages"):
        for deb in debs:
            run(["dpkg-deb", "--extract", deb, prefix], env={"TAR_OPTIONS": "--keep-directory-symlink"})
        for folder in UNUSED_FOLDERS:
            shutil.rmtree(prefix / folder, ignore_errors=True)


def fetch_programs(prefix, packages, assumed=ON_EVERY_HOST, suite=None):
    """Downloads packages with all they depend on and unpacks them below `prefix`."""
    unpack(fetch_debs(suite, packages, assumed), prefix)

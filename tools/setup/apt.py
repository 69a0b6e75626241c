"""Downloads Debian packages without touching the system, with a private apt root below .tools/apt.

The mirrors, keyrings, proxies and certificates are the ones the machine's own apt is set up with; lists, cache and
the record of installed packages are private, so none of this needs root or changes what apt knows of the machine.
"""

import functools
import hashlib
import re
import shutil
import tarfile
from urllib.parse import unquote

from .mirrors import wanted_sources
from .workspace import TOOLS, SetupError, run, say, step

DEBS = TOOLS / "debs"

# What apt says of lists whose date is over, or to come.
DATED = r"Release file for .* (?:is expired|is not valid yet)"

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
APT::Default-Release "";
Acquire::GzipIndexes "true";
"""


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
    """Makes or refreshes the private apt root of a suite. Returns its configuration file."""
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
    with step(f"reading the package lists of {suite or 'this release'}") as details:
        update_lists(root, "*_Packages*" if kind == "deb" else "*_Sources*")
        details.append(f"{count_bytes(root / 'lists') / 1e6:.1f} MB")
    return root / "conf"


def update_lists(root, wanted):
    """Reads package lists. Lists whose date is over are taken, with a word: their signature holds all the same."""
    try:
        apt("apt-get", root / "conf", "update", "--error-on=any")
    except SetupError as error:
        if re.search(DATED, str(error)):
            say(f"apt says: {first_error(error)}")
            say("the mirror is stale or this machine's clock is wrong; going on with these lists, whose signature is good")
            apt("apt-get", root / "conf", "update", "-o", "Acquire::Check-Date=false",
                "-o", "Acquire::Check-Valid-Until=false")
        elif not any((root / "lists").glob(wanted)):
            raise
        else:
            # Some other vendor's source for this release may not have the suite; the Debian mirror is enough.
            say(f"not all sources could be read: {first_error(error)}")


def first_error(error):
    """Returns apt's first error of what it printed."""
    errors = re.findall(r"^E: (.*)", str(error), re.MULTILINE)
    return errors[0] if errors else str(error)


def count_bytes(folder):
    return sum(file.stat().st_size for file in folder.iterdir() if file.is_file())


def apt(program, configuration, *arguments, cwd=None):
    """Runs an apt program on a private root."""
    return run([program, "-c", configuration, "-q", *arguments], cwd=cwd, env={"LC_ALL": "C"})


def resolve(configuration, packages):
    """Returns the files that installing `packages` takes: a list of (file name, bytes)."""
    # apt names only what its archive folder lacks, so this asks without DEBS.
    listing = apt("apt-get", configuration, "install", "--yes", "--no-install-recommends", "--print-uris", *packages)
    return [(name, int(size)) for name, size in re.findall(r"^'[^']*' (\S+) (\d+)", listing, re.MULTILINE)]


def package_name(file_name):
    return unquote(file_name).split("_")[0]


def assume_installed(configuration, names):
    """Marks packages as installed in the private apt root, so that apt leaves out them and all that only they need."""
    paragraphs = []
    if names:
        shown = apt("apt-cache", configuration, "show", "--no-all-versions", *names)
        for paragraph in shown.strip().split("\n\n"):
            kept = re.findall(r"^(?:Package|Version|Architecture|Multi-Arch|Provides):.*", paragraph, re.MULTILINE)
            # "hold" keeps apt from replacing them by builds that it takes for other ones of this version.
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


def fetch_source(suite, package, archive, digest):
    """Downloads the upstream source archive of a package, unless it is there, and checks its SHA-256."""
    if not archive.exists():
        configuration = apt_root(suite, "deb-src")
        with step(f"fetching the source of {package} from {suite}") as details:
            listing = apt("apt-get", configuration, "source", "--tar-only", "--print-uris", package)
            size = int(re.search(r"^'[^']*' \S+ (\d+)", listing, re.MULTILINE).group(1))
            apt("apt-get", configuration, "source", "--tar-only", "--download-only", package, cwd=DEBS)
            details.append(f"{size / 1e6:.1f} MB downloaded")
    if not archive.exists():
        raise SetupError(f"{suite} has another version than {archive.name}")
    if hashlib.sha256(archive.read_bytes()).hexdigest() != digest:
        raise SetupError(f"{archive} is not the archive it should be; remove it to have it downloaded again")


def unpack_files(archive, files, folder):
    """Unpacks some members of a source archive to their places, by the names that they have in its one folder."""
    with tarfile.open(archive) as tar:
        top = tar.getnames()[0].partition("/")[0]
        for member, place in files.items():
            (folder / place).parent.mkdir(exist_ok=True)
            (folder / place).write_bytes(tar.extractfile(f"{top}/{member}").read())

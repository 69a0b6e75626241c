#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Puts what a release consists of into one folder: `make release` builds the parts and calls it.

usage: release.py [--draft] TREE FOLDER

TREE is what `make install DESTDIR=TREE PREFIX=/usr/local` wrote. FOLDER, which must not exist, gets

    wisp-VERSION-linux-ARCH.tar.gz          TREE's folders, to be unpacked into /usr/local
    wisp-VERSION-linux-ARCH-static.tar.gz   likewise, with a program that needs no library (build/addon/*.program)
    wisp-VERSION.tar.gz                     the sources
    *.tgz                                   the npm packages (build/*.tgz, build/packages)
    *.whl                                   the wheels (build/wheels)
    sbom.cdx.json, NOTES.md, SHA256SUMS     the parts, the changes since the last version, the digests of all

Archives of the same bytes are the same bytes. It fails if CHANGELOG.md has changes that belong to no version: these have
to be closed under the version first (CONTRIBUTING.md). --draft takes them as the notes.
"""

import argparse
import gzip
import hashlib
import io
import platform
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

REPO = Path(__file__).resolve().parents[1]
EPOCH = 315532800  # 1980, the first time that zip has: wheels have it, too
STATIC = {"linux-x64": "x86_64", "linux-arm64": "aarch64"}
SHARED = "share"  # of an installed tree: what does not depend on the machine


def version_of(repo):
    found = re.search(r'#define WISP_VERSION "([^"]+)"', (repo / "src/wisp.h").read_text())
    if not found:
        sys.exit("src/wisp.h has no WISP_VERSION")
    return found[1]


def notes_of(changelog, version, draft):
    """Returns the section of a version, or of what is unreleased for a draft."""
    sections = dict(re.findall(r"^## ([^\n ]+)[^\n]*\n(.*?)(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL))
    unreleased = sections.get("Unreleased", "").strip()
    if unreleased and not draft:
        raise ValueError('CHANGELOG.md has changes under "Unreleased": close it under the version (CONTRIBUTING.md)')
    notes = unreleased if draft and unreleased else sections.get(version, "").strip()
    if not notes:
        raise ValueError(f"CHANGELOG.md says nothing of {version}")
    return f"# wisp {version}\n\n{notes}\n"


def write_archive(path, top, members):
    """Writes files by their names in the archive. The order, times and owners say nothing of this machine."""
    with path.open("wb") as raw, gzip.GzipFile("", "wb", 9, raw, EPOCH) as packed:
        with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
            for name, source in sorted(members.items()):
                info = tarfile.TarInfo(f"{top}/{name}")
                info.mtime = EPOCH
                if source.is_symlink():
                    info.type, info.linkname = tarfile.SYMTYPE, str(source.readlink())
                    archive.addfile(info)
                    continue
                data = source.read_bytes()
                info.size, info.mode = len(data), 0o755 if source.stat().st_mode & 0o100 else 0o644
                archive.addfile(info, io.BytesIO(data))


def files_below(folder):
    return {path.relative_to(folder).as_posix(): path
            for path in folder.rglob("*") if path.is_symlink() or path.is_file()}


def write_release(repo, tree, folder, draft):
    version = version_of(repo)
    notes = notes_of((repo / "CHANGELOG.md").read_text(), version, draft)
    installed = files_below(tree / "usr/local")
    if "bin/wisp" not in installed:
        raise ValueError(f"{tree} has no usr/local/bin/wisp: it is not what make install wrote")
    legal = {f"share/doc/wisp/{name}": repo / name for name in ("LICENSE", "NOTICE", "CHANGELOG.md")}
    folder.mkdir(parents=True)
    top = f"wisp-{version}"
    write_archive(folder / f"{top}-linux-{platform.machine()}.tar.gz", top, {**installed, **legal})
    for target, machine in STATIC.items():
        program = repo / f"build/addon/{target}.program"
        if program.exists():
            shared = {name: path for name, path in installed.items() if name.startswith(SHARED)}
            write_archive(folder / f"{top}-linux-{machine}-static.tar.gz", top,
                          {"bin/wisp": program, **shared, **legal})
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=repo, check=True, stdout=subprocess.PIPE).stdout.decode()
    sources = {name: repo / name for name in tracked.split("\0") if name and (repo / name).is_file()}
    write_archive(folder / f"{top}.tar.gz", top, sources)
    for pattern in (f"build/wisp-engine-{version}.tgz", f"build/packages/*-{version}.tgz",
                    f"build/wheels/*-{version}-*.whl"):
        for path in sorted(repo.glob(pattern)):
            shutil.copy(path, folder)
    shutil.copy(repo / "sbom.cdx.json", folder)
    (folder / "NOTES.md").write_text(notes)
    digests = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in sorted(folder.iterdir())]
    (folder / "SHA256SUMS").write_text("".join(digests))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--draft", action="store_true", help="take what is unreleased as the notes")
    parser.add_argument("tree", type=Path)
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    try:
        write_release(REPO, options.tree, options.folder, options.draft)
    except ValueError as error:
        sys.exit(str(error))
    for path in sorted(options.folder.iterdir()):
        print(f"{path.stat().st_size:>12} {path.name}")


if __name__ == "__main__":
    main()

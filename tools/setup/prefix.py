"""Unpacks packages into private prefixes: folders laid out like a Debian system."""

import os
import platform
import shutil
from pathlib import Path

from .apt import fetch_debs
from .workspace import run, step

LIBRARIES = f"usr/lib/{platform.machine()}-linux-gnu"

# Debian's folders for programs and libraries below / are links into /usr.
MERGED_FOLDERS = ("bin", "sbin", "lib", "lib32", "lib64")
UNUSED_FOLDERS = ("usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/lintian")

# dpkg-deb can unpack by itself, but replaces those links by folders.
UNPACK = 'dpkg-deb --fsys-tarfile "$1" | tar -x -C "$2" --keep-directory-symlink --no-same-owner --no-same-permissions'

# Every machine with gcc, git and Python has these packages (a name must match as a whole).
ON_EVERY_HOST = (r"libc6|libc6-dev|libc-dev-bin|libc-bin|linux-libc-dev|libcrypt1|libcrypt-dev|libgcc-s1|"
                 r"libstdc\+\+6|gcc-\d+-base|binutils(-common|-x86-64-linux-gnu)?|libbinutils|python3.*|libpython3.*|"
                 r"perl.*|libperl.*|media-types|tzdata|debconf.*|dpkg|tar|coreutils|sed|sensible-utils|ucf|"
                 r"init-system-helpers|install-info|debianutils")


def free_links(prefix):
    """Makes links to absolute places point into `prefix` instead, if that has the place."""
    for folder, folders, files in os.walk(prefix):
        for link in (Path(folder, name) for name in folders + files):
            if link.is_symlink() and os.readlink(link).startswith("/"):
                target = prefix / os.readlink(link)[1:]
                if os.path.lexists(target):
                    link.unlink()
                    link.symlink_to(os.path.relpath(target, folder))


def unpack(debs, prefix):
    """Unpacks packages below `prefix`, which gets the folder layout of a Debian system."""
    for name in MERGED_FOLDERS:
        (prefix / "usr" / name).mkdir(parents=True, exist_ok=True)
        (prefix / name).symlink_to(f"usr/{name}")
    with step(f"unpacking {len(debs)} packages"):
        for deb in debs:
            run(["sh", "-c", UNPACK, "sh", deb, prefix])
        free_links(prefix)
        for folder in UNUSED_FOLDERS:
            shutil.rmtree(prefix / folder, ignore_errors=True)


def fetch_programs(prefix, packages, assumed=ON_EVERY_HOST):
    """Downloads packages of this machine's release, with all they depend on, and unpacks them below `prefix`."""
    unpack(fetch_debs(None, packages, assumed), prefix)

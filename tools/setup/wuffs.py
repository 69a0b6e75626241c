"""Fetches Wuffs, whose one file of C decodes images, from the source archive of the Python package that has it. pip asks the
archive's setup.py for its version, so that what this needs is installed first."""

import hashlib
import sys
import tarfile

from .scripting import install_requirements, pip_of
from .workspace import REPO, TOOLS, SetupError, building, run, step, temporary_folder

VERSION = "2.0.1"
ARCHIVE = TOOLS / "sdists" / f"pywuffs-{VERSION}.tar.gz"
SHA256 = "5a9fd8a5026badf9e133940cee87ad58bd5cb4cd5264b9c46b607cb34e2bb9ab"
SOURCE = f"pywuffs-{VERSION}/libs/wuffs/release/c/wuffs-unsupported-snapshot.c"


def fetch_archive(folder):
    """Downloads the archive by pip, which checks its SHA-256 before it looks into it."""
    environment, wanted = folder / "environment", folder / "wanted.txt"
    wanted.write_text(f"pywuffs=={VERSION} --hash=sha256:{SHA256}\n", encoding="utf-8")
    run([sys.executable, "-m", "venv", "--without-pip", environment])
    with pip_of(sys.executable) as pip:
        pip = [*pip, "--python", environment / "bin/python"]
        install_requirements(pip, REPO / "tools/requirements-wuffs.txt", "--only-binary", ":all:")
        with step("fetching Wuffs"):
            run([*pip, "download", "--quiet", "--disable-pip-version-check", "--no-cache-dir", "--no-deps",
                 "--no-build-isolation", "--no-binary", "pywuffs", "--require-hashes", "-d", ARCHIVE.parent, "-r", wanted])


def install_wuffs():
    ARCHIVE.parent.mkdir(exist_ok=True)
    if not ARCHIVE.exists():
        with temporary_folder("pywuffs") as folder:
            fetch_archive(folder)
    if hashlib.sha256(ARCHIVE.read_bytes()).hexdigest() != SHA256:
        raise SetupError(f"{ARCHIVE} is not the archive it should be; remove it to have it downloaded again")
    with building("wuffs") as folder, tarfile.open(ARCHIVE) as tar:
        (folder / "wuffs.c").write_bytes(tar.extractfile(SOURCE).read())

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests tools/release.py: the notes, what the folder has, and that the same parts make the same bytes."""

import hashlib
import subprocess
import sys
import tarfile
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import release  # noqa: E402  (the path must be set first)

CHANGELOG = "# Changelog\n\n## Unreleased\n{}\n## 1.2.0 - 2026-01-02\n### Added\n- Wings.\n\n## 1.1.0 - 2025-01-01\n- Old.\n"


class Release(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.repo, self.tree = Path(self.folder.name, "repo"), Path(self.folder.name, "tree")
        files = {"src/wisp.h": '#define WISP_VERSION "1.2.0"\n', "CHANGELOG.md": CHANGELOG.format(""), "LICENSE": "l",
                 "NOTICE": "n", "sbom.cdx.json": "{}", "build/addon/linux-arm64.program": "static",
                 "build/wisp-engine-1.2.0.tgz": "npm", "build/wisp-engine-1.1.0.tgz": "old",
                 "build/wheels/wisp_engine-1.2.0-py3-none-any.whl": "wheel"}
        self.write(self.repo, files)
        self.write(self.tree / "usr/local", {"bin/wisp": "program", "lib/libwisp.so.1": "x", "share/wisp/m.gguf": "m"})
        (self.tree / "usr/local/bin/wisp").chmod(0o755)
        (self.tree / "usr/local/lib/libwisp.so").symlink_to("libwisp.so.1")
        for command in (["init", "-q"], ["add", "src", "CHANGELOG.md", "LICENSE"]):
            subprocess.run(["git", *command], cwd=self.repo, check=True)

    @staticmethod
    def write(folder, files):
        for name, text in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)

    def test_a_release_has_its_parts_and_their_digests(self):
        folder = Path(self.folder.name, "out")
        release.write_release(self.repo, self.tree, folder, False)
        machine = release.platform.machine()
        static = "wisp-1.2.0-linux-aarch64-static.tar.gz"
        self.assertEqual({path.name for path in folder.iterdir()}, {
            f"wisp-1.2.0-linux-{machine}.tar.gz", static, "wisp-1.2.0.tar.gz", "wisp-engine-1.2.0.tgz",
            "wisp_engine-1.2.0-py3-none-any.whl", "sbom.cdx.json", "NOTES.md", "SHA256SUMS"})
        digests = dict(line.split("  ")[::-1] for line in (folder / "SHA256SUMS").read_text().splitlines())
        self.assertEqual(len(digests), 7)
        for name, digest in digests.items():
            self.assertEqual(hashlib.sha256((folder / name).read_bytes()).hexdigest(), digest)
        with tarfile.open(folder / f"wisp-1.2.0-linux-{machine}.tar.gz") as archive:
            self.assertEqual(archive.getmember("wisp-1.2.0/bin/wisp").mode, 0o755)
            self.assertEqual(archive.getmember("wisp-1.2.0/lib/libwisp.so").linkname, "libwisp.so.1")
            self.assertIn("wisp-1.2.0/share/doc/wisp/NOTICE", archive.getnames())
        with tarfile.open(folder / static) as archive:
            self.assertEqual(archive.extractfile("wisp-1.2.0/bin/wisp").read(), b"static")
            self.assertNotIn("wisp-1.2.0/lib/libwisp.so", archive.getnames())
        with tarfile.open(folder / "wisp-1.2.0.tar.gz") as archive:
            self.assertEqual(archive.getnames(), [f"wisp-1.2.0/{name}" for name in ("CHANGELOG.md", "LICENSE", "src/wisp.h")])
        again = Path(self.folder.name, "again")
        (self.tree / "usr/local/share/wisp/m.gguf").touch()
        release.write_release(self.repo, self.tree, again, False)
        self.assertEqual((folder / "SHA256SUMS").read_text(), (again / "SHA256SUMS").read_text())

    def test_the_notes_are_those_of_the_version(self):
        self.assertEqual(release.notes_of(CHANGELOG.format(""), "1.2.0", False), "# wisp 1.2.0\n\n### Added\n- Wings.\n")
        with self.assertRaisesRegex(ValueError, "Unreleased"):
            release.notes_of(CHANGELOG.format("- New.\n"), "1.2.0", False)
        self.assertEqual(release.notes_of(CHANGELOG.format("- New.\n"), "1.2.0", True), "# wisp 1.2.0\n\n- New.\n")
        with self.assertRaisesRegex(ValueError, "says nothing of 1.3.0"):
            release.notes_of(CHANGELOG.format(""), "1.3.0", False)

    def test_what_is_no_installation_is_refused(self):
        (self.tree / "usr/local/bin/wisp").unlink()
        with self.assertRaisesRegex(ValueError, "not what make install wrote"):
            release.write_release(self.repo, self.tree, Path(self.folder.name, "out"), False)
        self.assertFalse(Path(self.folder.name, "out").exists())


if __name__ == "__main__":
    unittest.main()

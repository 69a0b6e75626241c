#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests that what is installed is pinned: each package of each list has one version and the SHA-256 of its archives, and
each npm package an integrity."""

import json
import re
import subprocess
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# name==version, perhaps with extras and a marker; then hashes alone.
REQUIREMENT = re.compile(r"[A-Za-z0-9][\w.-]*(\[[\w,-]+\])?==\d[\w.+!-]*( *;[^\\]+?)?((?: +--hash=sha256:[0-9a-f]{64})+)")


def problems_of(text):
    """Returns the lines of a list of requirements that do not pin a package with hashes."""
    lines = re.sub(r"\\\n", " ", text).splitlines()
    return [line for line in lines if line.strip() and not line.startswith("#") and not REQUIREMENT.fullmatch(line.rstrip())]


def files_of(pattern):
    listed = subprocess.run(["git", "ls-files", "-z", "--", pattern], cwd=ROOT, check=True, capture_output=True).stdout
    names = [Path(name) for name in listed.decode().split("\0") if name]
    return [ROOT / name for name in names or (path.relative_to(ROOT) for path in ROOT.glob(pattern))]


class Pins(unittest.TestCase):
    def test_lists_of_python_packages_have_versions_and_hashes(self):
        lists = files_of("*requirements*.txt")
        self.assertIn(ROOT / "bench/requirements.txt", lists)
        self.assertIn(ROOT / "tools/requirements-zig.txt", lists)
        for path in lists:
            with self.subTest(path=path.relative_to(ROOT)):
                self.assertEqual(problems_of(path.read_text(encoding="utf-8")), [])

    def test_what_is_not_pinned_is_seen(self):
        pinned = f"a-b==1.0 \\\n    --hash=sha256:{'0' * 64} \\\n    --hash=sha256:{'f' * 64}\n"
        marked = f"c[d]==2.0.1.post1; sys_platform == \"linux\" \\\n    --hash=sha256:{'1' * 64}\n"
        self.assertEqual(problems_of(f"# a list\n{pinned}\n{marked}"), [])
        for line in ("a==1.0\n", "a\n", "a>=1.0\n", f"a>=1.0 --hash=sha256:{'0' * 64}\n", "a==1.0 --hash=sha256:00\n",
                     f"a==1.0 --hash=md5:{'0' * 32}\n", "-r other.txt\n", "--index-url https://example.com\n",
                     f"a==1.* --hash=sha256:{'0' * 64}\n", "https://example.com/a.whl\n"):
            self.assertEqual(len(problems_of(pinned + line)), 1, line)

    def test_pip_takes_nothing_else(self):
        """pip runs what is in some packages, so it must check bytes before."""
        calls = 0
        for path in files_of("*.py"):
            for call in re.findall(r'(?:"pip"|\*pip), "(?:install|download)"[^)]*', path.read_text(encoding="utf-8")):
                calls += 1
                with self.subTest(path=path.relative_to(ROOT), call=call):
                    self.assertIn("--require-hashes", call)
        self.assertGreaterEqual(calls, 5)

    def test_npm_packages_have_an_integrity(self):
        for path in files_of("*package-lock.json"):
            packages = json.loads(path.read_text(encoding="utf-8"))["packages"]
            loose = [name for name, package in packages.items()
                     if name and not package.get("link") and not package.get("integrity", "").startswith("sha512-")]
            with self.subTest(path=path.relative_to(ROOT)):
                self.assertEqual(loose, [])


if __name__ == "__main__":
    unittest.main()

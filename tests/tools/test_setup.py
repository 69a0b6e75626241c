#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests tools/setup on made-up mirrors of Debian in a folder: lists whose date is over, and none at all."""

import contextlib
import hashlib
import io
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

from setup import apt, emscripten, mirrors, workspace  # noqa: E402

CONTROL = """\
Package: emscripten
Version: 1.0
Architecture: all
Maintainer: nobody <nobody@example.org>
Description: made up
"""


def lines_of(files):
    return "".join(f" {hashlib.sha256(data).hexdigest()} {len(data)} {name}\n" for name, data in files.items())


def sign(folder, release):
    """Signs a list with a key of its own."""
    gpg = ["gpg", "--homedir", folder / "gnupg", "--batch", "--quiet", "--yes", "--passphrase", ""]
    (folder / "gnupg").mkdir(mode=0o700)
    for arguments in (["--quick-generate-key", "made up", "rsa2048", "sign", "never"],
                      ["--output", folder / "key.gpg", "--export"],
                      ["--clear-sign", "--output", release.with_name("InRelease"), release]):
        subprocess.run([*gpg, *arguments], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    subprocess.run(["gpgconf", "--homedir", folder / "gnupg", "--kill", "all"], check=True)


def make_mirror(folder, date, valid_until):
    """Writes a mirror whose only suite, "shelf", has one package."""
    tree = folder / "package"
    (tree / "DEBIAN").mkdir(parents=True)
    (tree / "DEBIAN/control").write_text(CONTROL, encoding="utf-8")
    pool = folder / "mirror/pool"
    pool.mkdir(parents=True)
    deb = pool / "emscripten_1.0_all.deb"
    subprocess.run(["dpkg-deb", "--root-owner-group", "-b", tree, deb], check=True, stdout=subprocess.DEVNULL)
    data = deb.read_bytes()
    packages = (f"{CONTROL}Filename: pool/{deb.name}\nSize: {len(data)}\n"
                f"SHA256: {hashlib.sha256(data).hexdigest()}\n").encode()
    suite = folder / "mirror/dists/shelf"
    architecture = subprocess.run(["dpkg", "--print-architecture"], check=True, text=True, capture_output=True).stdout.strip()
    name = f"main/binary-{architecture}/Packages"
    (suite / name).parent.mkdir(parents=True)
    (suite / name).write_bytes(packages)
    (suite / "Release").write_text(
        f"Origin: made up\nSuite: shelf\nCodename: shelf\nDate: {date}\nValid-Until: {valid_until}\n"
        f"Architectures: {architecture} all\nComponents: main\nSHA256:\n{lines_of({name: packages})}", encoding="utf-8")
    sign(folder, suite / "Release")


MISSING = [name for name in ("apt-get", "dpkg-deb", "gpg") if not shutil.which(name)]


@unittest.skipIf(MISSING and not os.environ.get("CI"), f"skipped: {', '.join(MISSING)} not there")
class Mirrors(unittest.TestCase):
    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        sources = self.folder / "etc/sources.list.d"
        sources.mkdir(parents=True)
        (sources / "made-up.list").write_text(
            f"deb [signed-by={self.folder}/key.gpg] copy:{self.folder}/mirror shelf main\n", encoding="utf-8")
        apt.apt_root.cache_clear()
        checks = 'Acquire::Check-Valid-Until "true";\nAcquire::Check-Date "true";\n'  # a machine's own settings may differ
        for module, name, value in ((apt, "CONFIGURATION", apt.CONFIGURATION + checks),
                                    (mirrors, "APT_FOLDER", self.folder / "etc"),
                                    (apt, "TOOLS", self.folder / "tools"),
                                    (apt, "DEBS", self.folder / "tools/debs"),
                                    (mirrors, "release_names", lambda: ["shelf"])):
            self.enterContext(mock.patch.object(module, name, value))
        self.said = self.enterContext(contextlib.redirect_stderr(io.StringIO()))

    def fetch(self):
        return apt.fetch_debs(None, ["emscripten"], "")

    def test_lists_that_have_expired_are_taken_with_a_word(self):
        make_mirror(self.folder, "Sat, 01 Jan 2022 00:00:00 UTC", "Sat, 08 Jan 2022 00:00:00 UTC")
        self.assertTrue(self.fetch()[0].exists())
        self.assertIn("is expired", self.said.getvalue())

    def test_lists_of_a_later_date_than_the_clock_are_taken_with_a_word(self):
        make_mirror(self.folder, "Thu, 01 Jan 2099 00:00:00 UTC", "Thu, 08 Jan 2099 00:00:00 UTC")
        self.assertTrue(self.fetch()[0].exists())
        self.assertIn("is not valid yet", self.said.getvalue())

    def test_a_mirror_that_is_not_there_is_an_error_that_names_it(self):
        with self.assertRaisesRegex(workspace.SetupError, "mirror"):
            self.fetch()


class Candidates(unittest.TestCase):
    """Which Emscripten install_emcc takes, of made-up ones."""

    def install(self, *made_up):
        """Each is a name, whether it is there, whether it builds modules, and why it builds none with threads."""
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        marker = self.folder / "marker"
        taken = []

        def prepare(name, there):
            if there == "error":
                raise workspace.SetupError(f"{name}: E: nothing could be read")
            if there:
                taken.append(name)
            return there

        def try_modules():
            if not states[taken[-1]][0]:
                raise workspace.SetupError("it does not run")

        states = {name: (builds, reason) for name, _, builds, reason in made_up}
        for name, value in (("candidates", lambda: [(name, lambda name=name, there=there: prepare(name, there))
                                                    for name, there, _, _ in made_up]),
                            ("try_modules", try_modules), ("try_threads", lambda: states[taken[-1]][1]),
                            ("WITHOUT_THREADS", marker)):
            self.enterContext(mock.patch.object(emscripten, name, value))
        self.said = self.enterContext(contextlib.redirect_stderr(io.StringIO()))
        emscripten.install_emcc()
        return taken[-1], marker.read_text(encoding="utf-8") if marker.exists() else ""

    def test_the_first_that_builds_all(self):
        self.assertEqual(self.install(("system", False, True, ""), ("forky", True, True, ""), ("trixie", True, True, "")),
                         ("forky", ""))

    def test_one_without_threads_is_passed_over(self):
        self.assertEqual(self.install(("system", True, True, "no shared memories"), ("forky", True, True, "")),
                         ("forky", ""))

    def test_one_that_cannot_be_read_is_passed_over_with_what_the_package_tool_said(self):
        name, marker = self.install(("forky", "error", True, ""), ("trixie", True, True, "no shared memories"))
        self.assertEqual(name, "trixie")
        self.assertIn("no shared memories", marker)
        self.assertIn("nothing could be read", self.said.getvalue())
        self.assertIn("without those modules", self.said.getvalue())

    def test_none_is_an_error_with_all_reasons(self):
        with self.assertRaisesRegex(workspace.SetupError, "nothing could be read[^$]*does not run"):
            self.install(("forky", "error", True, ""), ("trixie", True, False, ""))


if __name__ == "__main__":
    unittest.main()

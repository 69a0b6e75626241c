#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests that docs/models.md says of each model what the program says, and names only goldens that are there."""

import subprocess
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


class ThePage(unittest.TestCase):
    def test_it_is_what_the_program_says(self):
        done = subprocess.run([sys.executable, ROOT / "tools" / "models_page.py", "--check"], capture_output=True, text=True,
                              check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_every_golden_is_there(self):
        sys.path.insert(0, str(ROOT / "tools"))
        import models_page
        for row in models_page.ROWS:
            for model in row:
                if model["golden"]:
                    self.assertTrue(models_page.has_golden(model["golden"]), model["name"])


if __name__ == "__main__":
    unittest.main()

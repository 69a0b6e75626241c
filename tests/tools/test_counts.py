"""Tests of tests/kernels/counts.py, with a program that prints what was counted elsewhere."""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

COUNTS = Path(__file__).resolve().parents[1] / "kernels/counts.py"
COUNTED = """gcc 12.2.0
kernel   m    n    k      fast      slow      plain
gemm     1 x 64 x 96      1000      2000          -
add      4 x 192          {}         600          -
"""


class Counts(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.record = self.folder / "counts.tsv"

    def run_on(self, printed, *options):
        """Returns the exit status and the output if the program prints so."""
        program = self.folder / "program"
        program.write_text(f"#!/bin/sh\ncat <<'END'\n{printed}END\n", encoding="utf-8")
        program.chmod(0o755)
        done = subprocess.run([sys.executable, COUNTS, program, *options], stdout=subprocess.PIPE, text=True,
                              env=os.environ | {"WISP_COUNTS": str(self.record)})
        return done.returncode, done.stdout

    def test_more_instructions_than_the_limit_fail(self):
        self.run_on(COUNTED.format(400), "--record")
        for count, status in ((300, 0), (400, 0), (419, 0), (421, 1), (800, 1)):
            with self.subTest(count=count):
                self.assertEqual(self.run_on(COUNTED.format(count))[0], status)
        self.assertIn("fast, add 4 x 192: 400 -> 800 instructions, +100.0 %", self.run_on(COUNTED.format(800))[1])

    def test_work_that_is_not_recorded_fails(self):
        self.run_on(COUNTED.format(400), "--record")
        status, said = self.run_on(COUNTED.format(400) + "new      4 x 192          400     600    -\n")
        self.assertEqual((status, "new 4 x 192 is not recorded" in said), (1, True))

    def test_another_compiler_or_no_record_skips(self):
        self.assertIn("skipped: no counts", self.run_on(COUNTED.format(400))[1])
        self.run_on(COUNTED.format(400), "--record")
        status, said = self.run_on(COUNTED.format(9000).replace("12.2.0", "13.1.0"))
        self.assertEqual((status, said), (0, "skipped: counted with gcc 13.1.0, recorded with gcc 12.2.0\n"))

    def test_recording_keeps_sets_of_other_machines(self):
        self.run_on(COUNTED.format(400), "--record")
        self.run_on(COUNTED.format(400).replace("slow", "tile").replace("2000", "2222"), "--record")
        self.assertEqual(self.record.read_text(encoding="utf-8"),
                         "gcc 12.2.0\nwork\tfast\tslow\ttile\n"
                         "gemm 1 x 64 x 96\t1000\t2000\t2222\nadd 4 x 192\t400\t600\t600\n")


if __name__ == "__main__":
    unittest.main()

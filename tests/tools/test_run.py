#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests tests/run.py: what it counts, and that a failure, a missing tool and a turn come out as they should."""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

RUN = Path(__file__).resolve().parents[1] / "run.py"
SEES = 'echo "all: ${WISP_TEST_ALL-no}"'


class Run(unittest.TestCase):
    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())

    def run_it(self, *words, **variables):
        environment = {"PATH": os.environ["PATH"], "WISP_TEST_RESULTS": self.folder, **variables}
        done = subprocess.run([sys.executable, RUN, *words], text=True, capture_output=True, check=False, env=environment)
        return done.returncode, done.stdout

    def sh(self, name, script, *options, **variables):
        return self.run_it("test", *options, name, "--", "sh", "-c", script, **variables)

    def report(self):
        status, out = self.run_it("report")
        return status, out.splitlines()[-1]

    def test_counts_what_programs_of_tests_print(self):
        self.sh("c", 'printf "[==========] tests: 3 test(s) run.\\n[  PASSED  ] 3 test(s).\\n"')
        self.sh("js", 'printf "ℹ pass 5\\nℹ fail 0\\n"')
        self.sh("python", 'printf "Ran 2 tests in 0.1s\\n\\nOK\\n"')
        self.sh("pytest", 'printf "..\\n4 passed, 1 skipped in 0.10s\\n"')
        self.sh("script", "true")
        self.assertEqual(self.report(), (0, "15 passed, 0 failed"))

    def test_a_failure_shows_its_output_and_fails_the_report(self):
        status, out = self.sh("bad", 'printf "[  PASSED  ] 3 test(s).\\n[  FAILED  ] 2 test(s), listed below:\\n"; exit 2')
        self.assertEqual(status, 1)
        self.assertIn("[  FAILED  ] 2", out)
        self.assertEqual(self.report(), (1, "3 passed, 2 failed"))

    def test_a_program_that_dies_without_a_count_is_a_failure(self):
        self.assertEqual(self.sh("dead", 'printf "[  PASSED  ] 3 test(s).\\n"; kill -SEGV $$')[0], 1)
        self.assertEqual(self.report(), (1, "3 passed, 1 failed"))

    def test_a_missing_tool_skips_but_in_ci(self):
        self.assertIn("SKIP", self.sh("tool", "false", "--needs", "/no/such/tool")[1])
        self.assertEqual(self.report(), (0, "0 passed, 0 failed"))
        self.assertEqual(self.sh("tool", "exit 127", "--needs", "/no/such/tool", CI="1")[0], 1)

    def test_each_test_has_one_turn_of_five(self):
        for name in ("a/b", "c/d", "e"):
            seen = []
            for turn in range(5):
                self.sh(name, SEES, WISP_TEST_ALL="1", WISP_TURN=f"{turn}/5")
                log = Path(self.folder, name.replace("/", "--") + ".log")
                seen.append(log.read_text(encoding="utf-8").strip())
            self.assertEqual(sorted(seen), ["all: 1"] + ["all: no"] * 4, name)

    def test_without_turns_all_see_it_but_those_that_always_sample(self):
        log = Path(self.folder, "x.log")
        self.sh("x", SEES, WISP_TEST_ALL="1")
        self.assertEqual(log.read_text(encoding="utf-8"), "all: 1\n")
        self.sh("x", SEES, "--sampled", WISP_TEST_ALL="1")
        self.assertEqual(log.read_text(encoding="utf-8"), "all: no\n")

    def test_a_step_keeps_its_status(self):
        self.assertEqual(self.run_it("step", "one", "--", "false")[0], 1)
        self.assertEqual(self.report()[0], 1)


if __name__ == "__main__":
    unittest.main()

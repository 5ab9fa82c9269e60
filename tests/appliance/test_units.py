"""The crate's unit tests, run by the CPU model of the least router: a binary that starts has not shown that its ciphers work there."""

import os
import re
import subprocess
import unittest

import build

TARGET = "armv5te-unknown-linux-musleabi"
# Whole meshes over virtual hours take minutes under emulation, and add no code that the others do not run.
LONG = ["sim::"]


class Arm926(unittest.TestCase):
    def test_unit_tests(self):
        program = build.binary(TARGET).with_name("unit-tests")
        if not program.is_file():
            self.skipTest("not built: scripts/build --tests " + TARGET)
        skip = [word for name in LONG for word in ("--skip", name)]
        done = subprocess.run([*build.TARGETS[TARGET], program, *skip], cwd=build.ROOT, text=True, capture_output=True, timeout=1800,
                              env={**os.environ, "RUST_BACKTRACE": "0"})
        self.assertEqual(done.returncode, 0, done.stdout[-4000:] + done.stderr[-4000:])
        passed = int(re.search(r"test result: ok\. (\d+) passed", done.stdout)[1])
        self.assertGreater(passed, 250)
        print(f"\n    {passed} unit tests on arm926 ", end="", flush=True)

"""RouterOS runs Linux 5.6: the daemon must not need a system call that came later, nor those that its kernel was built without."""

import os
import shutil
import sys
import unittest

import build

sys.path.insert(0, str(build.ROOT / "tests/live"))
import lab as live  # noqa: E402

X86 = "x86_64-unknown-linux-musl"
LATER = ("close_range", "faccessat2", "process_madvise", "epoll_pwait2", "mount_setattr", "landlock_create_ruleset", "memfd_secret",
         "futex_waitv", "membarrier", "rseq", "userfaultfd", "bpf", "seccomp", "io_setup", "io_uring_setup", "io_uring_enter")


@unittest.skipIf(os.geteuid() != 0, "needs root")
class Linux56(unittest.TestCase):
    @unittest.skipUnless(shutil.which("strace"), "strace is not installed")
    def test_a_mesh_without_later_system_calls(self):
        if X86 not in build.chosen:
            self.skipTest("no x86-64 binary was built")
        live.BINARY = build.binary(X86)
        with live.Lab("s") as lab:
            a, b = live.pair(lab)
            trace = lab.folder / "trace"
            # A name that this kernel does not have is as good as missing.
            calls = ",".join(f"?{name}" for name in LATER)
            a.process = lab.spawn(a.namespace, "strace", "-f", "-qq", "-o", trace, "-e", f"trace={calls}",
                                  "-e", f"inject={calls}:error=ENOSYS", live.BINARY, "run", "--config", a.file, log=a.log)
            live.wait_for("the daemon answers", lambda: a.socket.exists() and a.status() is not None, 20)
            b.start()
            a.wait_up("b", 30)
            lab.reach(a.namespace, "10.66.0.2", 30)
            lab.reach(b.namespace, "fd66::1", 30)
            used = [line for line in trace.read_text().splitlines() if "(" in line and "exited" not in line]
            self.assertEqual(used, [])

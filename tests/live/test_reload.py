"""A configuration that changes under a running daemon, and life as process 1 of a container."""

import json
import os
import signal
import stat
import time
import unittest
from pathlib import Path

from lab import BINARY, Lab, Router, pair, run, wait_for


def replace(router):
    """Puts the configuration into place as installers do: a new file, renamed."""
    new = router.folder / "new"
    new.write_text(json.dumps(router.config))
    os.rename(new, router.folder / "wattle.json")


def reload(router):
    """`wattle reload`: its exit code and its words."""
    replace(router)
    done = run(BINARY, "reload", "--socket", router.socket, check=False)
    return done.returncode, done.stdout + done.stderr


def usable(router, prefix):
    routes = router.status()["routes"]
    return any(route["to"] == prefix and route["metric"] != 0xffff for route in routes)


def running_pair(lab):
    a, b = pair(lab)
    a.config["announce"] = ["192.168.1.0/24", "192.168.2.0/24"]
    a.start()
    b.start()
    a.wait_up("b")
    wait_for("b knows both prefixes", lambda: usable(b, "192.168.1.0/24") and usable(b, "192.168.2.0/24"))
    lab.reach(a.namespace, "10.66.0.2")
    return a, b


def spi(router, peer):
    return router.peer(peer)["links"][0]["spi_in"]


class Reload(unittest.TestCase):
    def test_what_is_withdrawn_is_gone_within_a_second_and_sessions_stay(self):
        with Lab("w") as lab:
            a, b = running_pair(lab)
            before = spi(a, "b")
            a.config["announce"] = ["192.168.2.0/24", "192.168.3.0/24"]
            replace(a)
            a.process.send_signal(signal.SIGHUP)
            wait_for("b has dropped it", lambda: not usable(b, "192.168.1.0/24"), 1.2)
            wait_for("b has the new one", lambda: usable(b, "192.168.3.0/24"), 1)
            self.assertTrue(usable(b, "192.168.2.0/24"))
            self.assertEqual(spi(a, "b"), before)
            self.assertEqual(lab.ping(a.namespace, "10.66.0.2"), 3)

    def test_a_replaced_file_is_noticed(self):
        with Lab("n") as lab:
            a, b = running_pair(lab)
            a.config["announce"] = []
            replace(a)
            wait_for("b has dropped them", lambda: not usable(b, "192.168.1.0/24"), 3)
            # And written in place, as for a file that is mounted by itself.
            a.config["announce"] = ["192.168.9.0/24"]
            a.file
            wait_for("b has the new one", lambda: usable(b, "192.168.9.0/24"), 3)
            self.assertIn("the file has changed", a.log_text)

    def test_a_broken_file_is_told_and_changes_nothing(self):
        with Lab("b") as lab:
            a, b = running_pair(lab)
            before = spi(a, "b")
            good = dict(a.config)
            a.config["anounce"] = a.config.pop("announce")
            code, words = reload(a)
            self.assertEqual(code, 1, words)
            self.assertIn("did you mean \"announce\"", words)
            self.assertIn("announce", a.status()["config"]["problem"])
            done = run(BINARY, "status", "--socket", a.socket, check=False)
            self.assertEqual(done.returncode, 1)
            self.assertIn("not in force", done.stdout)
            self.assertEqual((spi(a, "b"), usable(b, "192.168.1.0/24")), (before, True))
            a.config = good
            a.config["listen"] = [4600]
            code, words = reload(a)
            self.assertEqual(code, 0, words)
            self.assertIn("needs a restart: listen", words)
            self.assertEqual(a.status()["config"]["problem"], None)
            self.assertEqual(lab.ping(a.namespace, "10.66.0.2"), 3)
            for line in a.log_text.splitlines():
                self.assertLessEqual(len(line), 179, line)

    def test_peers_come_and_go(self):
        with Lab("c") as lab:
            a, b = running_pair(lab)
            c = Router(lab, lab.namespace("c"), "c", tun={"name": "wattle0", "addresses": ["10.66.0.3/32"]})
            lab.veth(a.namespace, c.namespace, ["192.0.3.1/24"], ["192.0.3.3/24"], name="eth1")
            c.config["nodes"] = [{"name": "a", "public_key": a.public_key}]
            c.start()
            before = spi(a, "b")
            a.config["nodes"].append({"name": "c", "public_key": c.public_key, "endpoints": ["192.0.3.3:4500"]})
            code, words = reload(a)
            self.assertEqual((code, "1 added" in words), (0, True), words)
            a.wait_up("c")
            lab.reach(a.namespace, "10.66.0.3")
            a.config["nodes"].pop()
            code, words = reload(a)
            self.assertEqual((code, "1 removed" in words), (0, True), words)
            self.assertIsNone(a.peer("c"))
            wait_for("c knows that it is alone", lambda: c.peer("a")["state"] != "up", 3)
            wait_for("the route has gone", lambda: "10.66.0.3" not in run(
                "ip", "-n", a.namespace, "route", "show", "table", "5270").stdout, 70)
            self.assertEqual(spi(a, "b"), before)


class Container(unittest.TestCase):
    def test_the_first_start_makes_a_key(self):
        with Lab("f") as lab:
            a, b = pair(lab)
            (a.folder / "key").unlink()
            a.start()
            public = a.public_key
            self.assertEqual(a.log_text.count(public), 1)
            self.assertEqual(stat.S_IMODE(os.stat(a.folder / "key").st_mode), 0o600)
            a.stop()
            a.start()
            self.assertEqual(a.public_key, public)
            self.assertEqual(a.log_text.count(public), 0, "told once")

    def test_health(self):
        with Lab("h") as lab:
            a, _ = pair(lab)
            a.start()
            health = lambda: run(BINARY, "health", "--socket", a.socket, check=False)
            done = health()
            self.assertEqual((done.returncode, len(done.stdout.splitlines())), (0, 1), done.stdout)
            # No peer is up: that is no reason to restart a container.
            self.assertIn("0 of 1 peers up", done.stdout)
            a.process.send_signal(signal.SIGSTOP)
            self.assertEqual(health().returncode, 1)
            a.process.send_signal(signal.SIGCONT)
            self.assertEqual(health().returncode, 0)
            a.stop()
            self.assertEqual(health().returncode, 1)

    def test_process_1_ends_cleanly_and_buries_orphans(self):
        with Lab("o") as lab:
            a, _ = pair(lab)
            a.process = lab.spawn(a.namespace, "unshare", "--pid", "--fork", "--mount-proc", BINARY, "run",
                                  "--config", a.file, log=a.log)
            wait_for("it answers", lambda: a.socket.exists() and a.status() is not None, 5)
            children = lambda pid: Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
            daemon = int(children(a.process.pid)[0])
            run("nsenter", "-t", daemon, "-p", "sh", "-c", "sleep 1 >/dev/null 2>&1 & sleep 1.2 >/dev/null 2>&1 & exit 0")
            wait_for("it has inherited them", lambda: len(children(daemon)) == 2, 2)
            wait_for("none is left", lambda: not children(daemon), 3)
            begun = time.monotonic()
            os.kill(daemon, signal.SIGTERM)
            self.assertEqual(a.process.wait(5), 0)
            self.assertLess(time.monotonic() - begun, 2)

    def test_warnings_go_to_stderr_and_news_to_stdout(self):
        with Lab("s") as lab:
            a, _ = pair(lab)
            os.chmod(a.folder / "key", 0o644)
            errors = lab.folder / "errors"
            a.process = lab.spawn(a.namespace, "sh", "-c", f'exec "$@" 2>{errors}', "sh", BINARY, "run", "--config", a.file,
                                  log=a.log)
            wait_for("it answers", lambda: a.socket.exists() and a.status() is not None, 5)
            a.stop()
            levels = lambda text: {line.split()[0] for line in text.splitlines()}
            self.assertEqual(levels(a.log_text), {"info"})
            self.assertEqual(levels(errors.read_text()), {"warn"})


if __name__ == "__main__":
    unittest.main()

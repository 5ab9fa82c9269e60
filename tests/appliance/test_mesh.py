"""Routers of different machines form one mesh: each foreign binary under qemu-user with an x86-64 one, in network namespaces.

qemu-user lacks SO_MARK and policy rules: the daemon must say so and go on, and the rules are put in from outside.
"""

import json
import os
import sys
import time
import unittest

import build

sys.path.insert(0, str(build.ROOT / "tests/live"))
import lab as live  # noqa: E402

X86 = "x86_64-unknown-linux-musl"
# The best effort has no promise to keep.
FOREIGN = [target for target in build.TARGETS if target != X86 and not target.startswith("mips")]
LINKS = [("a", "b", 1), ("b", "c", 2), ("a", "c", 3)]
NUMBERS = {"a": 1, "b": 2, "c": 3}
# Key exchanges under emulation, on a machine that is busy
PATIENCE = 60


class Emulated(live.Router):
    """A daemon whose binary belongs to a target."""

    def __init__(self, lab, target, *words, **config):
        self.target = target
        super().__init__(lab, *words, **config)

    def start(self):
        self.process = self.lab.spawn(self.namespace, *build.command(self.target, "run", "--config", self.file), log=self.log)
        live.wait_for(f"{self.name} answers", lambda: self.socket.exists() and self.status() is not None, 20)
        if build.TARGETS[self.target]:
            for family in ("-4", "-6"):
                for rule in (["pref", "5270", "lookup", "main", "suppress_prefixlength", "0"], ["pref", "5271", "lookup", "5270"]):
                    live.run("ip", "-n", self.namespace, family, "rule", "add", *rule)
        return self


def triangle(lab, targets):
    """Routers a, b, c of these targets, each linked to both others; a and b dial what comes after them."""
    routers = {}
    for name, number in NUMBERS.items():
        tun = {"name": "wattle0", "addresses": [f"10.66.0.{number}/32", f"fd66::{number}/128"]}
        routers[name] = Emulated(lab, targets[name], lab.namespace(name), name, tun=tun, babel={"hello_ms": 1000})
    for left, right, network in LINKS:
        a, b = routers[left], routers[right]
        lab.veth(a.namespace, b.namespace, [f"10.0.{network}.1/24"], [f"10.0.{network}.2/24"], name=f"{left}{right}")
        a.config["nodes"].append({"name": right, "public_key": b.public_key, "endpoints": [f"10.0.{network}.2:4500"]})
        b.config["nodes"].append({"name": left, "public_key": a.public_key})
    return routers


@unittest.skipIf(os.geteuid() != 0, "needs root")
class Triangle(unittest.TestCase):
    def test_foreign_machines_with_x86(self):
        if X86 not in build.chosen:
            self.skipTest("no x86-64 binary was built")
        live.BINARY = build.binary(X86)
        for target in (target for target in FOREIGN if target in build.chosen):
            with self.subTest(target=target), live.Lab(f"q{FOREIGN.index(target)}") as lab:
                self.one(lab, target)

    def one(self, lab, target):
        routers = triangle(lab, {"a": target, "b": X86, "c": target})
        a, b, c = routers.values()
        began = time.monotonic()
        try:
            for router in (a, b, c):
                router.start()
            for router in (a, b, c):
                for other in set(routers) - {router.name}:
                    router.wait_up(other, PATIENCE)
            # Between the emulated ones, and from each to the other machine; both families
            for source, number in ((a, 3), (a, 2), (b, 1), (c, 2)):
                lab.reach(source.namespace, f"10.66.0.{number}", PATIENCE)
                lab.reach(source.namespace, f"fd66::{number}", PATIENCE)
            big = live.run("ip", "netns", "exec", a.namespace, "ping", "-n", "-c", "5", "-i", "0.2", "-w", "15", "-s", "1300",
                           "-M", "do", "10.66.0.3")
            self.assertIn("5 received", big.stdout)
            # The direct link breaks: what is emulated hears it from Babel and goes by the x86-64 node.
            live.run("ip", "-n", a.namespace, "link", "set", "ac", "down")
            live.wait_for("a reaches c via b", lambda: lab.ping(a.namespace, "10.66.0.3", count=1, deadline=1)
                          and self.via(a, "10.66.0.3/32") == "b", PATIENCE)
            for router in (a, c):
                self.assert_says_what_is_lost(router)
            self.assertEqual([a.stop(), b.stop(), c.stop()], [0, 0, 0])
        except AssertionError as failure:
            logs = "\n".join(f"--- {router.name}\n{router.log_text[-2000:]}" for router in routers.values() if router.log.exists())
            raise AssertionError(f"{failure}\n{logs}") from failure
        print(f"\n    {target}: {time.monotonic() - began:.1f} s ", end="", flush=True)

    def via(self, router, prefix):
        answer = json.loads(live.run(live.BINARY, "routes", "--json", "--socket", router.socket).stdout)
        return next((route["via"] for route in answer["routes"] if route["to"] == prefix and route["selected"]), None)

    def assert_says_what_is_lost(self, router):
        """One line for each thing that this kernel (here: qemu) lacks, not one for each try."""
        lines = [line for line in router.log_text.splitlines() if "add a rule" in line]
        self.assertEqual(len(lines), 2, router.log_text)
        self.assertEqual(len([line for line in router.log_text.splitlines() if "mark" in line.lower()]), 1, router.log_text)
        self.assertNotIn("panicked", router.log_text)

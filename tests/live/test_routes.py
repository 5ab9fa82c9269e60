"""Kernel routes that are announced, and filters: a real kernel whose routes come and go."""

import json
import unittest

from lab import Lab, pair, run, wait_for


def kernel_has(namespace, to):
    # Of every table: to ask for one that does not exist yet is an error.
    shown = run("ip", "-n", namespace, "-j", "-6" if ":" in to else "-4", "route", "show", "table", "all", to).stdout.strip()
    return any(str(route.get("table")) == "5270" for route in json.loads(shown or "[]"))


class Routes(unittest.TestCase):
    def test_routes_follow_the_kernel(self):
        with Lab("f") as lab:
            a, b = pair(lab)
            a.config["announce"] = [{"kernel": "main", "prefixes": [
                {"to": "10.77.9.0/24", "le": 32, "deny": True}, {"to": "10.77.0.0/16", "ge": 24}, {"to": "fd77::/32", "le": 64}]}]
            a.start(), b.start()
            b.wait_up("a")
            ip = lambda *words: run("ip", "-n", a.namespace, *words)
            ip("link", "add", "lan0", "type", "veth", "peer", "name", "lan1")
            ip("link", "set", "lan1", "up"), ip("link", "set", "lan0", "up")
            ip("address", "add", "10.77.1.1/24", "dev", "lan0")
            ip("-6", "address", "add", "fd77:0:0:1::1/64", "dev", "lan0", "nodad")
            for there in ("10.77.1.0/24", "fd77:0:0:1::/64"):
                wait_for(f"b has {there}", lambda to=there: kernel_has(b.namespace, to), 3)
            ip("route", "add", "10.77.2.0/24", "via", "10.77.1.2", "proto", "static")
            ip("route", "add", "10.77.9.0/24", "via", "10.77.1.2")
            ip("route", "add", "10.77.0.0/23", "via", "10.77.1.2")
            wait_for("b has what was added", lambda: kernel_has(b.namespace, "10.77.2.0/24"), 2)
            self.assertFalse(kernel_has(b.namespace, "10.77.9.0/24"), "denied")
            self.assertFalse(kernel_has(b.namespace, "10.77.0.0/23"), "too short")
            self.assertEqual(lab.ping(b.namespace, "10.77.1.1"), 3)
            # The kernel says nothing about IPv4 routes that go with their interface.
            ip("link", "set", "lan0", "down")
            for there in ("10.77.1.0/24", "10.77.2.0/24", "fd77:0:0:1::/64"):
                wait_for(f"b has lost {there}", lambda to=there: b_unreachable(b, to), 2)

    def test_filters_change_at_once(self):
        with Lab("g") as lab:
            a, b = pair(lab)
            a.config["announce"] = ["10.77.0.0/16", "0.0.0.0/0"]
            a.start(), b.start()
            b.wait_up("a")
            wait_for("b has both", lambda: all(kernel_has(b.namespace, to) for to in ("10.77.0.0/16", "default")), 5)
            b.config["babel"] = {"accept": [{"to": "0.0.0.0/0", "ge": 1}, {"to": "::/0", "ge": 1}]}
            self.assertTrue(b.file.exists())
            wait_for("no default route any more", lambda: b_unreachable(b, "0.0.0.0/0"), 3)
            self.assertTrue(kernel_has(b.namespace, "10.77.0.0/16"))
            self.assertGreaterEqual(lab.ping(b.namespace, "10.66.0.1"), 3)
            a.config["nodes"][0]["babel"] = {"announce": ["10.66.0.1/32"]}
            self.assertTrue(a.file.exists())
            wait_for("a tells less", lambda: b_unreachable(b, "10.77.0.0/16"), 3)
            self.assertFalse(b_unreachable(b, "10.66.0.1/32"))


def b_unreachable(router, to):
    """It has no usable route to this prefix."""
    routes = [route for route in router.status()["routes"] if route["to"] == to and route["selected"]]
    return all(route["via"] == "unreachable" for route in routes)


if __name__ == "__main__":
    unittest.main()

"""The daemon on real sockets and a real TUN device: what it does when fed nonsense, and what idling costs."""

import json
import os
import time
import unittest
from pathlib import Path

from lab import BINARY, Lab, Router, pair, run, wait_for

LONGEST_LINE = 160


def start_fails(lab, router):
    """Starts a router that must not start, and returns its only message."""
    process = router.start(ready=False).process
    code = process.wait(10)
    assert code not in (0, None), f"exit code {code}"
    lines = [line for line in router.log_text.splitlines() if line.strip()]
    return lines[-1]


def clock_ticks(pid):
    fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12])


def daemon_pid(router):
    """`ip netns exec` replaces itself by the command, so that the pid is the daemon's own."""
    return router.process.pid


class Startup(unittest.TestCase):
    def check_message(self, message, *words):
        self.assertLessEqual(len(message), LONGEST_LINE, message)
        for word in words:
            self.assertIn(word, message)

    def test_port_in_use(self):
        with Lab("p") as lab:
            a, _ = pair(lab)
            holder = lab.spawn(a.namespace, "python3", "-c",
                               "import socket,time; s=socket.socket(socket.AF_INET,socket.SOCK_DGRAM);"
                               "s.bind(('0.0.0.0',4500)); print('bound',flush=True); time.sleep(60)",
                               log=lab.folder / "holder")
            wait_for("the port is taken", lambda: "bound" in (lab.folder / "holder").read_text())
            self.check_message(start_fails(lab, a), "4500", "taken")
            self.assertIsNone(holder.poll())

    def test_missing_tun_device(self):
        with Lab("t") as lab:
            a, _ = pair(lab)
            # A /dev without net/tun, in a mount namespace of the daemon's own.
            a.process = lab.spawn(a.namespace, "unshare", "-m", "sh", "-c",
                                  'mount -t tmpfs none /dev/net && exec "$@"', "sh", BINARY, "run", "--config", a.file,
                                  log=a.log)
            self.assertNotIn(a.process.wait(10), (0, None))
            self.check_message(a.log_text.strip().splitlines()[-1], "/dev/net/tun")

    def test_a_configuration_with_a_mistake_does_not_start(self):
        with Lab("m") as lab:
            a, _ = pair(lab)
            a.config["nodes"][0]["endpoint"] = "192.0.2.2"
            process = a.start(ready=False).process
            self.assertEqual(process.wait(10), 1)
            self.assertIn("endpoints", a.log_text)

    def test_readable_key_is_a_warning(self):
        with Lab("k") as lab:
            a, _ = pair(lab)
            os.chmod(a.folder / "key", 0o644)
            done = run(BINARY, "check", a.file)
            self.assertIn("others can read the key file", done.stdout + done.stderr)

    def test_kernel_state_is_gone_at_exit_and_mended_at_the_next_start(self):
        with Lab("x") as lab:
            a, b = pair(lab)
            clean = run("ip", "-n", a.namespace, "rule").stdout
            a.start(), b.start()
            a.wait_up("b")
            wait_for("a route in our table", lambda: "10.66.0.2" in run("ip", "-n", a.namespace, "route", "show", "table", "all").stdout)
            self.assertNotEqual(run("ip", "-n", a.namespace, "rule").stdout, clean)
            self.assertEqual(a.stop(), 0)
            self.assertEqual(run("ip", "-n", a.namespace, "rule").stdout, clean)
            self.assertNotIn("10.66.0.2", run("ip", "-n", a.namespace, "route", "show", "table", "all").stdout)
            # Killed without a chance to tidy up; the next start finds the remains and starts all the same.
            a.start()
            a.wait_up("b")
            a.process.kill()
            a.process.wait()
            a.start()
            a.wait_up("b")
            self.assertEqual(a.stop(), 0)
            self.assertEqual(run("ip", "-n", a.namespace, "rule").stdout, clean)


class Running(unittest.TestCase):
    def test_ping_both_ways_and_a_relay_without_a_device(self):
        with Lab("g") as lab:
            a, relay = pair(lab)
            relay.config["tun"] = None
            c = Router(lab, lab.namespace("c"), "c", tun={"name": "wattle0", "addresses": ["10.66.0.3/32", "fd66::3/128"]})
            lab.veth(relay.namespace, c.namespace, ["198.51.100.2/24"], ["198.51.100.3/24"], name="eth1")
            c.config["nodes"] = [{"name": "b", "public_key": relay.public_key, "endpoints": ["198.51.100.2:4500"]}]
            relay.config["nodes"].append({"name": "c", "public_key": c.public_key})
            for router in (a, relay, c):
                router.start()
            a.wait_up("b"), c.wait_up("b")
            lab.reach(a.namespace, "10.66.0.3", 15)
            self.assertEqual(lab.ping(a.namespace, "10.66.0.3"), 3)
            lab.reach(c.namespace, "fd66::1")
            self.assertEqual(lab.ping(c.namespace, "fd66::1"), 3)
            self.assertNotIn("wattle0", run("ip", "-n", relay.namespace, "link").stdout)
            path = json.loads(run(BINARY, "path", "10.66.0.3", "--json", "--socket", a.socket).stdout)
            self.assertEqual(path["next_hop"], "b")

    def test_nonsense_on_the_port(self):
        with Lab("n") as lab:
            a, b = pair(lab)
            a.start(), b.start()
            a.wait_up("b")
            flood = lab.folder / "flood.py"
            flood.write_text(FLOOD)
            run("ip", "netns", "exec", b.namespace, "python3", flood, "192.0.2.1")
            self.assertEqual(lab.ping(a.namespace, "10.66.0.2"), 3)
            drops = a.drops()
            self.assertGreaterEqual(drops.get("unknown_spi", 0), 1000, drops)
            self.assertGreaterEqual(drops.get("runt", 0), 1000, drops)
            lines = a.log_text.splitlines()
            self.assertLessEqual(len(lines), 40, "\n".join(lines[:60]))
            self.assertLessEqual(max(map(len, lines)), LONGEST_LINE)

    def test_wrong_keys_are_named_on_both_ends(self):
        with Lab("w") as lab:
            a, b = pair(lab)
            # b knows another key of a: b refuses a, and a is told.
            stranger = Router(lab, b.namespace, "stranger")
            b.config["nodes"][0]["public_key"] = stranger.public_key
            a.start(), b.start()
            refused = wait_for("b tells whom it refused", lambda: b.status()["refused"], 10)
            self.assertEqual(refused[0]["name"], "a")
            self.assertTrue(refused[0]["from"].startswith("192.0.2.1"))
            reason = wait_for("a has a reason", lambda: "fingerprint" in (a.peer("b")["reason"] or "") and a.peer("b")["reason"], 10)
            own = json.loads(run(BINARY, "pubkey", "--json", a.folder / "key").stdout)["fingerprint"]
            self.assertIn(own[:20], reason)
            self.assertLessEqual(len(reason), LONGEST_LINE + 20)

    def test_an_unknown_identity_is_refused_by_name(self):
        with Lab("u") as lab:
            a, b = pair(lab)
            b.config["nodes"] = []
            a.start(), b.start()
            refused = wait_for("b tells whom it refused", lambda: b.status()["refused"], 10)
            self.assertEqual(refused[0]["name"], "a")
            self.assertIn("nodes", refused[0]["reason"])
            wait_for("a knows", lambda: "refused" in (a.peer("b")["reason"] or ""), 10)

    def test_unreachable_and_unresolvable_endpoints(self):
        with Lab("e") as lab:
            a, b = pair(lab)
            key = b.public_key
            a.config["nodes"] += [
                {"name": "far", "public_key": Router(lab, a.namespace, "far").public_key, "endpoints": ["203.0.113.9:4500"]},
                {"name": "named", "public_key": Router(lab, a.namespace, "named").public_key, "endpoints": ["vpn.example:4500"]},
            ]
            self.assertNotEqual(key, "")
            b.start()
            began = time.monotonic()
            a.start()
            a.wait_up("b", 3)
            self.assertLess(time.monotonic() - began, 4)
            for name, words in (("far", "unreachable"), ("named", "cannot resolve vpn.example")):
                reason = wait_for(f"a reason for {name}: {a.peer(name)}",
                                  lambda: words in (a.peer(name)["reason"] or "") and a.peer(name)["reason"], 20)
                self.assertLessEqual(len(reason), LONGEST_LINE)
            done = run(BINARY, "status", "--socket", a.socket, check=False)
            self.assertEqual(done.returncode, 1)
            self.assertIn("cannot resolve vpn.example", " ".join(done.stdout.split()))

    def test_no_resolver_at_boot(self):
        # E3: the resolver's address answers nothing at first; a peer by address is up at once, the named one later.
        with Lab("d") as lab:
            a, b = pair(lab)
            folder = Path("/etc/netns") / a.namespace
            folder.mkdir(parents=True)
            try:
                (folder / "resolv.conf").write_text("nameserver 192.0.2.53\n")
                c = Router(lab, lab.namespace("c"), "c", tun=None)
                lab.veth(a.namespace, c.namespace, ["198.51.100.1/24"], ["198.51.100.3/24"], name="eth1")
                a.config["nodes"].append({"name": "c", "public_key": c.public_key, "endpoints": ["vpn.example:4500"]})
                c.config["nodes"] = [{"name": "a", "public_key": a.public_key}]
                b.start(), c.start()
                began = time.monotonic()
                a.start()
                a.wait_up("b", 3)
                self.assertLess(time.monotonic() - began, 4)
                words = "cannot resolve vpn.example: no answer from 192.0.2.53"
                wait_for(f"the reason: {a.peer('c')}", lambda: words in (a.peer("c")["reason"] or ""), 20)
                run("ip", "-n", b.namespace, "addr", "add", "192.0.2.53/24", "dev", "eth0")
                server = lab.folder / "dns.py"
                server.write_text(DNS)
                lab.spawn(b.namespace, "python3", server, log=lab.folder / "dns.log")
                a.wait_up("c", 30)
                lab.reach(a.namespace, "10.66.0.2")
                self.assertEqual(lab.ping(a.namespace, "10.66.0.2"), 3)
            finally:
                (folder / "resolv.conf").unlink()
                folder.rmdir()

    def test_the_underlay_inside_a_mesh_prefix(self):
        # C5: the network that the dialled address lies in is itself announced in the mesh.
        with Lab("c") as lab:
            a, b = pair(lab)
            b.config["announce"] = ["192.0.2.0/24"]
            a.start(), b.start()
            a.wait_up("b")
            lab.reach(a.namespace, "10.66.0.2")
            self.assertEqual(lab.ping(a.namespace, "10.66.0.2", count=10), 10)
            time.sleep(5)
            self.assertEqual(a.peer("b")["state"], "up")
            self.assertEqual(lab.ping(a.namespace, "10.66.0.2"), 3)

    def test_the_wire_goes_and_comes_back(self):
        # E5: send errors end nothing, and are over when their cause is.
        with Lab("l") as lab:
            a, b = pair(lab)
            a.start(), b.start()
            a.wait_up("b")
            run("ip", "-n", a.namespace, "link", "set", "eth0", "down")
            lab.ping(a.namespace, "10.66.0.2", count=10, deadline=3)
            time.sleep(17)
            self.assertIsNone(a.process.poll())
            self.assertNotEqual(a.peer("b")["state"], "up")
            run("ip", "-n", a.namespace, "link", "set", "eth0", "up")
            lab.reach(a.namespace, "10.66.0.2", 12)
            self.assertTrue(any("send error" in reason for reason in a.drops()), a.drops())

    def test_one_address_family_dies_and_comes_back(self):
        # C3: two endpoints are two tunnels; what one loses the other carries.
        with Lab("f") as lab:
            a, b = pair(lab)
            a.config["nodes"][0]["endpoints"] = ["192.0.2.2:4500", "[2001:db8::2]:4500"]
            a.start(), b.start()
            up = lambda: sorted(link["remote"] for link in a.peer("b")["links"] if link["state"] == "up")
            wait_for("both tunnels", lambda: up() == ["192.0.2.2:4500", "[2001:db8::2]:4500"], 10)
            lab.reach(a.namespace, "10.66.0.2")
            for gone, back, left in (
                    (["addr", "del", "192.0.2.2/24"], ["addr", "add", "192.0.2.2/24"], ["[2001:db8::2]:4500"]),
                    (["addr", "del", "2001:db8::2/64"], ["addr", "add", "2001:db8::2/64"], ["192.0.2.2:4500"])):
                run("ip", "-n", b.namespace, *gone, "dev", "eth0")
                time.sleep(15)
                self.assertEqual(lab.ping(a.namespace, "10.66.0.2"), 3)
                self.assertEqual(up(), left)
                self.assertEqual(a.peer("b")["state"], "up")
                run("ip", "-n", b.namespace, *back, "dev", "eth0", *(["nodad"] if ":" in back[2] else []))
                wait_for(f"both tunnels again: {up()}", lambda: len(up()) == 2, 60)

    def test_idle_costs_nothing(self):
        with Lab("i") as lab:
            hub = Router(lab, lab.namespace("hub"), "hub", tun={"name": "wattle0", "addresses": ["10.66.0.9/32"]})
            spokes = []
            for number in (1, 2, 3):
                spoke = Router(lab, lab.namespace(f"s{number}"), f"s{number}",
                               tun={"name": "wattle0", "addresses": [f"10.66.0.{number}/32"]})
                lab.veth(hub.namespace, spoke.namespace, [f"192.0.{number}.1/24"], [f"192.0.{number}.2/24"], name=f"eth{number}")
                hub.config["nodes"].append({"name": spoke.name, "public_key": spoke.public_key,
                                            "endpoints": [f"192.0.{number}.2:4500"]})
                spoke.config["nodes"] = [{"name": "hub", "public_key": hub.public_key}]
                spokes.append(spoke.start())
            hub.start()
            for spoke in spokes:
                hub.wait_up(spoke.name)
            time.sleep(5)
            pid, span = daemon_pid(hub), 20
            before = clock_ticks(pid)
            time.sleep(span)
            used = (clock_ticks(pid) - before) / os.sysconf("SC_CLK_TCK")
            resident = int(next(line.split()[1] for line in open(f"/proc/{pid}/status") if line.startswith("VmRSS")))
            print(f"\n  idle with three peers: {100 * used / span:.2f} % of a core, {resident} KiB resident")
            self.assertLess(used, 0.01 * span)
            self.assertLess(resident, 10 * 1024)


# Answers every A question with 198.51.100.3 and every other one with nothing.
DNS = r"""
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("192.0.2.53", 53))
while True:
    query, peer = s.recvfrom(1500)
    end = query.index(b"\0", 12) + 5
    is_a = query[end - 4:end - 2] == b"\0\1"
    answer = b"\xc0\x0c\0\1\0\1\0\0\0\x3c\0\4" + bytes([198, 51, 100, 3]) if is_a else b""
    s.sendto(query[:2] + b"\x81\x80\0\1" + bytes([0, int(is_a)]) + bytes(4) + query[12:end] + answer, peer)
"""

FLOOD = r"""
import os, random, socket, sys
random.seed(7)
target = (sys.argv[1], 4500)
for kind in range(6):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    for n in range(2000):
        if kind == 0: data = b"\x00"
        elif kind == 1: data = b"abc"
        elif kind == 2: data = random.randbytes(random.randrange(8, 1400)) 
        elif kind == 3: data = b"\xc1\xc2\xc3\xc4" + random.randbytes(120)
        elif kind == 4: data = bytes(4) + random.randbytes(random.randrange(0, 300))
        else: data = bytes(4) + random.randbytes(8) + bytes(8) + bytes.fromhex("2120220800000000") + (28 + n % 60).to_bytes(4, "big") + random.randbytes(n % 60)
        s.sendto(data, target)
        if n % 50 == 0: import time; time.sleep(0.002)
"""


if __name__ == "__main__":
    unittest.main()

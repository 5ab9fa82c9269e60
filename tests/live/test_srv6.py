"""Segment routing on the wire: wattle's nodes among themselves, and with the kernel's own SRv6 as waypoint, exit and head end.

    h1 - a - b - c - l (Linux, no wattle)
             |
             d - h4, and net ("the internet") behind d

Each node has the locator fd77:0:0:N::/64; the Linux router l has SIDs in fcbb:2::/64, which c announces. This kernel has no VRF,
and so no End.DT46 of its own: as exit it is asked for End.DX4 and End.DT6.
"""

import json
import re
import shutil
import time
import unittest

from lab import BINARY, Lab, Router, run, wait_for

NUMBER = {"a": 1, "b": 2, "c": 3, "d": 4}
LINKS = [("a", "b"), ("b", "c"), ("b", "d")]
LAN = {"a": ("192.168.1.0/24", "fd01::/64"), "d": ("192.168.4.0/24", "fd04::/64")}
H1, H4, L = ("192.168.1.2", "fd01::2"), ("192.168.4.2", "fd04::2"), ("192.168.3.2", "fd03::2")
INTERNET = "203.0.113.1"


def locator(name):
    return f"fd77:0:0:{NUMBER[name]}::/64"


def seg6_is_here():
    """Whether this kernel has seg6local."""
    with Lab("q") as lab:
        space = lab.namespace("q")
        run("ip", "-n", space, "link", "add", "v0", "type", "veth", "peer", "name", "v1")
        run("ip", "-n", space, "link", "set", "v0", "up")
        done = run("ip", "-n", space, "-6", "route", "add", "fcbb::1/128", "encap", "seg6local", "action", "End", "dev", "v0",
                   check=False)
        return done.returncode == 0


class Mesh:
    """The nodes and hosts of the drawing."""

    def __init__(self, lab):
        self.lab, self.nodes = lab, {}
        for name, number in NUMBER.items():
            tun = {"name": "wattle0", "addresses": [f"10.66.0.{number}/32", f"fd66::{number}/128"]}
            self.nodes[name] = Router(lab, lab.namespace(name), name, tun=tun, locator=locator(name),
                                      babel={"hello_ms": 500}, announce=list(LAN.get(name, [])))
            self.sysctl(self.nodes[name].namespace)
        for index, (one, other) in enumerate(LINKS):
            a, b = self.nodes[one], self.nodes[other]
            lab.veth(a.namespace, b.namespace, [f"192.0.2.{index * 4 + 1}/30"], [f"192.0.2.{index * 4 + 2}/30"], f"u{index}")
        for name, node in self.nodes.items():
            for other in NUMBER:
                if other == name:
                    continue
                entry = {"name": other, "public_key": self.nodes[other].public_key, "locator": locator(other)}
                # Both ends dial: whoever comes back is not left waiting for the other's next try.
                for pair, end in (((name, other), 2), ((other, name), 1)):
                    if pair in LINKS:
                        entry["endpoints"] = [f"192.0.2.{LINKS.index(pair) * 4 + end}:4500"]
                node.config["nodes"].append(entry)
        self.h1 = self.host("h1", "a", *H1)
        self.h4 = self.host("h4", "d", *H4)

    def sysctl(self, namespace):
        words = ["net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1", "net.ipv4.conf.all.rp_filter=0",
                 "net.ipv4.conf.default.rp_filter=0"]
        run("ip", "netns", "exec", namespace, "sysctl", "-qw", *words)

    def host(self, name, node, v4, v6, routers=True):
        """A namespace on the node's LAN, with the node as its router."""
        space, router = self.lab.namespace(name), self.nodes[node].namespace
        gate4, gate6 = v4.rsplit(".", 1)[0] + ".1", v6.rsplit(":", 1)[0] + ":1"
        self.lab.veth(router, space, [f"{gate4}/24", f"{gate6}/64"], [f"{v4}/24", f"{v6}/64"], f"lan{name}")
        if routers:
            run("ip", "-n", space, "route", "add", "default", "via", gate4)
            run("ip", "-n", space, "-6", "route", "add", "default", "via", gate6)
        return space

    def linux(self):
        """The router l behind c, with SIDs of each kind that this kernel has."""
        c = self.nodes["c"]
        space = self.host("l", "c", *L)
        self.sysctl(space)
        c.config["announce"] += ["192.168.3.0/24", "fd03::/64", "fcbb:2::/64"]
        # Its packets carry the head end's source on, or its own.
        for node in self.nodes.values():
            node.config["segment_sources"] = ["fd77::/48", "fd03::/64"]
        run("ip", "-n", c.namespace, "-6", "route", "add", "fcbb:2::/64", "via", L[1])
        route = lambda sid, *action: run("ip", "-n", space, "-6", "route", "add", f"fcbb:2::{sid}/128", "encap", "seg6local",
                                         "action", *action, "dev", "lanl")
        route("1", "End")
        route("2", "End", "flavors", "psp")
        route("40", "End.DX4", "nh4", "0.0.0.0")
        route("d6", "End.DT6", "table", "255")
        run("ip", "-n", space, "sr", "tunsrc", "set", L[1])
        return space

    def start(self):
        for node in self.nodes.values():
            node.start()
        for one, other in LINKS:
            self.nodes[one].wait_up(other)
        self.lab.reach(self.h1, H4[0], 20)
        self.lab.reach(self.h1, H4[1], 20)

    def steer(self, name, *policies):
        """Gives a running node other policies and waits until they are active."""
        node = self.nodes[name]
        node.config["steer"] = list(policies)
        node.file
        run(BINARY, "reload", "--socket", node.socket)
        wait_for(f"policies of {name}: {self.policies(name)}",
                 lambda: all(policy["state"] in ("active", "exempt") for policy in self.policies(name)))

    def policies(self, name):
        done = run(BINARY, "policies", "--json", "--socket", self.nodes[name].socket, check=False)
        return json.loads(done.stdout)["policies"]

    def tcp(self, client, server, address, octets=2_000_000):
        """Carries octets over TCP from client to server and says how many arrived."""
        family = "socket.AF_INET6" if ":" in address else "socket.AF_INET"
        log = self.lab.folder / f"tcp{time.monotonic_ns()}"
        sink = (f"import socket; s=socket.socket({family}); s.setsockopt(1,2,1); s.bind(('{address}',7000)); s.listen(1);"
                "print('ready',flush=True); c,_=s.accept(); n=0\nwhile d:=c.recv(65536): n+=len(d)\nprint('got',n,flush=True)")
        receiver = self.lab.spawn(server, "python3", "-c", sink, log=log)
        wait_for("the receiver listens", lambda: "ready" in log.read_text())
        source = (f"import socket; s=socket.socket({family}); s.settimeout(20); s.connect(('{address}',7000));"
                  f"s.sendall(bytes({octets})); s.close()")
        run("ip", "netns", "exec", client, "python3", "-c", source, timeout=60)
        receiver.wait(20)
        return int(re.search(r"got (\d+)", log.read_text()).group(1))


def both(name, addresses, **path):
    return [{"name": f"{name}{index}", "to": f"{address}/{32 if index == 0 else 128}", **path}
            for index, address in enumerate(addresses)]


class Among(unittest.TestCase):
    def test_a_path_with_a_repeat_and_its_trace(self):
        with Lab("s") as lab:
            mesh = Mesh(lab)
            mesh.start()
            before = mesh.nodes["c"].status()["octets_in"]
            mesh.steer("a", *both("p", H4, via=["b", "c", "b"], exit="d"))
            for address in H4:
                self.assertEqual(lab.ping(mesh.h1, address), 3, address)
                self.assertEqual(mesh.tcp(mesh.h1, mesh.h4, address), 2_000_000)
            self.assertGreater(mesh.nodes["c"].status()["octets_in"] - before, 4_000_000, "c was passed by")
            packets = [policy["packets"] for policy in mesh.policies("a")]
            self.assertTrue(all(count > 1000 for count in packets), packets)
            # The way there costs the inner packet what the kernels of a and d take; the mesh between takes nothing.
            done = run("ip", "netns", "exec", mesh.h1, "ping", "-n", "-c", "1", "-t", "3", "-W", "2", H4[0])
            self.assertIn("1 received", done.stdout)
            done = run("ip", "netns", "exec", mesh.h1, "ping", "-n", "-c", "1", "-t", "2", "-W", "2", H4[0], check=False)
            self.assertIn("Time to live exceeded", done.stdout)
            trace = json.loads(run(BINARY, "trace", "--json", H4[0], "--from", H1[0], "--socket", mesh.nodes["a"].socket).stdout)
            self.assertEqual([step["name"] for step in trace["steps"]], ["b", "c", "b", "d"])
            self.assertTrue(all(step["reached"] for step in trace["steps"]), trace)
            path = run(BINARY, "path", H4[0], "--from", H1[0], "--socket", mesh.nodes["a"].socket).stdout
            self.assertIn("adds 96 octets", path)
            # A host of the LAN may not use SIDs.
            self.assertEqual(lab.ping(mesh.h1, "fd77:0:0:2::1", count=2, deadline=2), 0)
            self.assertGreaterEqual(mesh.nodes["a"].drops()["sid_from_outside"], 2)
            for name in "bcd":
                self.assertFalse(set(mesh.nodes[name].drops()) & {"bad_segment_list", "hop_limit", "unknown_sid"}, name)

    def test_the_largest_packet_and_tcp_by_five_segments(self):
        with Lab("m") as lab:
            mesh = Mesh(lab)
            mesh.start()
            mesh.steer("a", *both("p", H4, via=["b", "c", "b", "c"], exit="d"))
            # 1400 - 112.
            ping = lambda size: run("ip", "netns", "exec", mesh.h1, "ping", "-n", "-M", "do", "-c", "1", "-W", "2", "-s", size,
                                    H4[0], check=False).stdout
            self.assertIn("1 received", ping(1288 - 28))
            self.assertIn("mtu = 1288", ping(1289 - 28))
            for address in H4:
                self.assertEqual(mesh.tcp(mesh.h1, mesh.h4, address), 2_000_000)

    def test_a_waypoint_that_is_killed(self):
        with Lab("k") as lab:
            mesh = Mesh(lab)
            mesh.start()
            policy = lambda name, address, otherwise: {"name": name, "to": f"{address}/32", "via": ["c"], "exit": "d",
                                                       "if_unreachable": otherwise}
            mesh.steer("a", policy("drop", H4[0], "drop"), policy("route", "10.66.0.4", "route"))
            self.assertEqual(lab.ping(mesh.h1, H4[0]), 3)
            mesh.nodes["c"].process.kill()
            mesh.nodes["c"].process.wait()
            states = lambda: [policy["state"] for policy in mesh.policies("a")]
            wait_for("the policies see it", lambda: states() == ["dropping", "routed"], 30)
            self.assertEqual(lab.ping(mesh.h1, H4[0], count=2, deadline=2), 0)
            self.assertEqual(lab.ping(mesh.h1, "10.66.0.4"), 3)
            self.assertGreater(mesh.nodes["a"].drops()["policy_unreachable"], 0)
            self.assertIn("no route to c", mesh.policies("a")[0]["reason"])
            mesh.nodes["c"].start()
            wait_for("the policies recover", lambda: states() == ["active", "active"], 10)
            self.assertEqual(lab.ping(mesh.h1, H4[0]), 3)

    def test_an_exit_to_the_internet(self):
        if not shutil.which("nft"):
            self.skipTest("nft is not installed")
        with Lab("e") as lab:
            mesh = Mesh(lab)
            d = mesh.nodes["d"]
            net = lab.namespace("net")
            lab.veth(d.namespace, net, ["198.51.100.2/24"], ["198.51.100.1/24", f"{INTERNET}/32"], "wan")
            run("ip", "-n", d.namespace, "route", "add", "default", "via", "198.51.100.1")
            d.config["exit"] = True
            mesh.start()
            # What the log says is done as it stands.
            for line in re.findall(r"nft '(.+)'$", d.log_text, re.MULTILINE):
                run("ip", "netns", "exec", d.namespace, "nft", line)
            mesh.steer("a", {"name": "out", "from": "192.168.1.0/24", "to": "0.0.0.0/0", "via": ["c"], "exit": "d"})
            self.assertEqual(lab.ping(mesh.h1, INTERNET), 3)
            self.assertEqual(mesh.tcp(mesh.h1, net, INTERNET), 2_000_000)
            # Nobody else's packets went there, and what is not an exit lets nothing out.
            mesh.steer("a", {"name": "out", "from": "192.168.1.0/24", "to": "0.0.0.0/0", "exit": "c"})
            self.assertEqual(lab.ping(mesh.h1, INTERNET, count=2, deadline=2), 0)
            self.assertGreater(mesh.nodes["c"].drops()["no_route"], 0)


@unittest.skipUnless(seg6_is_here(), "this kernel has no seg6local")
class WithLinux(unittest.TestCase):
    def capture(self, lab, namespace, device):
        """What tshark sees: lines of segments left and the list, as the wire has it."""
        file = lab.folder / f"{device}.pcap"
        log = lab.folder / f"{device}.tshark"
        process = lab.spawn(namespace, "tshark", "-q", "-i", device, "-w", file, "-f", "ip6[6] == 43", log=log)
        wait_for("tshark captures", lambda: "Capturing" in log.read_text(), 15)
        time.sleep(0.5)

        def end():
            process.terminate()
            process.wait(10)
            fields = ["ipv6.routing.segleft", "ipv6.routing.srh.last_entry", "ipv6.routing.srh.addr", "_ws.expert.message"]
            words = [word for field in fields for word in ("-e", field)]
            # What tshark thinks of TCP's timing is not of interest.
            others = [word for name in ("tcp", "icmp", "icmpv6") for word in ("--disable-protocol", name)]
            return run("tshark", "-r", file, *others, "-T", "fields", *words).stdout.splitlines()
        return end

    def test_linux_as_waypoint(self):
        with Lab("w") as lab:
            mesh = Mesh(lab)
            mesh.linux()
            mesh.start()
            for sid, srh, left in (("fcbb:2::1", "reduced", {"2", "1"}), ("fcbb:2::1", "full", {"2", "1"}),
                                   ("fcbb:2::2", "reduced", {"2", "1"})):
                with self.subTest(sid=sid, srh=srh):
                    mesh.steer("a", *both("p", H4, via=[sid, "b"], exit="d", srh=srh))
                    end = self.capture(lab, mesh.nodes["c"].namespace, "lanl")
                    for address in H4:
                        self.assertEqual(lab.ping(mesh.h1, address), 3)
                        self.assertEqual(mesh.tcp(mesh.h1, mesh.h4, address, 300_000), 300_000)
                    if end:
                        seen = [line.split("\t") for line in end()]
                        self.assertEqual({line[0] for line in seen}, left)
                        lists = {line[2] for line in seen}
                        tail = ",fcbb:2::1" if srh == "full" else ""
                        self.assertEqual(lists, {f"fd77:0:0:4::14,fd77:0:0:2::1{tail}"})
                        self.assertEqual({line[3] for line in seen}, {""}, "tshark complains")
            # PSP as the waypoint before the exit: the list is gone when it comes to d.
            mesh.steer("a", *both("p", H4, via=["b", "fcbb:2::2"], exit="d"))
            for address in H4:
                self.assertEqual(lab.ping(mesh.h1, address), 3)

    def test_linux_as_exit(self):
        with Lab("x") as lab:
            mesh = Mesh(lab)
            mesh.linux()
            mesh.start()
            mesh.steer("a", {"name": "v4", "to": f"{L[0]}/32", "via": ["b", "d", "b"], "exit": "fcbb:2::40"},
                       {"name": "v6", "to": f"{L[1]}/128", "via": ["b", "d", "b"], "exit": "fcbb:2::d6"})
            for address in L:
                self.assertEqual(lab.ping(mesh.h1, address), 3, address)
            # One segment: no SRH at all.
            mesh.steer("a", {"name": "v4", "to": f"{L[0]}/32", "exit": "fcbb:2::40"})
            self.assertEqual(lab.ping(mesh.h1, L[0]), 3)

    def test_linux_as_head_end(self):
        with Lab("h") as lab:
            mesh = Mesh(lab)
            space = mesh.linux()
            mesh.start()
            for mode in ("encap", "encap.red"):
                for segments in ("fd77:0:0:4::14", "fd77:0:0:2::1,fd77:0:0:4::14", "fd77:0:0:2::2,fd77:0:0:4::14"):
                    for address, bits in zip(H4, (32, 128)):
                        family = ["-6"] if bits == 128 else []
                        run("ip", "-n", space, *family, "route", "replace", f"{address}/{bits}", "encap", "seg6", "mode", mode,
                            "segs", segments, "dev", "lanl")
                        self.assertEqual(lab.ping(space, address, source=L[bits == 128]), 3, f"{mode} {segments} {address}")
            # Who is not listed may not.
            for node in mesh.nodes.values():
                node.config["segment_sources"] = []
                node.file
                run(BINARY, "reload", "--socket", node.socket)
            self.assertEqual(lab.ping(space, H4[0], count=2, deadline=2, source=L[0]), 0)
            self.assertGreater(mesh.nodes["c"].drops()["sid_from_outside"], 0)


if __name__ == "__main__":
    unittest.main()

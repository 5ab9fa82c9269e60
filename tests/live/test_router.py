"""The daemon as a router's only program: process 1 of a container, and one whose work other programs undo."""

import re
import socket
import time
import unittest

from lab import BINARY, Lab, Router, pair, run, wait_for


def inside(namespace, file):
    return run("ip", "netns", "exec", namespace, "cat", file).stdout.strip()


def setting(namespace, key, value):
    run("ip", "netns", "exec", namespace, "sysctl", "-qw", f"{key}={value}")


def start_as_process_1(lab, router, *environment):
    """In a namespace of processes of its own, with /proc to fit, as a container engine starts it."""
    router.process = lab.spawn(router.namespace, "env", *environment, "unshare", "--pid", "--fork", "--kill-child=TERM", "--mount-proc",
                               BINARY, "run", "--config", router.file, log=router.log)
    wait_for("the daemon answers", lambda: router.socket.exists() and router.status() is not None, 10)


class Process1(unittest.TestCase):
    def test_it_sets_the_container_up_as_a_router(self):
        """RouterOS gives a container with gateway6 an address and no route, and nobody in it who turns forwarding on."""
        with Lab("r") as lab:
            a, b = pair(lab)
            a.config["announce"] = ["192.168.88.0/24", "fd88::/64"]
            a.config["nodes"][0]["endpoints"] = ["[2001:db8:5::2]:4500"]
            run("ip", "-n", b.namespace, "addr", "add", "2001:db8:5::2/128", "dev", "lo")
            setting(a.namespace, "net.ipv6.conf.eth0.accept_ra", 1)
            for family in ("net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding"):
                setting(a.namespace, family, 0)
            b.start()
            start_as_process_1(lab, a, "WATTLE_GATEWAY6=2001:db8::2")
            self.assertEqual(inside(a.namespace, "/proc/sys/net/ipv4/ip_forward"), "1")
            self.assertEqual(inside(a.namespace, "/proc/sys/net/ipv6/conf/all/forwarding"), "1")
            self.assertEqual(inside(a.namespace, "/proc/sys/net/ipv6/conf/eth0/accept_ra"), "2")
            routes = lambda: run("ip", "-n", a.namespace, "-6", "route", "show", "default").stdout
            self.assertIn("default via 2001:db8::2 dev eth0", routes())
            a.wait_up("b")
            lab.reach(a.namespace, "10.66.0.2")
            # The link goes down and comes back: its routes are gone, and nobody else sets them anew.
            run("ip", "-n", a.namespace, "link", "set", "eth0", "down")
            self.assertNotIn("2001:db8::2", routes())
            time.sleep(2)
            run("ip", "-n", a.namespace, "link", "set", "eth0", "up")
            run("ip", "-n", a.namespace, "addr", "replace", "2001:db8::1/64", "dev", "eth0", "nodad")
            wait_for("the default route is back", lambda: "via 2001:db8::2" in routes(), 10)
            for line in a.log_text.splitlines():
                self.assertLessEqual(len(line), 160, line)
            self.assertRegex(a.log_text.splitlines()[0], r"^info  wattle \S+ on \S+, Linux .*, pages of \d+ KiB, .*, process 1$")
            self.assertIn("default route: IPv4 by none, IPv6 by eth0", a.log_text)
            self.assertIn("IPv4 forwarding is turned on", a.log_text)

    def test_settings_that_are_read_only_are_told(self):
        with Lab("s") as lab:
            a, _ = pair(lab)
            a.config["announce"] = ["192.168.88.0/24"]
            setting(a.namespace, "net.ipv4.ip_forward", 0)
            a.process = lab.spawn(a.namespace, "unshare", "--pid", "--fork", "--kill-child=TERM", "--mount-proc", "sh", "-c",
                                  'mount -o bind,ro /proc/sys /proc/sys && exec "$@"', "sh", BINARY, "run", "--config", a.file, log=a.log)
            wait_for("the daemon answers", lambda: a.socket.exists() and a.status() is not None, 10)
            self.assertRegex(a.log_text, r"(?m)^warn .*forwards no IPv4 packets.*sysctl -w net\.ipv4\.ip_forward=1")

    def test_elsewhere_forwarding_is_the_administrators(self):
        with Lab("t") as lab:
            a, _ = pair(lab)
            a.config["announce"] = ["192.168.88.0/24"]
            setting(a.namespace, "net.ipv4.ip_forward", 0)
            a.start()
            self.assertEqual(inside(a.namespace, "/proc/sys/net/ipv4/ip_forward"), "0")
            self.assertRegex(a.log_text, r"(?m)^warn .*forwards no IPv4 packets")


class Undone(unittest.TestCase):
    def test_what_netifd_flushes_is_back_within_a_second(self):
        """OpenWrt's ifdown and a restart of netifd remove addresses and routes of our device."""
        with Lab("u") as lab:
            a, b = pair(lab)
            a.start(), b.start()
            a.wait_up("b")
            lab.reach(a.namespace, "10.66.0.2"), lab.reach(a.namespace, "fd66::2")
            state = lambda: [run("ip", "-n", a.namespace, *words).stdout for words in (
                ("-br", "addr", "show", "dev", "wattle0"), ("rule",), ("-6", "rule"), ("route", "show", "table", "5270"),
                ("-6", "route", "show", "table", "5270"))]
            before = state()
            took = []
            for undo in (
                    [["-4", "addr", "flush", "dev", "wattle0"], ["-6", "addr", "flush", "dev", "wattle0"]],
                    [["route", "flush", "table", "5270"], ["-6", "route", "flush", "table", "5270"]],
                    [["rule", "del", "pref", "5271"], ["-6", "rule", "del", "pref", "5270"]],
                    # As netifd does it: down, everything flushed, up.
                    [["link", "set", "wattle0", "down"], ["-4", "addr", "flush", "dev", "wattle0"], ["link", "set", "wattle0", "up"]]):
                # Whoever undoes it again and again gets slower answers.
                time.sleep(6)
                for words in undo:
                    run("ip", "-n", a.namespace, *words)
                began = time.monotonic()
                wait_for(f"back after {undo}:\n{state()}\nnot\n{before}", lambda: state() == before, 5, every=0.02)
                took.append(time.monotonic() - began)
                self.assertEqual(lab.ping(a.namespace, "10.66.0.2"), 3)
            print(f"\n  put back after {', '.join(f'{seconds:.2f}' for seconds in took)} s ", end="", flush=True)
            self.assertLess(max(took), 1)


class Syslog(unittest.TestCase):
    def test_levels_reach_the_systems_log(self):
        with Lab("l") as lab:
            a, _ = pair(lab)
            a.config["announce"] = ["192.168.88.0/24"]
            setting(a.namespace, "net.ipv4.ip_forward", 0)
            log = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            (lab.folder / "dev").mkdir()
            log.bind(str(lab.folder / "dev/log"))
            log.settimeout(5)
            # A /dev of the daemon's own, with our end of the log in it.
            hide = f'mount -t tmpfs none /mnt && mkdir /mnt/net && touch /mnt/net/tun && mount -o bind /dev/net/tun /mnt/net/tun && ' \
                   f'ln -s {lab.folder}/dev/log /mnt/log && mount -o move /mnt /dev && exec "$@"'
            a.process = lab.spawn(a.namespace, "unshare", "--mount", "sh", "-c", hide, "sh", BINARY, "run", "--syslog", "--config",
                                  a.file, log=a.log)
            wait_for("the daemon answers", lambda: a.socket.exists() and a.status() is not None, 10)
            lines = [log.recv(1000).decode()]
            while "forwards no" not in lines[-1]:
                lines.append(log.recv(1000).decode())
            self.assertRegex(lines[0], rf"^<30>wattle\[{a.process.pid}\]: wattle \S+ on ")
            self.assertTrue(lines[-1].startswith(f"<28>wattle[{a.process.pid}]: "), lines[-1])
            self.assertEqual(a.log_text, "")


class Memory(unittest.TestCase):
    def test_fifty_peers(self):
        """A hub with fifty real daemons, all of them on one wire."""
        count = 50
        with Lab("m") as lab:
            hub = Router(lab, lab.namespace("h"), "hub", tun={"name": "wattle0", "addresses": ["10.66.0.1/32"]})
            space = lab.namespace("p")
            lab.veth(hub.namespace, space, ["192.0.2.1/24"], ["192.0.2.2/24"])
            peers = []
            for number in range(count):
                peer = Router(lab, space, f"peer{number}", tun=None, listen=[5000 + number])
                peer.config["nodes"] = [{"name": "hub", "public_key": hub.public_key, "endpoints": ["192.0.2.1:4500"]}]
                hub.config["nodes"].append({"name": peer.name, "public_key": peer.public_key})
                peers.append(peer)
            hub.start()
            idle = resident(hub)
            for peer in peers:
                peer.start(ready=False)
            up = lambda: sum(peer["state"] == "up" for peer in hub.status()["peers"])
            wait_for("all peers are up", lambda: up() == count, 120, every=1)
            time.sleep(20)
            self.assertEqual(up(), count)
            loaded = resident(hub)
            # One that everybody talks to: its buffers are in use, too.
            flood = lab.spawn(space, "python3", "-c", FLOOD)
            flood.wait(30)
            flooded = resident(hub)
            print(f"\n  resident: {idle} KiB without sessions, {loaded} KiB with {count}, {flooded} KiB after a flood; "
                  f"peers {max(map(resident, peers))} KiB ", end="", flush=True)
            self.assertLess(idle, 10 * 1024)
            self.assertLess(max(loaded, flooded), 16 * 1024)


def resident(router):
    """Octets of memory that are the process's in truth, in KiB."""
    return int(re.search(r"VmRSS:\s+(\d+)", open(f"/proc/{router.process.pid}/status").read())[1])


FLOOD = r"""
import os, socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for n in range(100_000):
    s.sendto(os.urandom(40 + n % 1400), ("192.0.2.1", 4500))
"""


if __name__ == "__main__":
    unittest.main()

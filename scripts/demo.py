#!/usr/bin/env python3
"""The demo itself: three routers, three links with delay, and what happens when a link or a router changes.

  demo.py BINARIES [--keep]     BINARIES: the folder with wattle and delay-link
  demo.py BINARIES --down       takes down what --keep has left up

Every step waits for a condition with a deadline; the exit code is 1 if one is not met. It ends only its own processes and
deletes only its own namespaces, also when it is interrupted. Standard library only.
"""

import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

STATE = Path("/run/wattle-demo")
NODES = {"a": 1, "b": 2, "c": 3}
# Ends, network of the link, milliseconds one way.
LINKS = [("a", "b", "10.0.1", 20), ("b", "c", "10.0.2", 20), ("a", "c", "10.0.3", 132)]
TARGET = "10.66.0.3"
BEGIN = time.monotonic()


class Failed(Exception):
    """A step that did not happen."""


def say(text):
    print(f"[{time.monotonic() - BEGIN:6.2f} s] {text}", flush=True)


def namespace(node):
    return f"wattle-{node}"


def run(*words):
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode != 0:
        raise Failed(f"{' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


def ip(node, words):
    return run("ip", "-n", namespace(node), *words.split())


class Demo:
    def __init__(self, binaries, keep):
        self.wattle = str(binaries / "wattle")
        self.delay_link = str(binaries / "delay-link")
        self.keep = keep
        self.processes = {}
        self.namespaces = []
        self.pinger = None

    # --- the world ---------------------------------------------------------------------------------------------------

    def build_world(self):
        if STATE.exists() or any(Path("/run/netns", namespace(node)).exists() for node in NODES):
            raise Failed("a demo is up already (or one broke off): scripts/demo --down takes it away")
        STATE.mkdir(mode=0o700)
        for node in NODES:
            run("ip", "netns", "add", namespace(node))
            self.namespaces.append(namespace(node))
            ip(node, "link set lo up")
            run("ip", "netns", "exec", namespace(node), "sysctl", "-qw", "net.ipv4.ip_forward=1",
                "net.ipv6.conf.all.forwarding=1")
            # The network behind the router
            ip(node, f"addr add 192.168.{NODES[node]}.1/24 dev lo")
        for left, right, network, delay in LINKS:
            control = STATE / f"{left}{right}.link"
            words = [self.delay_link, "run", namespace(left), f"to-{right}", namespace(right), f"to-{left}",
                     "--control", str(control), f"delay={delay}"]
            if self.keep:
                words.append("--outlive-parent")
            link = self.start(f"link-{left}{right}", words, stdout=subprocess.PIPE)
            if link.stdout.readline().strip() != b"ready":
                raise Failed(f"the link {left}-{right} does not come up: {self.last_words(f'link-{left}{right}', 1)}")
            ip(left, f"addr add {network}.1/24 dev to-{right}")
            ip(right, f"addr add {network}.2/24 dev to-{left}")
            say(f"link {left}-{right}: {delay} ms one way")

    def write_configurations(self):
        keys = {}
        for node in NODES:
            run(self.wattle, "keygen", str(STATE / f"{node}.key"))
            keys[node] = run(self.wattle, "pubkey", str(STATE / f"{node}.key")).strip()
        for node, number in NODES.items():
            others = []
            for left, right, network, _ in LINKS:
                if node in (left, right):
                    other, host = (right, 2) if node == left else (left, 1)
                    others.append({"name": other, "public_key": keys[other], "endpoints": [f"{network}.{host}:4500"]})
            configuration = {
                "name": node,
                "private_key": f"{node}.key",
                "tun": {"addresses": [f"10.66.0.{number}/32", f"fd66::{number}/128"]},
                "announce": [f"192.168.{number}.0/24"],
                "nodes": others,
                "control": str(STATE / f"{node}.sock"),
            }
            path = STATE / f"{node}.json"
            path.write_text(json.dumps(configuration, indent=2) + "\n")
            run(self.wattle, "check", str(path))
        say("three configurations written, wattle check finds no problem")

    def start(self, name, words, **more):
        log = open(STATE / f"{name}.log", "ab")
        process = subprocess.Popen(words, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True,
                                   **{"stdout": log, **more})
        self.processes[name] = process
        with open(STATE / "pids", "a") as pids:
            pids.write(f"{process.pid}\n")
        return process

    def start_node(self, node):
        # `ip netns exec` becomes the daemon: the process is the daemon's own.
        self.start(node, ["ip", "netns", "exec", namespace(node), self.wattle, "run", "--config",
                          str(STATE / f"{node}.json")])

    def last_words(self, name, lines):
        try:
            return "\n".join((STATE / f"{name}.log").read_text(errors="replace").splitlines()[-lines:])
        except OSError:
            return ""

    def clean_up(self):
        if self.pinger:
            self.pinger.stop()
        for process in self.processes.values():
            if process.poll() is None:
                process.terminate()
        end = time.monotonic() + 3
        for process in self.processes.values():
            try:
                process.wait(max(0.1, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for name in self.namespaces:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)
        if self.namespaces:
            shutil.rmtree(STATE, ignore_errors=True)

    # --- looking -----------------------------------------------------------------------------------------------------

    def ask(self, node, view):
        done = subprocess.run([self.wattle, view, "--json", "--socket", str(STATE / f"{node}.sock")],
                              capture_output=True, text=True)
        try:
            return json.loads(done.stdout)
        except ValueError:
            return None

    def route(self, node, to):
        answer = self.ask(node, "routes") or {"routes": []}
        found = [r for r in answer["routes"] if r["to"] == to and r["selected"] and not r.get("from")]
        return found[0] if found else None

    def wait(self, what, seconds, condition):
        """Waits until the condition is met; says how long it took."""
        begin = time.monotonic()
        while not condition():
            for name, process in self.processes.items():
                if process.poll() not in (None, -signal.SIGKILL):
                    raise Failed(f"{name} has ended with {process.returncode}")
            if time.monotonic() - begin > seconds:
                raise Failed(f"not within {seconds} s: {what}")
            time.sleep(0.1)
        say(f"{what} (after {time.monotonic() - begin:.1f} s)")

    # --- the steps ---------------------------------------------------------------------------------------------------

    def sessions_up(self, nodes):
        said = set()

        def condition():
            whole = True
            for node in nodes:
                status = self.ask(node, "status")
                peers = status["peers"] if status else []
                whole &= len(peers) == 2 and all(peer["state"] == "up" for peer in peers)
                for peer in peers:
                    for link in peer["links"]:
                        if link["state"] == "up" and (node, link["id"]) not in said:
                            said.add((node, link["id"]))
                            say(f"  {node}: session with {peer['name']} ({link['remote']}): "
                                f"{link['ike_suite']}, ESP {link['esp_suite']}")
            return whole

        self.wait(f"every session of {', '.join(nodes)} is up and carries data", 30, condition)

    def routes_learned(self):
        said = set()
        wanted = {f"10.66.0.{n}/32" for n in NODES.values()} | {f"fd66::{n}/128" for n in NODES.values()}
        wanted |= {f"192.168.{n}.0/24" for n in NODES.values()}

        def condition():
            answer = self.ask("a", "routes") or {"routes": []}
            there = set()
            for route in answer["routes"]:
                if not route["selected"]:
                    continue
                there.add(route["to"])
                if route["to"] not in said:
                    said.add(route["to"])
                    say(f"  a: {route['to']} via {route['via']}, metric {route['metric']}")
            return wanted <= there

        self.wait("a knows every address and network of the mesh", 30, condition)

    def goes_via(self, via, low, high, seconds):
        def condition():
            route = self.route("a", f"{TARGET}/32")
            rtt = self.pinger.rtt()
            return route is not None and route["via"] == via and rtt is not None and low <= rtt <= high

        self.wait(f"a reaches c via {via}, ping between {low} and {high} ms", seconds, condition)
        say(f"  ping {TARGET}: {self.pinger.rtt():.1f} ms")

    def b_dies(self):
        self.pinger.mark()
        os.kill(self.processes["b"].pid, signal.SIGKILL)
        self.processes["b"].wait()
        say("b killed (SIGKILL)")
        self.wait("a has noticed: no route to b is left", 30,
                  lambda: (self.route("a", "10.66.0.2/32") or {"via": "unreachable"})["via"] == "unreachable")
        answered, missed = self.pinger.since_mark()
        say(f"  meanwhile a to c: {answered} pings answered, {missed} lost")
        if answered < 5 or missed > 1:
            raise Failed("the traffic between a and c stopped when b died")

    def b_returns(self):
        self.start_node("b")
        say("b started again")
        self.sessions_up(["b", "a"])
        self.wait("a pings b over the mesh", 20, lambda: subprocess.run(
            ["ip", "netns", "exec", namespace("a"), "ping", "-qc1", "-W1", "10.66.0.2"],
            capture_output=True).returncode == 0)

    def play(self):
        self.build_world()
        self.write_configurations()
        for node in NODES:
            self.start_node(node)
        say("three daemons started")
        self.sessions_up(list(NODES))
        self.routes_learned()
        self.pinger = Pinger()
        self.goes_via("b", 75, 110, 20)
        run(self.delay_link, "set", str(STATE / "ac.link"), "delay=2")
        say("link a-c made fast: 2 ms one way")
        self.goes_via("c", 3.5, 15, 40)
        self.b_dies()
        self.b_returns()
        print(f"\n$ wattle status    # of a, which says: {self.status_code()}")
        print(self.status_text, flush=True)

    def status_code(self):
        done = subprocess.run([self.wattle, "status", "--socket", str(STATE / "a.sock")], capture_output=True, text=True)
        self.status_text = done.stdout
        if done.returncode != 0:
            raise Failed(f"wattle status of a exits with {done.returncode}:\n{done.stdout}{done.stderr}")
        return "all is well"


class Pinger:
    """`ping` from a to c that runs all the time."""

    def __init__(self):
        self.process = subprocess.Popen(
            ["ip", "netns", "exec", namespace("a"), "ping", "-i", "0.2", "-O", "-W", "2", TARGET],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, bufsize=1)
        self.lock = threading.Lock()
        self.replies = []
        self.marked = 0
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            found = re.search(r"icmp_seq=(\d+) ttl=\d+ time=([\d.]+) ms", line)
            if found:
                with self.lock:
                    self.replies.append((int(found[1]), float(found[2]), time.monotonic()))

    def rtt(self):
        """The median of the last five replies, if they are fresh."""
        with self.lock:
            last = [rtt for _, rtt, at in self.replies[-5:] if time.monotonic() - at < 3]
        return statistics.median(last) if len(last) == 5 else None

    def mark(self):
        with self.lock:
            self.marked = self.replies[-1][0]

    def since_mark(self):
        """How many pings since the mark were answered, and how many between them were not."""
        with self.lock:
            numbers = [number for number, _, _ in self.replies if number > self.marked]
        return len(numbers), (numbers[-1] - self.marked - len(set(numbers)) if numbers else 0)

    def stop(self):
        self.process.terminate()
        self.process.wait()


def down(binaries):
    ours = {os.path.realpath(binaries / name) for name in ("wattle", "delay-link")}
    try:
        pids = [int(line) for line in (STATE / "pids").read_text().split()]
    except (OSError, ValueError):
        pids = []
    for pid in pids:
        try:
            if os.readlink(f"/proc/{pid}/exe").removesuffix(" (deleted)") in ours:
                os.kill(pid, signal.SIGTERM)
        except OSError:
            pass  # it has ended already
    time.sleep(0.5)
    for node in NODES:
        subprocess.run(["ip", "netns", "del", namespace(node)], capture_output=True)
    shutil.rmtree(STATE, ignore_errors=True)
    print("the demo is down")


def main():
    options = set(sys.argv[2:])
    if len(sys.argv) < 2 or not options <= {"--keep", "--down"} or len(options) > 1:
        print(__doc__, file=sys.stderr)
        return 2
    binaries = Path(sys.argv[1]).resolve()
    if "--down" in options:
        down(binaries)
        return 0
    demo = Demo(binaries, "--keep" in options)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(1))
    kept = False
    try:
        demo.play()
        kept = demo.keep
        say("every step happened")
    except Failed as failure:
        say(f"FAILED: {failure}")
        for node in NODES:
            print(f"--- last log lines of {node}:\n{demo.last_words(node, 12)}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 1
    finally:
        if kept:
            demo.pinger.stop()
        else:
            demo.clean_up()
    if kept:
        print(f"""
The routers stay up:
  ip netns exec {namespace('a')} ping {TARGET}
  {demo.wattle} status --socket {STATE}/a.sock
  {demo.delay_link} set {STATE}/ac.link delay=132
  scripts/demo --down        takes everything down""")
    return 0


sys.exit(main())

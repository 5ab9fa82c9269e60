"""Routers in network namespaces, for the live tests: real kernels' sockets, a real TUN device, the real binary.

Everything a lab makes carries its own name and is gone when it closes: namespaces, devices, processes (by pid), files.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BINARY = Path(os.environ.get("WATTLE", ROOT / "target" / "release" / "wattle"))
DELAY_LINK = BINARY.with_name("delay-link")


def run(*command, check=True, **options):
    """Runs a command and returns its output; a failure shows what it said."""
    done = subprocess.run([str(part) for part in command], text=True, capture_output=True, **options)
    if check and done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, command))}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return done


def wait_for(what, condition, seconds=10.0, every=0.1):
    """Polls until the condition holds and returns what it returned."""
    end = time.monotonic() + seconds
    while True:
        result = condition()
        if result:
            return result
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds} s: {what}")
        time.sleep(every)


class Lab:
    """A set of namespaces and the processes in them. Use it in a `with` statement."""

    def __init__(self, name):
        self.prefix = f"wt{os.getpid()}{name}"
        self.folder = Path(tempfile.mkdtemp(prefix=f"{self.prefix}-"))
        self.namespaces = []
        self.processes = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in self.processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(5)
            if process.poll() is None:
                process.kill()
                process.wait()
        for namespace in self.namespaces:
            run("ip", "netns", "del", namespace, check=False)
        if not os.environ.get("WATTLE_KEEP"):
            shutil.rmtree(self.folder, ignore_errors=True)

    def namespace(self, name):
        full = f"{self.prefix}{name}"
        run("ip", "netns", "add", full)
        self.namespaces.append(full)
        run("ip", "-n", full, "link", "set", "lo", "up")
        return full

    def veth(self, a, b, a_addresses, b_addresses, name="eth0"):
        """Joins two namespaces by a veth pair with these addresses."""
        run("ip", "-n", a, "link", "add", name, "type", "veth", "peer", "name", name, "netns", b)
        for namespace, addresses in ((a, a_addresses), (b, b_addresses)):
            run("ip", "netns", "exec", namespace, "sysctl", "-qw", f"net.ipv6.conf.{name}.accept_dad=0")
            for address in addresses:
                run("ip", "-n", namespace, "addr", "add", address, "dev", name)
            run("ip", "-n", namespace, "link", "set", name, "up")

    def delay_link(self, a, a_name, b, b_name, **settings):
        """Joins two namespaces by a line with a delay, and returns its control: a function that changes the settings."""
        control = self.folder / f"{a_name}-{b_name}.link"
        log = self.folder / f"{a_name}-{b_name}.log"
        words = lambda settings: [f"{key}={value}" for key, value in settings.items()]
        with open(log, "wb") as output:
            self.processes.append(subprocess.Popen(
                [DELAY_LINK, "run", a, a_name, b, b_name, "--control", control, *words(settings)],
                stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT))
        wait_for(f"the line {a_name} to {b_name}", lambda: "ready" in log.read_text(), 5)
        return lambda **changed: run(DELAY_LINK, "set", control, *words(changed))

    def spawn(self, namespace, *command, log=None, **options):
        output = open(log, "wb") if log else subprocess.DEVNULL
        process = subprocess.Popen(
            ["ip", "netns", "exec", namespace, *map(str, command)],
            stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, **options)
        if log:
            output.close()
        self.processes.append(process)
        return process

    def ping(self, namespace, target, count=3, deadline=8, source=None):
        """Pings and returns how many answers came."""
        more = ["-I", source] if source else []
        done = run("ip", "netns", "exec", namespace, "ping", "-n", "-c", count, "-i", "0.2", "-w", deadline, *more, target,
                   check=False)
        for line in done.stdout.splitlines():
            if "received" in line:
                return int(line.split(",")[1].split()[0])
        return 0

    def reach(self, namespace, target, seconds=10):
        """Waits until a ping is answered: routes come a moment after sessions."""
        wait_for(f"{target} answers", lambda: self.ping(namespace, target, count=1, deadline=1), seconds)


class Router:
    """A wattle daemon in a namespace."""

    def __init__(self, lab, namespace, name, **config):
        self.lab, self.namespace, self.name = lab, namespace, name
        self.folder = lab.folder / name
        self.folder.mkdir()
        self.log = self.folder / "log"
        self.socket = self.folder / "wattle.sock"
        self.process = None
        run(BINARY, "keygen", self.folder / "key")
        self.config = {"name": name, "private_key": "key", "control": str(self.socket), "nodes": [], **config}

    @property
    def public_key(self):
        return json.loads(run(BINARY, "pubkey", "--json", self.folder / "key").stdout)["public_key"]

    @property
    def file(self):
        file = self.folder / "wattle.json"
        file.write_text(json.dumps(self.config, indent=2))
        return file

    def start(self, *options, ready=True):
        self.process = self.lab.spawn(self.namespace, BINARY, "run", *options, "--config", self.file, log=self.log)
        if ready:
            wait_for(f"{self.name} answers", lambda: self.socket.exists() and self.status() is not None, 5)
        return self

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(5)
        return self.process.returncode

    def status(self):
        done = run(BINARY, "status", "--json", "--socket", self.socket, check=False)
        return json.loads(done.stdout) if done.stdout.strip() else None

    def peer(self, name):
        status = self.status()
        return next((peer for peer in status["peers"] if peer["name"] == name), None) if status else None

    def drops(self):
        return {drop["reason"]: drop["count"] for drop in self.status()["drops"]}

    def wait_up(self, name, seconds=10):
        return wait_for(f"{self.name} has {name} up: {self.peer(name)}",
                        lambda: (self.peer(name) or {}).get("state") == "up", seconds)

    @property
    def log_text(self):
        return self.log.read_text(errors="replace")


def pair(lab, **extra):
    """Two routers a and b on one wire, a dials b; not started."""
    names = {}
    for name, other in (("a", "b"), ("b", "a")):
        number = 1 if name == "a" else 2
        names[name] = Router(lab, lab.namespace(name), name, tun={
            "name": "wattle0", "addresses": [f"10.66.0.{number}/32", f"fd66::{number}/128"]}, **extra)
    a, b = names["a"], names["b"]
    lab.veth(a.namespace, b.namespace, ["192.0.2.1/24", "2001:db8::1/64"], ["192.0.2.2/24", "2001:db8::2/64"])
    a.config["nodes"] = [{"name": "b", "public_key": b.public_key, "endpoints": ["192.0.2.2:4500"]}]
    b.config["nodes"] = [{"name": "a", "public_key": a.public_key}]
    return a, b

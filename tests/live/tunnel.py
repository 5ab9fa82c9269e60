"""A tunnel between wattle and strongSwan: either may dial; what goes through it is measured, what both say of it compared."""

import contextlib
import re
import signal
import subprocess
import time
from dataclasses import dataclass

import peers
from lab import BINARY, Router, run, wait_for

OURS, THEIRS = "wattle.example", "swan.example"
OUTER = {4: ("192.0.2.1", "192.0.2.2"), 6: ("2001:db8::1", "2001:db8::2")}
INNER = {"wattle": ("10.66.0.1", "fd66::1"), "swan": ("10.66.0.2", "fd66::2")}
# Words of strongSwan's log, and what proposals call them.
WORDS = {
    "AES_GCM_16_256": "aes256gcm16", "AES_GCM_16-256": "aes256gcm16", "AES_GCM_16_128": "aes128gcm16",
    "AES_GCM_16-128": "aes128gcm16", "CHACHA20_POLY1305": "chacha20poly1305", "CHACHA20_POLY1305_256": "chacha20poly1305",
    "PRF_HMAC_SHA2_256": "prfsha256", "PRF_HMAC_SHA2_384": "prfsha384", "PRF_HMAC_SHA2_512": "prfsha512",
    "CURVE_25519": "x25519", "ML_KEM_512": "mlkem512", "ML_KEM_768": "mlkem768", "ML_KEM_1024": "mlkem1024",
}
EVERY = 0.02


def words(suite):
    """`AES_GCM_16_256/PRF_HMAC_SHA2_256/CURVE_25519/KE1_ML_KEM_768` as a proposal is written."""
    parts = []
    for word in suite.split("/"):
        if word == "NO_EXT_SEQ":
            continue
        place, name = re.fullmatch(r"(KE\d_)?(.*)", word).groups()
        parts.append((place or "").lower() + WORDS.get(name, name))
    return "-".join(parts)


class Pings:
    """Pings both ways every 20 ms, IPv4 one way and IPv6 the other."""

    def __init__(self, tunnel):
        self.tunnel, self.running, self.logs = tunnel, [], []

    def __enter__(self):
        lab = self.tunnel.lab
        for name, namespace, target in (("out", self.tunnel.ours.namespace, INNER["swan"][0]),
                                        ("back", self.tunnel.theirs.namespace, INNER["wattle"][1])):
            log = lab.folder / f"pings-{name}-{len(list(lab.folder.glob('pings-*')))}"
            # Their own process group: the interrupt is for ping, not for `ip netns exec`, which is replaced by it.
            self.running.append(lab.spawn(namespace, "ping", "-n", "-D", "-i", EVERY, "-W", 2, target, log=log))
            self.logs.append(log)
        return self

    def __exit__(self, *_):
        for process in self.running:
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
        for process in self.running:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(3)

    def answers(self):
        """For each way, when which ping was answered."""
        found = [re.findall(r"^\[([\d.]+)\] .*icmp_seq=(\d+) .*time=", log.read_text(), re.MULTILINE) for log in self.logs]
        return [[(float(at), int(number)) for at, number in way] for way in found]

    def stop(self):
        """Ends them; returns how many were sent and how many of them got no answer.

        The last second counts by what came after it: nothing is in flight for longer.
        """
        time.sleep(1)
        ends = [way[-1][1] if way else 0 for way in self.answers()]
        self.__exit__()
        sent = [int(re.search(r"(\d+) packets transmitted", log.read_text()).group(1)) for log in self.logs]
        for total, end in zip(sent, ends):
            assert total - end < 1 / EVERY + 25, f"pings end before the tunnel's end: {end} of {total} answered"
        lost = [end - len({number for _, number in way if number <= end}) for end, way in zip(ends, self.answers())]
        return sum(ends), sum(lost)

    def recovery(self, since, limit):
        """Seconds from `since` until pings are answered in a row, both ways."""
        return max(wait_for(f"pings are answered again\n{self.tunnel.story()}", lambda: self._steady(way, since), limit, 0.2)
                   for way in range(len(self.logs))) - since

    def _steady(self, way, since):
        answers = [(at, number) for at, number in self.answers()[way] if at >= since]
        for (at, number), (_, later) in zip(answers, answers[25:]):
            if later - number == 25:
                return at
        return None


@dataclass
class Agreed:
    """What both ends say of the session."""
    ike: str
    esp: str


class Tunnel:
    def __init__(self, lab, dials, wattle=(), swan=(), outer=4, node=(), swan_ids=(THEIRS, OURS), listen=4500):
        self.lab, self.dials, self.outer = lab, dials, OUTER[outer]
        wattle, swan = dict(wattle), dict(swan)
        self.ours = Router(lab, lab.namespace("w"), OURS, listen=wattle.pop("listen", [4500]), **wattle,
                           tun={"name": "wattle0", "addresses": [f"{INNER['wattle'][0]}/32", f"{INNER['wattle'][1]}/128"]})
        self.theirs = peers.Charon(lab, lab.namespace("s"), THEIRS)
        for namespace, number in ((self.ours.namespace, 1), (self.theirs.namespace, 2)):
            assert OUTER[4][number - 1].endswith(str(number)), namespace
        lab.veth(self.ours.namespace, self.theirs.namespace, [f"{OUTER[4][0]}/24", f"{OUTER[6][0]}/64"],
                 [f"{OUTER[4][1]}/24", f"{OUTER[6][1]}/64"])
        entry = {"name": THEIRS, "public_key": self.theirs.make_key(), "routes": [f"{INNER['swan'][0]}/32", f"{INNER['swan'][1]}/128"],
                 **dict(node)}
        if dials == "wattle":
            host = f"[{self.outer[1]}]" if outer == 6 else self.outer[1]
            entry["endpoints"] = [f"{host}:{listen}"]
        self.ours.config["nodes"] = [entry]
        child = {"dpd_action": "start", "close_action": "start", **swan.pop("child", {})} if dials == "swan" \
            else swan.pop("child", {})
        pem = run(BINARY, "pubkey", "--pem", self.ours.folder / "key").stdout
        self.theirs.configure(
            pem, (self.outer[1], swan_ids[0]), (self.outer[0], swan_ids[1]),
            connection={"keyingtries": 0, **swan.pop("connection", {})}, child=child,
            daemon={"retransmit_tries": 3, "retransmit_timeout": "1.0", "retransmit_base": "1.4", **swan.pop("daemon", {})})
        assert not swan, swan

    def start(self, up=True):
        self.start_swan()
        self.ours.start("--log", "info,wattle::ike=debug")
        if self.dials == "swan":
            self.initiate()
        if up:
            self.wait_up()
        return self

    def start_swan(self):
        self.theirs.start([f"{INNER['swan'][0]}/32", f"{INNER['swan'][1]}/128"],
                          [f"{INNER['wattle'][0]}/32", f"{INNER['wattle'][1]}/128"])

    def initiate(self, check=False):
        return self.theirs.ctl("--initiate", "--child", "net", "--timeout", "10", check=check)

    def wait_up(self, seconds=10):
        wait_for(f"the tunnel is up: {self.ours.peer(THEIRS)}", lambda: (self.ours.peer(THEIRS) or {}).get("state") == "up",
                 seconds)
        for namespace, target in ((self.ours.namespace, INNER["swan"][0]), (self.theirs.namespace, INNER["wattle"][1])):
            self.lab.reach(namespace, target, seconds)

    def pings(self):
        return Pings(self)

    def rekey(self, who, what):
        """`what` is `child` or `ike`; returns when both ends have the new SA and no other."""
        before = self.spis(what)
        if who == "wattle":
            run(BINARY, "rekey", THEIRS, "--ike" if what == "ike" else "--data", "--socket", self.ours.socket)
        else:
            self.theirs.ctl("--rekey", *(("--ike", "peer") if what == "ike" else ("--child", "net")))
        wait_for(f"{who} has rekeyed: {before}, now {self.spis(what)}",
                 lambda: (now := self.spis(what)) and now != before and len(now) == 1, 12)

    def spis(self, what):
        """Of the IKE SAs or the Child SAs that stand, as wattle says."""
        sas = [sa for sa in self.sas() if sa["established"]]
        if what == "ike":
            return [(sa["spi_initiator"], sa["spi_responder"]) for sa in sas]
        return [(child["spi_in"], child["spi_out"]) for sa in sas for child in sa["children"] if child["role"] != "leaving"]

    def sas(self):
        import json
        done = run(BINARY, "sas", "--json", "--socket", self.ours.socket, check=False)
        return json.loads(done.stdout)["sas"] if done.stdout.strip() else []

    def agreement(self, seconds=15):
        """Waits until both ends show the same SAs, and no others, and returns their suites as strongSwan says them."""
        return wait_for(f"both ends show the same SAs\n{self.story()}", self._agreement, seconds)

    def _agreement(self):
        text = self.theirs.ctl("--list-sas").stdout
        ike = re.findall(r"^peer: #\d+, ESTABLISHED, IKEv2, ([0-9a-f]{16})_i\*? ([0-9a-f]{16})_r\*?$", text, re.MULTILINE)
        suites = re.findall(r"^  ([A-Z0-9_\-]+/PRF_\S+)$", text, re.MULTILINE)
        children = re.findall(r"^  net: #\d+, reqid \d+, INSTALLED, TUNNEL-in-UDP, ESP:(\S+)$", text, re.MULTILINE)
        into = [int(spi, 16) for spi in re.findall(r"^    in +([0-9a-f]{8}),", text, re.MULTILINE)]
        out = [int(spi, 16) for spi in re.findall(r"^    out +([0-9a-f]{8}),", text, re.MULTILINE)]
        sas = [sa for sa in self.sas() if sa["established"]]
        same = (len(sas) == len(ike) == len(children) == 1 and len(sas[0]["children"]) == 1
                and (sas[0]["spi_initiator"], sas[0]["spi_responder"]) == ike[0]
                and (sas[0]["children"][0]["spi_out"], sas[0]["children"][0]["spi_in"]) == (into[0], out[0])
                and words(suites[0]) == sas[0]["suite"] and words(children[0]) == sas[0]["children"][0]["suite"])
        return Agreed(words(suites[0]), words(children[0])) if same else None

    def chosen(self, protocol):
        """The proposals that strongSwan's log says were selected, in order."""
        return [words(suite) for suite in re.findall(rf"selected proposal: {protocol}:(\S+)", self.theirs.log_text)]

    def story(self):
        """What a person needs who wants to know why a row fails."""
        sas = run(BINARY, "sas", "--socket", self.ours.socket, check=False).stdout
        swan = self.theirs.ctl("--list-sas", check=False).stdout if self.theirs.process.poll() is None else "(not running)"
        return (f"--- wattle sas\n{sas}--- swanctl --list-sas\n{swan}--- wattle's log\n{self.ours.log_text[-5000:]}"
                f"--- strongSwan's log\n{self.theirs.log_text[-6000:]}")

    def reason(self):
        return self.ours.peer(THEIRS)["reason"] or ""

    def freeze(self, who):
        self._signal(who, signal.SIGSTOP)

    def thaw(self, who):
        self._signal(who, signal.SIGCONT)

    def kill(self, who):
        self._signal(who, signal.SIGKILL)
        (self.ours if who == "wattle" else self.theirs).process.wait()

    def _signal(self, who, number):
        (self.ours if who == "wattle" else self.theirs).process.send_signal(number)

    def version(self):
        found = re.search(r"strongSwan (\d[\w.\-]*)", self.theirs.log_text)
        return found.group(1).rstrip(",") if found else "?"

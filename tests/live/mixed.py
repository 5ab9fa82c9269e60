"""A mesh of wattle, BIRD and babeld, as docs/interop.md describes it: its files are read from there and run."""

import json
import re
import shlex
from dataclasses import dataclass

import peers
from lab import BINARY, ROOT, Router, run, wait_for

DOCUMENT = ROOT / "docs" / "interop.md"
ADDRESS = {"riga": "192.0.2.1", "oslo": "192.0.2.2", "bern": "192.0.2.3"}
LANS = {"oslo": ["10.78.0.1/24", "fd78::1/64"], "bern": ["10.79.0.1/24", "fd79::1/64"]}


def files():
    """The fenced blocks of the document that name a machine and a file, by (machine, file)."""
    blocks = re.findall(r"^```\w+ (\w+):(\S+)\n(.*?)^```$", DOCUMENT.read_text(), re.MULTILINE | re.DOTALL)
    return {(machine, file): text for machine, file, text in blocks}


def on_bern(text):
    """The document gives oslo's file and says what is different on bern."""
    return text.replace(ADDRESS["oslo"], ADDRESS["bern"]).replace("id = oslo", "id = bern")


@dataclass(frozen=True)
class Entry:
    """A selected route, or one that is announced: what every member says in words of its own."""
    router_id: str
    seqno: int
    metric: int
    via: str | None


def key(to, source):
    """A prefix and its source; every source is written as none."""
    return to, None if source in (None, "::/0", "0.0.0.0/0") else source


class Riga:
    """The wattle node."""

    def __init__(self, lab):
        self.lab, self.namespace, self.name = lab, lab.namespace("riga"), "riga"
        config = json.loads(files()["riga", "/etc/wattle/wattle.json"])
        config["private_key"] = "key"
        self.router = Router(lab, self.namespace, "riga", **{k: v for k, v in config.items() if k != "name"})
        self.router.config["nodes"] = []
        self.all_nodes = {node["name"]: node for node in config["nodes"]}
        self.start, self.log_text = self.router.start, None

    def meets(self, member):
        self.router.config["nodes"].append({**self.all_nodes[member.name], "public_key": member.public_key})

    def pem(self):
        return run(BINARY, "pubkey", "--pem", self.router.folder / "key").stdout

    def routes(self):
        return {key(route["to"], route["from"]): Entry(
                    route["router_id"], route["seqno"], route["metric"], None if route["via"] == "local" else route["via"])
                for route in self.router.status()["routes"] if route["selected"] and route["metric"] != 0xffff}

    def neighbours(self):
        """(cost, round-trip time in ms) by name."""
        return {neighbour["peer"]: (neighbour["cost"], (neighbour["rtt_us"] or 0) / 1000)
                for neighbour in self.router.status()["neighbours"]}


class Foreign:
    """A machine with strongSwan towards riga, if `tunnel`, and with BIRD (oslo) or babeld (bern)."""

    def __init__(self, lab, name):
        self.lab, self.name, self.namespace = lab, name, lab.namespace(name)
        texts = files()
        self.charon = peers.Charon(lab, self.namespace, name)
        self.public_key = self.charon.make_key()
        self.swanctl = texts["oslo", "/etc/swanctl/swanctl.conf"]
        if name == "bern":
            self.swanctl = on_bern(self.swanctl)
        self.strongswan = texts["oslo", "/etc/strongswan.conf"]
        self.setup = texts[name, "setup"]
        lab.veth(self.namespace, lab.namespace(f"{name}-lan"), LANS[name], [], name="home0")

    def start(self, riga):
        self.charon.take("riga", riga.pem(), self.swanctl, self.strongswan)
        self.charon.start()
        for line in self.setup.strip().splitlines():
            run("ip", "netns", "exec", self.namespace, *shlex.split(line))
        self.speaker.start()

    def other_end(self, device):
        return "riga" if device == "ipsec0" else {"oslo": "bern", "bern": "oslo"}[self.name]


class Oslo(Foreign):
    def __init__(self, lab):
        super().__init__(lab, "oslo")
        self.speaker = peers.Bird(lab, self.namespace, files()["oslo", "/etc/bird/bird.conf"])

    def routes(self):
        devices = {}
        for to, source, words in self.rows("routes"):
            device, flag = words[1], words[3]
            if flag == "*":
                devices[to, source] = self.other_end(device)
        return {(to, source): Entry(words[0], int(words[2]), int(words[1]), devices.get((to, source)))
                for to, source, words in self.rows("entries") if words[0] != "<none>"}

    def rows(self, what):
        """The prefix, its source, and the other columns."""
        for line in self.speaker.show("babel", what).splitlines():
            words = line.split()
            if words and "/" in words[0]:
                specific = words[1] == "from"
                yield *key(words[0], words[2] if specific else None), words[3:] if specific else words[1:]

    def neighbours(self):
        rows = [line.split() for line in self.speaker.show("babel", "neighbors").splitlines()]
        return {self.other_end(row[1]): (int(row[2]), float(row[7])) for row in rows if row and row[0].startswith("fe80:")}


class Bern(Foreign):
    def __init__(self, lab):
        super().__init__(lab, "bern")
        run("ip", "-n", self.namespace, "-6", "route", "add", "default", "from", "fd79::/64", "via", "fd79::2", "dev", "home0",
            "proto", "static")
        self.speaker = peers.Babeld(lab, self.namespace, files()["bern", "/etc/babeld.conf"])

    def routes(self):
        text = self.speaker.tables()
        own = re.search(r"^My id (\S+) seqno (\d+)", text, re.MULTILINE)
        entries = {}
        for to, source, metric in re.findall(r"^(\S+) from (\S+) metric (\d+) \(exported\)", text, re.MULTILINE):
            entries[key(to, source)] = Entry(own[1], int(own[2]), int(metric), None)
        learned = r"^(\S+) from (\S+) metric (\d+) .*? id (\S+) seqno (\d+) .*? via (\S+) neigh \S+ .*\(installed\)"
        for to, source, metric, router_id, seqno, device in re.findall(learned, text, re.MULTILINE):
            entries[key(to, source)] = Entry(router_id, int(seqno), int(metric), self.other_end(device))
        return entries

    def neighbours(self):
        found = {}
        for words in self.speaker.dump():
            if words[:2] == ["add", "neighbour"]:
                facts = dict(zip(words[3::2], words[4::2]))
                found[self.other_end(facts["if"])] = int(facts["cost"]), float(facts.get("rtt", 0))
        return found


def disagreements(members, tolerance):
    """Where the tables contradict each other: each route goes on at its next hop, with the same source and seqno, and costs the
    link more than there."""
    tables = {member.name: member.routes() for member in members}
    costs = {member.name: member.neighbours() for member in members}
    wrong = []
    everything = set().union(*tables.values())
    for name, table in tables.items():
        wrong += [f"{name} has no route to {to}" for to in everything - set(table)]
        for to, entry in table.items():
            if entry.via is None:
                if entry.metric != 0:
                    wrong.append(f"{name} announces {to} with {entry.metric}")
                continue
            there = tables[entry.via].get(to)
            if there is None:
                continue
            if (there.router_id, there.seqno) != (entry.router_id, entry.seqno):
                wrong.append(f"{to}: {name} has {entry}, its next hop {there}")
            expected = there.metric + costs[name][entry.via][0]
            if abs(entry.metric - expected) > tolerance:
                wrong.append(f"{to}: {name} has {entry}, the next hop's {there.metric} and the link make {expected}")
    return wrong


def world(lab, delays):
    """riga, oslo and bern with lines of these delays (milliseconds one way); a line that is not named is not there."""
    riga, oslo, bern = Riga(lab), Oslo(lab), Bern(lab)
    lines = {}
    for name, member in (("oslo", oslo), ("bern", bern)):
        if name in delays:
            lines[name] = lab.delay_link(riga.namespace, f"to-{name}", member.namespace, "to-riga", delay=delays[name])
            for here, there, device, at in ((riga.name, name, f"to-{name}", riga), (name, riga.name, "to-riga", member)):
                run("ip", "-n", at.namespace, "addr", "add", ADDRESS[here], "peer", f"{ADDRESS[there]}/32", "dev", device)
            riga.meets(member)
    if "lan0" in delays:
        lines["lan0"] = lab.delay_link(oslo.namespace, "lan0", bern.namespace, "lan0", delay=delays["lan0"])
    for member in (oslo, bern):
        member.start(riga)
    riga.start()
    return riga, oslo, bern, lines

"""A model of a router for the RouterOS scripts: its tables, what a container does in time, and what it refuses."""

import json
import re
from pathlib import Path

import rsc

TABLE = json.loads((Path(__file__).resolve().parent / "routeros_names.json").read_text())
SETTINGS = ("/system/resource", "/system/routerboard", "/system/device-mode", "/ip/dns", "/ipv6/settings", "/container/config")
READS = ("find", "get", "print")


class Router:
    """`states`: whether a container's state is the property "status" or "flags"; `lacks`: menus that this router has not."""

    def __init__(self, version, scripts, states="flags", lacks=()):
        menus = {
            menu: entry for menu, entry in TABLE["menus"].items() if not any(menu == lack or menu.startswith(lack + "/") for lack in lacks)
        }
        self.names = rsc.Names(menus, version)
        self.scripts, self.states = scripts, states
        self.globals, self.said, self.changes, self.clock, self.serial = {}, [], [], 0, 0
        # The number of the change that fails, if one shall.
        self.fails_at = None
        self.never_stops = self.never_unpacks = self.exits_at_once = False
        self.settings = {menu: {} for menu in SETTINGS}
        self.settings["/system/resource"] = {
            "version": f"{version}.1 (stable)",
            "architecture-name": "arm64",
            "board-name": "hAP ax^3",
            "free-memory": 600 << 20,
        }
        self.settings["/system/routerboard"] = {"model": "C53UiG+5HPaxD2HPaxD"}
        self.settings["/system/device-mode"] = {"container": True}
        self.settings["/ip/dns"] = {"servers": [], "dynamic-servers": ["192.0.2.53", "192.0.2.54"], "allow-remote-requests": True}
        self.settings["/ipv6/settings"] = {"disable-ipv6": False}
        self.settings["/container/config"] = {"tmpdir": ""}
        self.tables = {menu: [] for menu in TABLE["menus"] if menu not in SETTINGS}
        self.fill("/system/package", {"name": "routeros", "disabled": False}, {"name": "container", "disabled": False})
        self.fill("/interface/list", {"name": "LAN"}, {"name": "WAN"})
        self.fill("/disk", {"slot": "usb1", "fs": "ext4"})
        self.fill("/file", {"name": "wattle-1.2.3-arm64.tar"}, {"name": "usb1/wattle/wattle.json"})
        self.fill("/interface", {"name": "ether1"}, {"name": "bridge"})
        self.fill("/ip/address", {"address": "192.168.88.1/24", "interface": "bridge"})
        self.fill(
            "/ip/firewall/filter",
            {"chain": "forward", "action": "passthrough", "dynamic": True},
            {"chain": "input", "action": "drop", "dynamic": False},
        )
        self.fill(
            "/ip/firewall/filter",
            {"chain": "forward", "action": "fasttrack-connection", "dynamic": False},
            {"chain": "forward", "action": "drop", "dynamic": False},
        )
        self.fill("/ip/firewall/nat", {"chain": "srcnat", "action": "masquerade", "dynamic": False, "disabled": False})
        self.changes.clear()

    def fill(self, menu, *records):
        for record in records:
            self.serial += 1
            self.tables[menu].append({".id": f"*{self.serial:X}", **record})

    def run(self, name):
        rsc.Interpreter(self).run(self.script(name))

    def script(self, name):
        return self.scripts[name]

    def put(self, text):
        self.said += text.splitlines()

    def wait(self, seconds):
        self.clock += seconds

    def state(self):
        """Everything that a script could have changed, without the numbers of the records."""
        tables = {
            menu: [{k: v for k, v in record.items() if k not in (".id", "since")} for record in records]
            for menu, records in self.tables.items()
        }
        return json.dumps([tables, self.settings], sort_keys=True, default=str)

    def execute(self, menu, verb, arguments, options, where):
        if menu == "/container":
            self.age()
        if verb not in READS:
            if self.fails_at == len(self.changes):
                self.changes.append(("failed", menu, verb))
                raise rsc.ScriptError(f"failure: {menu}/{verb} was made to fail")
            self.changes.append((menu, verb, options))
        if verb == "print":
            return None
        if menu in self.settings:
            return self.setting(menu, verb, arguments, options)
        if verb == "find":
            return [record[".id"] for record in self.tables[menu] if all(self.fits(menu, record, *condition) for condition in where)]
        if verb == "get":
            return self.shown(menu, self.record(menu, arguments[0])).get(arguments[1])
        return {"add": self.add, "remove": self.remove, "start": self.start, "stop": self.stop}[verb](menu, arguments, options)

    def setting(self, menu, verb, arguments, options):
        if verb == "get":
            if arguments[0] not in self.settings[menu]:
                raise rsc.ScriptError("no such value here")
            return self.settings[menu][arguments[0]]
        return self.settings[menu].update(options)

    def fits(self, menu, record, name, operator, value):
        have = self.shown(menu, record).get(name)
        if operator is None:
            return have is True
        if name in ("disabled", "dynamic") and have is None:
            have = False
        if operator == "~":
            return bool(re.search(value, rsc.text(have)))
        return (have == value) == (operator == "=")

    def record(self, menu, which):
        which = which[0] if isinstance(which, list) else which
        return next((record for record in self.tables[menu] if record[".id"] == which), None) or self.missing()

    def missing(self):
        raise rsc.ScriptError("no such item")

    def add(self, menu, _, options):
        record = {name: value for name, value in options.items() if name != "place-before"}
        place = len(self.tables[menu])
        if "place-before" in options:
            place = self.tables[menu].index(self.record(menu, options["place-before"]))
            if self.tables[menu][place].get("dynamic"):
                raise rsc.ScriptError("cannot be moved before a builtin rule")
        if menu == "/interface/veth":
            self.fill("/interface", {"name": record["name"], "comment": record["comment"]})
        elif "interface" in record and not any(known["name"] == record["interface"] for known in self.tables["/interface"]):
            raise rsc.ScriptError("input does not match any value of interface")
        if menu == "/container":
            self.must_be_complete(record)
            record |= {"state": "extracting", "since": self.clock}
        self.serial += 1
        self.tables[menu].insert(place, {".id": f"*{self.serial:X}", **record})

    def must_be_complete(self, record):
        """What RouterOS looks up when a container is added: its lists have to be there under the names of this version."""
        for option, menu in {"envlist": "envs", "envlists": "envs", "mounts": "mounts", "mountlists": "mounts"}.items():
            records = self.tables[f"/container/{menu}"]
            if option in record and not any(record[option] in (known.get("list"), known.get("name")) for known in records):
                raise rsc.ScriptError(f"input does not match any value of {option}")
        if "file" in record and not any(file["name"] == record["file"] for file in self.tables["/file"]):
            raise rsc.ScriptError("no such file")

    def remove(self, menu, arguments, _):
        for which in arguments[0]:
            record = self.record(menu, which)
            if menu == "/container" and record["state"] != "stopped":
                raise rsc.ScriptError("cannot be removed while it runs")
            if menu == "/container":
                record |= {"state": "deleting", "since": self.clock}
                continue
            self.tables[menu].remove(record)
            if menu == "/interface/veth":
                self.tables["/interface"] = [known for known in self.tables["/interface"] if known["name"] != record["name"]]

    def start(self, menu, arguments, _):
        record = self.record(menu, arguments[0])
        if record["state"] != "stopped":
            raise rsc.ScriptError("not stopped")
        record |= {"state": "starting", "since": self.clock}

    def stop(self, menu, arguments, _):
        record = self.record(menu, arguments[0])
        if record["state"] != "running":
            raise rsc.ScriptError("not running")
        record |= {"state": "stopping", "since": self.clock}

    def age(self):
        later = {"extracting": "stopped", "starting": "running", "stopping": "stopped", "deleting": None}
        # Seconds. A slow USB stick takes minutes to unpack; a container gets 10 s to stop.
        lasts = {"extracting": 200, "starting": 3, "stopping": 10, "deleting": 30}
        for record in list(self.tables["/container"]):
            if record["state"] not in later or self.clock < record["since"] + lasts[record["state"]]:
                continue
            if (self.never_unpacks and record["state"] == "extracting") or (self.never_stops and record["state"] == "stopping"):
                continue
            record["state"] = later[record["state"]]
            if record["state"] == "running" and self.exits_at_once:
                record["state"] = "stopped"
            if record["state"] is None:
                self.tables["/container"].remove(record)

    def shown(self, menu, record):
        """With a container's state as this version shows it."""
        if menu != "/container":
            return record
        return record | ({"status": record["state"]} if self.states == "status" else {record["state"]: True})


def with_settings(script, **settings):
    """The script as a person has edited it: the values of its first :local lines."""
    for name, value in settings.items():
        text = str(value) if isinstance(value, int) else f'"{value}"'
        script, count = re.subn(f"^:local {name} .*$", f":local {name} {text}", script, count=1, flags=re.MULTILINE)
        assert count == 1, name
    return script

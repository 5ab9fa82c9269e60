"""The RouterOS scripts: every name in them against the versions that have it, and what they do to a model of a router.

Nothing here is RouterOS. The model knows what is in routeros_names.json and routers.py, and no more."""

import json
import re
import subprocess
import tempfile
import unittest
from pathlib import Path

import machines
import rsc
from machines import ROOT
from routers import TABLE, Router, with_settings

SCRIPTS = {path.name: path.read_text() for path in sorted((ROOT / "routeros").glob("*.rsc"))}
VERSIONS = TABLE["versions"]
SIX = {"routerAddress6": "2001:db8:88:57::1", "containerAddress6": "2001:db8:88:57::2"}


def router(version="7.21", states="flags", lacks=(), **settings):
    scripts = SCRIPTS | {"install.rsc": with_settings(SCRIPTS["install.rsc"], **settings)}
    return Router(version, scripts, states, lacks)


def installed(version="7.21", states="flags", **settings):
    device = router(version, states, **settings)
    device.run("install.rsc")
    return device


class Names(unittest.TestCase):
    def test_every_script_is_parsed_by_every_version(self):
        for version in VERSIONS:
            for name, text in SCRIPTS.items():
                with self.subTest(version=version, script=name):
                    parser = rsc.Parser(text, rsc.Names(TABLE["menus"], version))
                    parser.script()
                    self.assertTrue(parser.commands)

    def test_scripts_parse_without_the_container_package(self):
        """Whoever lacks the package has to be told so: by a script that is parsed on such a router."""
        for version in VERSIONS:
            for name in SCRIPTS:
                device = router(version, lacks=("/container", "/interface/veth"))
                rsc.Parser(SCRIPTS[name], device.names).script()

    def test_plain_text(self):
        """WinBox and terminals know ASCII; a question mark asks a terminal for help."""
        for text in SCRIPTS.values():
            self.assertTrue(text.isascii())
            self.assertFalse(set("?\t\r") & set(text))

    def test_no_variable_has_the_name_of_a_property(self):
        """In `find where name=$name` RouterOS takes the property for the variable, and everything is found."""
        properties = {name for entry in TABLE["menus"].values() for kind in ("settable", "readable") for name in entry.get(kind, {})}
        for name, text in SCRIPTS.items():
            parser = rsc.Parser(text, rsc.Names(TABLE["menus"], "7.24"))
            parser.script()
            self.assertEqual(set(parser.variables) & properties, set(), name)

    def test_every_name_used_is_used_with_a_meaning(self):
        """The table is not wider than what stands in it: a wrong option is refused on each side of its range."""
        for version, command in {
            "7.19": "/container/add envlists=a",
            "7.20": "/container/add envlist=a",
            "7.21": "/container/add mounts=a",
            "7.18": "/container/add name=a",
            "7.22": "/container/add restart-policy=always",
            "7.23": "/container/add auto-restart-interval=30s",
            "7.10": "/interface/veth/add gateway6=fd00::1",
            "7.24": "/container/mounts/add name=a",
        }.items():
            with self.subTest(command), self.assertRaises(rsc.SyntaxProblem):
                rsc.Parser(command, rsc.Names(TABLE["menus"], version)).script()
        for command in ("/container/add nonsense=1", "/ip/nonsense/add a=b", "/ip/route/nonsense", "/ip/route/find where nonsense=1"):
            with self.subTest(command), self.assertRaises(rsc.SyntaxProblem):
                rsc.Parser(command, rsc.Names(TABLE["menus"], "7.24")).script()

    def test_one_unknown_option_would_stop_the_whole_script(self):
        device = router("7.19")
        device.scripts["wrong.rsc"] = ':put "first"\n/container/add envlists=a\n'
        with self.assertRaises(rsc.SyntaxProblem):
            device.run("wrong.rsc")
        self.assertEqual(device.said, [])


class Install(unittest.TestCase):
    def test_every_version_ends_with_a_running_container(self):
        for version in VERSIONS:
            for states in ("status", "flags"):
                with self.subTest(version=version, states=states):
                    device = installed(version, states)
                    [container] = device.tables["/container"]
                    self.assertEqual(container["state"], "running")
                    self.assertIn("wattle: running.", device.said[-1])

    def test_each_version_gets_its_own_words(self):
        words = {
            "7.6": {"envlist", "mounts"},
            "7.19": {"envlist", "mounts", "name"},
            "7.20": {"envlists", "mounts", "name", "auto-restart-interval"},
            "7.21": {"envlists", "mountlists", "name", "auto-restart-interval"},
            "7.22": {"envlists", "mountlists", "name", "auto-restart-interval"},
            "7.23": {"envlists", "mountlists", "name", "restart-policy", "restart-interval", "memory-max"},
            "7.24": {"envlists", "mountlists", "name", "restart-policy", "restart-interval", "memory-max"},
        }
        common = {"file", "interface", "root-dir", "hostname", "dns", "logging", "start-on-boot", "comment", ".id", "state", "since"}
        for version, own in words.items():
            with self.subTest(version):
                device = installed(version)
                self.assertEqual(set(device.tables["/container"][0]) - common, own)
                [env], [mount] = device.tables["/container/envs"], device.tables["/container/mounts"]
                minor = int(version.split(".")[1])
                self.assertEqual(env["list" if minor >= 20 else "name"], "wattle")
                self.assertEqual(mount["list" if minor >= 21 else "name"], "wattle")
                self.assertEqual((mount["src"], mount["dst"]), ("usb1/wattle", "/etc/wattle"))

    def test_ipv6_gateway_reaches_the_container_as_text(self):
        for version in ("7.19", "7.24"):
            device = installed(version, **SIX)
            values = {entry["key"]: entry["value"] for entry in device.tables["/container/envs"]}
            self.assertEqual(values["WATTLE_GATEWAY6"], SIX["routerAddress6"])

    def test_network(self):
        device = installed()
        self.assertEqual(device.tables["/interface/veth"][0]["address"], "172.31.255.2/30")
        self.assertEqual(device.tables["/ip/address"][-1]["address"], "172.31.255.1/30")
        self.assertEqual(device.tables["/interface/list/member"][0]["list"], "LAN")
        forward = next(rule for rule in device.tables["/ip/firewall/nat"] if rule["chain"] == "dstnat")
        self.assertEqual(
            (forward["dst-port"], forward["to-addresses"], forward["to-ports"], forward["in-interface-list"]),
            (4501, "172.31.255.2", 4501, "WAN"),
        )
        # Before the rules of the administrator, after the router's own.
        chain = [rule for rule in device.tables["/ip/firewall/filter"] if rule["chain"] == "forward"]
        self.assertEqual(
            [rule.get("comment") or rule["action"] for rule in chain], ["passthrough", "wattle", "fasttrack-connection", "drop"]
        )
        self.assertEqual(device.tables["/routing/rule"][0]["src-address"], "172.31.255.2/32")
        self.assertEqual(device.tables["/routing/rule"][0]["action"], "lookup-only-in-table")
        [route] = device.tables["/ip/route"]
        self.assertEqual((route["dst-address"], route["gateway"], route["check-gateway"]), ("10.66.0.0/16", "172.31.255.2", "ping"))
        self.assertEqual(device.tables["/ipv6/address"], [])

    def test_everything_is_marked(self):
        device = installed("7.24", **SIX)
        before = router("7.24", **SIX)
        for menu, records in device.tables.items():
            known = [{k: v for k, v in record.items() if k != ".id"} for record in before.tables[menu]]
            for record in records:
                plain = {k: v for k, v in record.items() if k != ".id"}
                if plain not in known:
                    self.assertIn("wattle", (record.get("comment"), record.get("list"), record.get("name")), menu)

    def test_an_empty_firewall_and_several_or_no_routes(self):
        device = router(meshRoutes="10.66.0.0/16,192.168.7.0/24")
        device.tables["/ip/firewall/filter"].clear()
        device.run("install.rsc")
        self.assertEqual(len(device.tables["/ip/firewall/filter"]), 1)
        self.assertEqual([route["dst-address"] for route in device.tables["/ip/route"]], ["10.66.0.0/16", "192.168.7.0/24"])
        self.assertEqual(installed(meshRoutes="").tables["/ip/route"], [])

    def test_ipv6(self):
        device = installed("7.21", **SIX)
        self.assertEqual(device.tables["/interface/veth"][0]["gateway6"], "2001:db8:88:57::1")
        self.assertEqual(device.tables["/ipv6/address"][0]["address"], "2001:db8:88:57::1/64")
        self.assertEqual(device.tables["/ipv6/firewall/filter"][0]["dst-address"], "2001:db8:88:57::2/128")
        self.assertEqual(len(device.tables["/routing/rule"]), 2)

    def test_name_servers(self):
        self.assertEqual(installed().tables["/container"][0]["dns"], "172.31.255.1")
        device = router()
        device.settings["/ip/dns"]["allow-remote-requests"] = False
        device.run("install.rsc")
        self.assertEqual(device.tables["/container"][0]["dns"], "192.0.2.53,192.0.2.54")
        self.assertEqual(installed(nameServers="9.9.9.9").tables["/container"][0]["dns"], "9.9.9.9")

    def test_from_a_registry(self):
        device = router("7.24", imageName="registry.example/wattle:latest", wantPrivileged="yes")
        device.run("install.rsc")
        [container] = device.tables["/container"]
        self.assertEqual(container["remote-image"], "registry.example/wattle:latest")
        self.assertIs(container["privileged"], True)
        self.assertEqual(device.settings["/container/config"]["tmpdir"], "usb1/wattle-tmp")
        device = router("7.24", imageName="registry.example/wattle:latest")
        device.settings["/container/config"]["tmpdir"] = "usb1/pull"
        device.run("install.rsc")
        self.assertEqual(device.settings["/container/config"]["tmpdir"], "usb1/pull")

    def test_internal_flash(self):
        device = router(diskSlot="")
        device.fill("/file", {"name": "wattle/wattle.json"})
        device.run("install.rsc")
        self.assertEqual(device.tables["/container"][0]["root-dir"], "wattle-root")

    def test_an_image_that_does_not_unpack(self):
        device = router()
        device.never_unpacks = True
        with self.assertRaisesRegex(rsc.ScriptError, "unpacking the image"):
            device.run("install.rsc")
        self.assertTrue(300 <= device.clock < 400)

    def test_a_container_that_exits_at_once(self):
        device = router()
        device.exits_at_once = True
        with self.assertRaisesRegex(rsc.ScriptError, "starting the container"):
            device.run("install.rsc")


class Preflight(unittest.TestCase):
    """Whatever is wrong, install.rsc says so and changes nothing; check.rsc says the same."""

    def refused(self, said, change=lambda device: None, version="7.21", lacks=(), **settings):
        for script in ("install.rsc", "check.rsc"):
            device = router(version, lacks=lacks, **settings)
            change(device)
            before = device.state()
            with self.assertRaisesRegex(rsc.ScriptError, "nothing was changed"):
                device.run(script)
            self.assertEqual(device.changes, [])
            self.assertEqual(device.state(), before)
            self.assertRegex("\n".join(device.said), said)
            self.assertLessEqual(max(len(line) for line in device.said), 160, device.said)

    def test_check_changes_nothing_when_all_is_well(self):
        for version in VERSIONS:
            device = router(version)
            before = device.state()
            device.run("check.rsc")
            self.assertEqual((device.changes, device.state()), ([], before))
            self.assertIn("preflight passed", device.said[-1])
            self.assertIsNone(device.globals["wattleMode"])

    def test_version(self):
        def old(device):
            device.settings["/system/resource"]["version"] = "7.5 (stable)"

        def other(device):
            device.settings["/system/resource"]["version"] = "6.49.10 (long-term)"

        self.refused("7.6 or later is needed", old)
        self.refused("7.6 or later is needed", other)

    def test_beta_versions_are_read(self):
        for text in ("7.22beta3 (testing)", "7.22rc1 (testing)", "7.22 (stable)", "7.22"):
            device = router("7.22")
            device.settings["/system/resource"]["version"] = text
            device.run("install.rsc")
            self.assertIn("auto-restart-interval", device.tables["/container"][0])

    def test_container_package(self):
        self.refused("container package is missing", lacks=("/container", "/interface/veth"))
        self.refused("container package is missing", lambda device: device.tables["/system/package"].pop())

    def test_device_mode(self):
        self.refused("device mode forbids", lambda device: device.settings["/system/device-mode"].update(container=False))
        # Versions differ in whether they answer with a word or a truth value.
        device = router()
        device.settings["/system/device-mode"]["container"] = "yes"
        device.run("check.rsc")

    def test_architecture(self):
        self.refused("containers run on", lambda device: device.settings["/system/resource"].update({"architecture-name": "mmips"}))

    def test_image_for_the_board(self):
        boards = {
            ("arm64", "hAP ax^3", "C53UiG"): "arm64",
            ("x86_64", "CHR", None): "amd64",
            ("arm", "RB4011iGS+", "RB4011iGS+"): "arm-v7",
            ("arm", "hEX refresh", "E50UG"): "arm-v5",
            ("arm", "hEX S", "E60iUGS"): "arm-v5",
            ("arm", "hAP ax S", "unknown"): "arm-v5",
        }
        for (architecture, board, model), image in boards.items():
            with self.subTest(board):
                device = router()
                device.tables["/file"].pop(0)
                device.fill(
                    "/file", *({"name": f"usb1/wattle-1.2.3-{other}.tar"} for other in ("amd64", "arm64", "arm-v5", "arm-v7", "oci"))
                )
                device.settings["/system/resource"] |= {"architecture-name": architecture, "board-name": board}
                # No RouterBOARD has no model to ask for.
                device.settings["/system/routerboard"] = {"model": model} if model else {}
                device.run("check.rsc")
                self.assertIn(f"image for {image}", device.said[-1])
                self.assertNotIn("note", device.said[0])
                device.scripts["install.rsc"] = with_settings(SCRIPTS["install.rsc"], imageFile="wattle-other.tar")
                device.fill("/file", {"name": "wattle-other.tar"})
                device.said.clear()
                device.run("check.rsc")
                self.assertIn(f"needs an image for {image}:", "\n".join(device.said))

    def test_memory(self):
        self.refused("memory are free", lambda device: device.settings["/system/resource"].update({"free-memory": 20 << 20}))

    def test_image_and_configuration(self):
        self.refused("image wattle-VERSION-arm64.tar is not on the router", lambda device: device.tables["/file"].pop(0))
        self.refused("mine.tar is not on the router", imageFile="mine.tar")
        self.refused("several images for arm64", lambda device: device.fill("/file", {"name": "wattle-0.2.0-arm64.tar"}))
        self.refused("there is no usb1/wattle/wattle.json", lambda device: device.tables["/file"].pop(1))
        self.refused("either imageFile or imageName", imageFile="wattle-1.2.3-arm64.tar", imageName="wattle:latest")

    def test_disk(self):
        self.refused("there is no disk usb1", lambda device: device.tables["/disk"].clear())
        self.refused("fat32, on which containers fail", lambda device: device.tables["/disk"][0].update(fs="fat32"))
        self.refused("gone after a reboot", lambda device: device.tables["/disk"][0].update(fs="tmpfs"))

    def test_names_and_addresses(self):
        self.refused("1 to 14 characters", tag="wattle-of-the-branch")
        self.refused("no interface list LAN", lambda device: device.tables["/interface/list"].pop(0))
        self.refused("no interface list uplinks", wanList="uplinks")
        self.refused("an interface wattle already", lambda device: device.fill("/interface", {"name": "wattle"}))
        self.refused("has the address 172.31.255.1", lambda device: device.fill("/ip/address", {"address": "172.31.255.1/30"}))

    def test_ports(self):
        for port in (4501, "4501"):
            self.refused(
                "forwarded elsewhere",
                lambda device, port=port: device.fill("/ip/firewall/nat", {"chain": "dstnat", "protocol": "udp", "dst-port": port}),
            )
        self.refused("own IPsec", lambda device: device.fill("/ip/ipsec/peer", {"name": "branch"}), meshPort=4500)
        router(meshPort=4500).run("check.rsc")

    def test_name_servers(self):
        def none(device):
            device.settings["/ip/dns"] = {"servers": [], "dynamic-servers": [], "allow-remote-requests": False}

        self.refused("no name server", none)

    def test_ipv6(self):
        self.refused("needs 7.11", version="7.10", **SIX)
        self.refused("both IPv6 addresses or none", routerAddress6="fd00::1")
        self.refused("IPv6 is turned off", lambda device: device.settings["/ipv6/settings"].update({"disable-ipv6": True}), **SIX)

    def test_twice(self):
        device = installed()
        before = device.state()
        with self.assertRaises(rsc.ScriptError):
            device.run("install.rsc")
        self.assertEqual(device.state(), before)
        self.assertIn("installed already", "\n".join(device.said))

    def test_all_problems_at_once(self):
        device = router(wanList="uplinks")
        device.tables["/disk"].clear()
        device.settings["/system/device-mode"]["container"] = False
        with self.assertRaises(rsc.ScriptError):
            device.run("install.rsc")
        self.assertEqual(sum(line.startswith("- ") for line in device.said), 3)


class Uninstall(unittest.TestCase):
    def test_leaves_the_router_as_it_was(self):
        for version in VERSIONS:
            for states in ("status", "flags"):
                for settings in ({}, SIX):
                    if settings and rsc.number(version) < (7, 11):
                        continue
                    with self.subTest(version=version, states=states, ipv6=bool(settings)):
                        device = installed(version, states, **settings)
                        device.run("uninstall.rsc")
                        self.assertEqual(device.state(), router(version, states).state())

    def test_after_an_installation_that_failed_anywhere(self):
        count = len(installed("7.24", **SIX).changes)
        self.assertGreater(count, 12)
        for version in ("7.19", "7.24"):
            for fails_at in range(count):
                with self.subTest(version=version, fails_at=fails_at):
                    device = router(version, **SIX)
                    device.fails_at = fails_at
                    with self.assertRaisesRegex(rsc.ScriptError, "wattle: failed at"):
                        device.run("install.rsc")
                    self.assertIn("uninstall.rsc removes", device.said[-1])
                    device.fails_at = None
                    device.run("uninstall.rsc")
                    self.assertEqual(device.state(), router(version).state())
                    device.run("install.rsc")

    def test_of_nothing_removes_nothing(self):
        for lacks in ((), ("/container", "/interface/veth")):
            device = router(lacks=lacks)
            before = device.state()
            device.run("uninstall.rsc")
            self.assertEqual(device.state(), before)

    def test_a_container_that_does_not_stop(self):
        device = installed()
        device.never_stops = True
        with self.assertRaisesRegex(rsc.ScriptError, "does not stop"):
            device.run("uninstall.rsc")
        # Its network is still there: half a removal would be worse.
        self.assertTrue(device.tables["/interface/veth"])

    def test_others_stay(self):
        device = installed()
        for menu in ("/ip/firewall/nat", "/ip/firewall/filter", "/ip/route", "/routing/rule", "/container/envs"):
            device.fill(menu, {"comment": "mine", "list": "mine", "chain": "forward"})
        device.run("uninstall.rsc")
        for menu in ("/ip/firewall/nat", "/ip/firewall/filter", "/ip/route", "/routing/rule", "/container/envs"):
            self.assertEqual(device.tables[menu][-1]["comment"], "mine")


class Update(unittest.TestCase):
    def test_only_the_container_is_made_anew(self):
        for version in VERSIONS:
            for states in ("status", "flags"):
                with self.subTest(version=version, states=states):
                    device = installed(version, states)
                    old = device.tables["/container"][0][".id"]
                    before = device.state()
                    device.changes.clear()
                    device.run("update.rsc")
                    self.assertEqual(device.state(), before)
                    self.assertNotEqual(device.tables["/container"][0][".id"], old)
                    self.assertEqual({menu for menu, _, _ in device.changes}, {"/container"})
                    self.assertIsNone(device.globals["wattleMode"])

    def test_the_new_image_is_there_before_the_old_one_goes(self):
        device = installed()
        device.tables["/file"].pop(0)
        before = device.state()
        with self.assertRaisesRegex(rsc.ScriptError, "nothing was changed"):
            device.run("update.rsc")
        self.assertEqual(device.state(), before)

    def test_nothing_to_update(self):
        device = router()
        with self.assertRaises(rsc.ScriptError):
            device.run("update.rsc")
        self.assertIn("nothing to update", "\n".join(device.said))
        self.assertEqual(device.changes, [])

    def test_a_container_that_has_stopped(self):
        device = installed()
        device.tables["/container"][0]["state"] = "stopped"
        device.run("update.rsc")
        self.assertEqual(device.tables["/container"][0]["state"], "running")


class Documents(unittest.TestCase):
    def test_names_in_the_manual_are_known_to_the_newest_version(self):
        text = (ROOT / "docs/routeros.md").read_text()
        blocks = re.findall(r"```routeros\n(.*?)```", text, re.DOTALL)
        self.assertTrue(blocks)
        for block in blocks:
            rsc.Parser(block, rsc.Names(TABLE["menus"], "7.24")).script()

    def test_settings_in_the_manual_are_those_of_the_script(self):
        settings = re.search(r"# ---- settings -+\n(.*?)# ---- preflight", SCRIPTS["install.rsc"], re.DOTALL)[1]
        names = re.findall(r"^:local (\w+)", settings, re.MULTILINE)
        listed = re.findall(r"^\| `(\w+)` \|", (ROOT / "docs/routeros.md").read_text(), re.MULTILINE)
        self.assertEqual([name for name in listed if name in names], names)

    def test_each_step_that_can_fail_has_its_cure_in_the_manual(self):
        steps = re.findall(r':set step "([^"(:]+)', SCRIPTS["install.rsc"])
        self.assertGreater(len(steps), 10)
        text = (ROOT / "docs/routeros.md").read_text()
        for step in steps:
            self.assertIn(f"`{step.strip()}`", text)

    def test_example_agrees_with_the_script(self):
        example = json.loads((ROOT / "routeros/wattle.example.json").read_text())
        self.assertEqual(example["listen"], [4501])
        self.assertIn("172.31.255.0/30", [entry["to"] for entry in example["announce"]])

    @unittest.skipUnless(machines.RELEASE.exists(), "there is no release binary (target/release/wattle or WATTLE)")
    def test_example_is_a_configuration(self):
        with tempfile.TemporaryDirectory() as folder:
            example = Path(folder) / "wattle.json"
            example.write_bytes((ROOT / "routeros/wattle.example.json").read_bytes())
            subprocess.run([machines.RELEASE, "keygen", Path(folder) / "node.key"], check=True, capture_output=True)
            run = subprocess.run([machines.RELEASE, "check", example], capture_output=True, text=True, check=False)
            self.assertEqual(run.returncode, 0, run.stdout + run.stderr)


if __name__ == "__main__":
    unittest.main()

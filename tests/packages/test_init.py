"""The init script, the rpcd plugin and the package scripts, run by busybox ash in a root of their own with recording stand-ins.

WATTLE_GOLDEN=1 writes the records in golden/ anew: read the difference before committing it."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import readers
from machines import BY_TARGET, RELEASE, ROOT

sys.path.insert(0, str(ROOT / "scripts"))
from openwrt_packages import apk, contents, ipk  # noqa: E402

HERE = Path(__file__).resolve().parent
FILES = ROOT / "openwrt/wattle/files"
CHROOT = shutil.which("chroot", path="/usr/sbin:/sbin:/usr/bin:/bin")
BINARY = BY_TARGET["aarch64-unknown-linux-musl"]
# local is everywhere on OpenWrt; the shebang names rc.common, and what it and the functions define is not in the script.
EXCLUDED = "SC3043,SC2034,SC2154,SC1008,SC2239,SC1091"


class Shell(unittest.TestCase):
    @unittest.skipUnless(shutil.which("shellcheck") and shutil.which("busybox"), "shellcheck or busybox is missing")
    def test_shellcheck(self):
        with tempfile.TemporaryDirectory() as folder:
            package = contents.package(BINARY, "aarch64_generic")
            scripts = {f"apk.{name}": text for name, text in readers.Apk(apk.build(package)).scripts.items()}
            scripts |= {f"ipk.{name}": data.decode() for name, (_, data) in readers.Ipk(ipk.build(package)).scripts.items()}
            for path in (FILES / "wattle.init", FILES / "wattle.rpcd", FILES.parent / "test.sh"):
                scripts[path.name] = path.read_text()
            for name, text in scripts.items():
                with self.subTest(name):
                    path = Path(folder) / name
                    path.write_text(text)
                    run = subprocess.run(["shellcheck", "-s", "dash", "-e", EXCLUDED, path], capture_output=True, text=True, check=False)
                    self.assertEqual(run.stdout, "")
                    self.assertEqual(subprocess.run(["busybox", "ash", "-n", path], check=False).returncode, 0)

    def test_no_function_exits(self):
        # The post-upgrade script runs start inside its own shell's child; what exits there has broken others' upgrades.
        code = [line.partition("#")[0] for line in (FILES / "wattle.init").read_text().splitlines()]
        self.assertFalse([line for line in code if re.search(r"\bexit\b", line)])

    def test_the_manual_has_every_option(self):
        read = set(re.findall(r"config_(?:get|get_bool|list_foreach) (?:\w+ )?main (\w+)", (FILES / "wattle.init").read_text()))
        manual = set(re.findall(r"^\| `(\w+)`(?: \(list\))? \|", (ROOT / "docs/openwrt.md").read_text(), re.MULTILINE))
        sample = set(re.findall(r"(?:option|list) (\w+) '", (FILES / "wattle.config").read_text()))
        self.assertEqual(read, sample)
        self.assertEqual(read, manual)

    def test_shell_reads_no_json(self):
        for name in ("wattle.init", "wattle.rpcd"):
            self.assertNotRegex((FILES / name).read_text(), r"\b(jshn|jsonfilter|json_load|json_get_var|jq)\b")

    def test_json_files_are_json(self):
        capabilities = json.loads((FILES / "wattle.capabilities").read_text())
        self.assertEqual(set(capabilities), {"bounding", "effective", "ambient", "permitted", "inheritable"})
        self.assertEqual({tuple(names) for names in capabilities.values()}, {("CAP_NET_ADMIN", "CAP_NET_BIND_SERVICE")})
        acl = json.loads((FILES / "wattle.acl").read_text())
        self.assertEqual(acl["wattle"]["read"], {"ubus": {"wattle": ["status"]}})
        self.assertNotIn("write", acl["wattle"])

    def test_everything_persistent_survives_sysupgrade(self):
        kept = (FILES / "wattle.keep").read_text().split()
        self.assertEqual(kept, ["/etc/wattle/"])
        self.assertTrue(re.search(r"'/etc/wattle/\w+\.json'", (FILES / "wattle.config").read_text()))


@unittest.skipUnless(os.getuid() == 0, "a root of its own needs root")
@unittest.skipUnless(shutil.which("busybox"), "busybox is missing")
class InRoot(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.root = Path(self.enterContext(tempfile.TemporaryDirectory()))
        for folder in ("bin", "dev", "etc/rc.d", "tmp", "var/run", "usr/bin", "usr/sbin", "usr/lib/opkg/info"):
            (self.root / folder).mkdir(parents=True)
        busybox = Path(shutil.which("busybox"))
        self.copy_program(busybox, "bin/busybox")
        for applet in ("sh", "cat", "cut", "echo", "grep", "ln", "md5sum", "mkdir", "printf", "rm", "sed", "sort", "tail", "touch"):
            (self.root / "bin" / applet).symlink_to("busybox")
        self.package = contents.package(BINARY, "aarch64_generic")
        self.apk, self.ipk = readers.Apk(apk.build(self.package)), readers.Ipk(ipk.build(self.package))
        self.unpack(self.apk)
        for source, path in {
            "functions.sh": "lib/functions.sh",
            "rc.common": "etc/rc.common",
            "logger": "usr/bin/logger",
            "wattle": "usr/sbin/wattle",
        }.items():
            shutil.copy(HERE / "standins" / source, self.root / path)
            (self.root / path).chmod(0o755)

    def copy_program(self, program, place):
        libraries = subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout
        for path in re.findall(r"(/\S+) \(0x", libraries):
            (self.root / path[1:]).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, self.root / path[1:])
        shutil.copy(program, self.root / place)

    def unpack(self, package):
        for path, (mode, data) in package.files.items():
            place = self.root / path[1:]
            if data is None:
                place.mkdir(parents=True, exist_ok=True)
            elif path != "/usr/sbin/wattle":
                place.write_bytes(data)
            if place.exists():
                place.chmod(mode)

    def run_in_root(self, *command, text=None, **environment):
        run = subprocess.run(
            [CHROOT, self.root, *command],
            input=text,
            capture_output=True,
            text=True,
            check=False,
            env={"PATH": "/bin:/usr/bin", **environment},
        )
        self.assertEqual(run.stderr, "", command)
        return run

    def service(self, action):
        return self.run_in_root("/etc/init.d/wattle", action).returncode

    def script(self, text, *arguments, **environment):
        (self.root / "tmp/script").write_text(text)
        run = self.run_in_root("/bin/sh", "/tmp/script", *arguments, **environment)
        self.assertEqual(run.returncode, 0, run.stderr)

    def uci(self, **changes):
        path = self.root / "etc/config/wattle"
        lines = [line for line in path.read_text().splitlines() if not any(f"option {name} " in line for name in changes)]
        lines += [f"\toption {name} '{value}'" for name, value in changes.items()]
        path.write_text("\n".join(lines) + "\n")

    @property
    def events(self):
        path = self.root / "tmp/procd/events"
        return path.read_text().splitlines() if path.exists() else []

    @property
    def record(self):
        return (self.root / "tmp/record").read_text()

    def golden(self, name):
        path = HERE / "golden" / name
        if os.environ.get("WATTLE_GOLDEN"):
            path.write_text(self.record)
        self.assertEqual(self.record, path.read_text())


class Service(InRoot):
    def test_disabled_by_default(self):
        self.assertEqual(self.service("start"), 0)
        self.assertEqual(self.events, [])
        self.golden("disabled.txt")

    def test_enabled(self):
        self.uci(enabled=1)
        self.assertEqual(self.service("start"), 0)
        self.assertEqual(len(self.events), 1)
        self.golden("enabled.txt")
        # The daemon's socket is where `wattle status` looks for it.
        self.assertEqual(os.readlink(self.root / "run"), "/var/run")

    def test_every_option(self):
        self.uci(
            enabled=1,
            log="debug",
            resolv_conf="/tmp/resolv.conf.d/resolv.conf.auto",
            zone="uplink",
            jail=1,
            config_file="/etc/wattle/other.json",
        )
        (self.root / "etc/wattle/other.json").write_text("{}")
        with (self.root / "etc/config/wattle").open("a") as file:
            file.write("\tlist port '4501'\n")
        (self.root / "sbin").mkdir()
        (self.root / "sbin/ujail").write_text("")
        (self.root / "sbin/ujail").chmod(0o755)
        self.service("start")
        self.golden("every-option.txt")

    def test_a_jail_without_ujail_is_none(self):
        self.uci(enabled=1, jail=1)
        self.service("start")
        self.golden("enabled.txt")

    def test_no_port_no_rule(self):
        path = self.root / "etc/config/wattle"
        path.write_text(path.read_text().replace("\tlist port '4500'\n", ""))
        self.uci(enabled=1)
        self.service("start")
        self.assertNotIn("json_add_object", self.record)

    def test_triggers(self):
        self.run_in_root("/etc/init.d/wattle", "service_triggers")
        self.assertEqual(self.record, "procd_add_reload_trigger 'wattle'\n")

    def test_a_wrong_configuration_does_not_start_and_says_why(self):
        self.uci(enabled=1)
        (self.root / "tmp/answer").write_text("wattle.json:3:3: name: missing\nwattle.json: 1 error\n")
        (self.root / "tmp/status").write_text("1")
        self.service("start")
        self.assertEqual(self.events, [])
        self.golden("wrong.txt")

    def test_a_wrong_configuration_leaves_the_running_daemon_alone(self):
        self.uci(enabled=1)
        self.service("start")
        (self.root / "tmp/status").write_text("1")
        (self.root / "etc/wattle/wattle.json").write_text("{")
        self.assertEqual(self.service("reload"), 1)
        self.assertEqual(len(self.events), 1)
        (self.root / "tmp/status").write_text("0")
        self.assertEqual(self.service("reload"), 0)
        self.assertEqual(len(self.events), 1)

    def test_reload_restarts_only_for_what_the_daemon_cannot_take_up_by_itself(self):
        self.uci(enabled=1)
        self.service("start")
        self.service("reload")
        (self.root / "etc/wattle/wattle.json").write_text('{"a":1}')
        self.service("reload")
        self.assertEqual(len(self.events), 1)
        self.uci(log="debug")
        self.service("reload")
        self.assertEqual(len(self.events), 2)
        self.uci(resolv_conf="/tmp/resolv.conf.d/resolv.conf.auto")
        self.service("reload")
        self.assertEqual(len(self.events), 3)

    def test_reload_stops_what_is_disabled(self):
        self.uci(enabled=1)
        self.service("start")
        self.uci(enabled=0)
        self.service("reload")
        self.assertEqual(self.events[1:], ["stopped"])


@unittest.skipUnless(RELEASE.exists(), "there is no release binary (target/release/wattle or WATTLE)")
class RealBinary(InRoot):
    """What the stand-in stands in for: as the owner of a router would do it."""

    def setUp(self):
        super().setUp()
        self.copy_program(RELEASE, "usr/sbin/wattle")

    def test_from_the_package_to_a_start(self):
        self.uci(enabled=1)
        # Without a key: the daemon makes it.
        self.service("start")
        self.assertEqual(len(self.events), 1)
        run = self.run_in_root("/usr/sbin/wattle", "keygen", "/etc/wattle/node.key")
        self.assertIn("public_key", run.stdout)
        self.assertEqual((self.root / "etc/wattle/node.key").stat().st_mode & 0o777, 0o600)
        self.assertNotIn("warning", self.run_in_root("/usr/sbin/wattle", "check", "/etc/wattle/wattle.json").stdout.partition("node.key")[2])
        (self.root / "etc/wattle/node.key").write_text("no key")
        self.assertEqual(self.service("reload"), 1)

    def test_a_misspelt_field_is_in_the_log_with_its_place(self):
        self.uci(enabled=1)
        (self.root / "etc/wattle/wattle.json").write_text('{\n  "nam": "a"\n}\n')
        self.service("start")
        self.assertEqual(self.events, [])
        self.assertIn("wattle.json:2:3: nam: unknown field", self.record)

    def test_no_daemon_for_rpcd(self):
        run = self.run_in_root("/usr/libexec/rpcd/wattle", "call", "status")
        self.assertEqual(json.loads(run.stdout), {"running": False})


class Upgrades(InRoot):
    def new_program(self):
        with (self.root / "usr/sbin/wattle").open("a") as file:
            file.write("# of the next version\n")

    def checksum(self):
        return subprocess.run(["md5sum", self.root / "usr/sbin/wattle"], capture_output=True, text=True, check=True).stdout[:8]

    def test_apk_upgrade_restarts_the_new_program(self):
        self.uci(enabled=1)
        self.script(self.apk.scripts["post-install"])
        self.assertEqual(self.events, [f"started {self.checksum()}"])
        self.new_program()
        self.script(self.apk.scripts["post-upgrade"])
        self.assertEqual(len(self.events), 2)
        self.assertEqual(self.events[1], f"started {self.checksum()}")

    def test_it_would_not_without_the_program_among_the_files(self):
        """That the test above can fail: what the other service scripts do leaves the old process."""
        init = self.root / "etc/init.d/wattle"
        init.write_text(init.read_text().replace('procd_set_param file "$PROG"', 'procd_set_param file "$config_file"'))
        self.uci(enabled=1)
        self.script(self.apk.scripts["post-install"])
        self.new_program()
        self.script(self.apk.scripts["post-upgrade"])
        self.assertEqual(len(self.events), 1)

    def test_opkg_upgrade_restarts_the_new_program(self):
        self.uci(enabled=1)
        shutil.copy(self.root / "lib/apk/packages/wattle.list", self.root / "usr/lib/opkg/info/wattle.list")
        shutil.rmtree(self.root / "lib/apk")
        scripts = {name: data.decode() for name, (_, data) in self.ipk.scripts.items()}
        self.script(scripts["postinst"], "configure")
        self.script(scripts["prerm"], "upgrade", PKG_UPGRADE="1")
        self.new_program()
        self.script(scripts["postinst"], "configure")
        self.assertEqual(len(self.events), 3)
        self.assertEqual(self.events[1:], ["stopped", f"started {self.checksum()}"])
        self.assertTrue((self.root / "etc/rc.d/S95wattle").is_symlink())

    def test_removal_stops_and_disables(self):
        self.uci(enabled=1)
        self.script(self.apk.scripts["post-install"])
        self.assertTrue((self.root / "etc/rc.d/S95wattle").is_symlink())
        self.script(self.apk.scripts["pre-deinstall"])
        self.assertEqual(self.events[1:], ["stopped"])
        self.assertEqual(list((self.root / "etc/rc.d").iterdir()), [])

    def test_image_builders_run_nothing(self):
        for text in (self.apk.scripts["post-install"], self.apk.scripts["post-upgrade"], self.ipk.scripts["postinst"][1].decode()):
            self.script(text, IPKG_NO_SCRIPT="1")
            self.script(text, IPKG_INSTROOT="/nowhere")
        self.assertEqual(self.events, [])


class Rpcd(InRoot):
    def call(self, *arguments):
        run = self.run_in_root("/usr/libexec/rpcd/wattle", *arguments)
        return json.loads(run.stdout) if run.stdout else run.returncode

    def test_list(self):
        self.assertEqual(self.call("list"), {"status": {}})

    def test_status(self):
        for status in ("0", "1"):
            (self.root / "tmp/answer").write_text('{\n  "schema": 1,\n  "peers": [ { "name": "a%s\\"" } ]\n}\n')
            (self.root / "tmp/status").write_text(status)
            self.assertEqual(self.call("call", "status"), {"running": True, "status": {"schema": 1, "peers": [{"name": 'a%s"'}]}})
        self.assertIn("wattle status --json", self.record)

    def test_nothing_runs(self):
        (self.root / "tmp/status").write_text("3")
        self.assertEqual(self.call("call", "status"), {"running": False})

    def test_other_methods(self):
        self.assertEqual(self.call("call", "reboot"), 1)


del InRoot

if __name__ == "__main__":
    unittest.main()

"""Both package formats and their feeds, as scripts/build-openwrt writes them, read by independent readers."""

import base64
import contextlib
import gzip
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import unittest
import zlib
from dataclasses import replace
from pathlib import Path

import machines
import readers
from machines import BY_TARGET, ROOT

sys.path.insert(0, str(ROOT / "scripts"))
from openwrt_packages import Refused, adb, apk, contents, elf, ipk  # noqa: E402

EPOCH = "1796000000"
ARM64 = BY_TARGET["aarch64-unknown-linux-musl"]
# What each machine's ELF header says at offset 4 (class), 18 (machine): by hand from the ELF specification, not by our reader.
HEADERS = {"x86_64": (2, 62), "aarch64": (2, 183), "arm": (1, 40), "mipsel": (1, 8)}
EXPECTED = {
    "/usr/sbin/wattle": 0o755,
    "/etc/init.d/wattle": 0o755,
    "/etc/config/wattle": 0o600,
    "/etc/wattle": 0o700,
    "/etc/wattle/wattle.json": 0o600,
    "/etc/capabilities/wattle.json": 0o644,
    "/lib/upgrade/keep.d/wattle": 0o644,
    "/usr/libexec/rpcd/wattle": 0o755,
    "/usr/share/rpcd/acl.d/wattle.json": 0o644,
}
CARGO_VERSION = tomllib.loads(ROOT.joinpath("Cargo.toml").read_text())["package"]["version"]
VERSION = f"{CARGO_VERSION}-r1"
CONFFILES = ["/etc/config/wattle", "/etc/wattle/wattle.json"]


def build(*arguments, out, binary=ARM64, epoch=EPOCH):
    """Runs the command as a person would."""
    path = Path(out) / "binary"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(binary)
    command = [ROOT / "scripts/build-openwrt", "--out", out, *arguments[:-1], path, *arguments[-1]]
    environment = {**os.environ, "SOURCE_DATE_EPOCH": epoch, "TZ": "Pacific/Apia", "LC_ALL": "C"}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


def make_keys(folder):
    folder = Path(folder)
    for name, kind in {"opkg": ["ed25519"], "apk": ["EC", "-pkeyopt", "ec_paramgen_curve:P-256"]}.items():
        subprocess.run(["openssl", "genpkey", "-algorithm", *kind, "-out", folder / name], check=True, capture_output=True)
    return ["--opkg-key", folder / "opkg", "--apk-key", folder / "apk"]


class Packages(unittest.TestCase):
    """Every architecture name, each with a program of its machine."""

    @classmethod
    def setUpClass(cls):
        cls.folder = cls.enterClassContext(tempfile.TemporaryDirectory())
        cls.packages = {}
        for target in contents.targets():
            run = build([], out=cls.folder, binary=BY_TARGET[target["rust"]])
            if run.returncode:
                raise AssertionError(run.stderr)
            for name in target["names"]:
                cls.packages[name] = (
                    BY_TARGET[target["rust"]],
                    readers.Ipk((Path(cls.folder) / f"ipk/{name}/wattle_{VERSION}_{name}.ipk").read_bytes()),
                    readers.Apk((Path(cls.folder) / f"apk/{name}/wattle-{VERSION}.apk").read_bytes()),
                )

    def test_there_is_one_for_every_name(self):
        listed = subprocess.run([ROOT / "scripts/build-openwrt", "--list"], capture_output=True, text=True, check=True).stdout
        names = {name for line in listed.splitlines() for name in line.split()[1:]}
        self.assertEqual(set(self.packages), names)
        self.assertGreaterEqual(len(names), 19)

    def test_architecture_is_that_of_the_elf_header(self):
        for name, (binary, opkg, apk3) in self.packages.items():
            with self.subTest(name):
                self.assertEqual(opkg.control["Architecture"], name)
                self.assertEqual(apk3.info["arch"], name)
                for package in (opkg, apk3):
                    packed = package.files["/usr/sbin/wattle"][1]
                    self.assertEqual(packed, binary)
                    wide, machine = HEADERS[name if name in HEADERS else name.split("_")[0]]
                    self.assertEqual((packed[4], packed[18]), (wide, machine))

    def test_files_and_their_modes(self):
        for name, (_, opkg, apk3) in self.packages.items():
            with self.subTest(name):
                for package in (opkg, apk3):
                    for path, mode in EXPECTED.items():
                        self.assertEqual(oct(package.files[path][0]), oct(mode), path)
                    others = set(package.files) - set(EXPECTED)
                    lists = {path for path in others if path.startswith("/lib/apk/packages/wattle.")}
                    self.assertEqual({package.files[path][:2] for path in others - lists}, {(0o755, None)}, "else directories only")
                same = {path: entry for path, entry in apk3.files.items() if not path.startswith("/lib/apk")}
                self.assertEqual(same, opkg.files)

    def test_what_opkg_reads(self):
        _, opkg, _ = self.packages["arm_cortex-a9"]
        self.assertEqual(opkg.control["Version"], VERSION)
        self.assertEqual(opkg.control["Depends"], "kmod-tun")
        self.assertEqual(opkg.conffiles, CONFFILES)
        self.assertEqual(set(opkg.scripts), {"postinst", "prerm"})
        self.assertEqual({mode for mode, _ in opkg.scripts.values()}, {0o755})

    def test_what_apk_reads(self):
        _, _, apk3 = self.packages["arm_cortex-a9"]
        self.assertEqual(apk3.info["version"], VERSION)
        self.assertEqual(apk3.info["depends"], [{"name": "kmod-tun"}])
        self.assertLessEqual(len(apk3.info["description"].encode()), 256)
        self.assertEqual(
            apk3.info["installed-size"], sum(len(data) for path, (_, data) in apk3.files.items() if data and "/lib/apk/" not in path)
        )
        self.assertEqual(set(apk3.scripts), {"post-install", "pre-deinstall", "post-upgrade"})
        listed = apk3.files["/lib/apk/packages/wattle.list"][1].decode().split()
        self.assertEqual(set(listed), {path for path in EXPECTED if path != "/etc/wattle"})
        self.assertEqual(apk3.files["/lib/apk/packages/wattle.conffiles"][1].decode().split(), CONFFILES)
        for line in apk3.files["/lib/apk/packages/wattle.conffiles_static"][1].decode().splitlines():
            path, digest = line.split()
            self.assertEqual(digest, hashlib.sha256(apk3.files[path][1]).hexdigest())

    def test_the_only_time_is_the_source_date(self):
        for name, (_, opkg, apk3) in self.packages.items():
            with self.subTest(name):
                self.assertEqual(opkg.times, {int(EPOCH)})
                self.assertEqual(apk3.times, {int(EPOCH)})
                self.assertEqual(apk3.info["build-time"], int(EPOCH))

    def test_texts_are_small(self):
        _, opkg, _ = self.packages["mipsel_24kc"]
        self.assertLess(sum(len(data) for path, (_, data) in opkg.files.items() if data and path != "/usr/sbin/wattle"), 12 << 10)

    def test_no_key_is_shipped(self):
        for _, opkg, apk3 in self.packages.values():
            for package in (opkg, apk3):
                self.assertFalse([path for path in package.files if path.endswith((".key", ".pem"))])
                self.assertFalse([path for path, (_, data) in package.files.items() if data and b"PRIVATE KEY" in data])


@unittest.skipUnless(shutil.which("openssl"), "openssl is missing")
class Feeds(unittest.TestCase):
    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.keys = make_keys(self.folder)

    @unittest.skipUnless(shutil.which("signify-openbsd"), "signify-openbsd is missing")
    def test_opkg_feed(self):
        run = build(*self.keys, ["aarch64_generic"], out=self.folder / "out")
        self.assertEqual(run.returncode, 0, run.stderr)
        feed = self.folder / "out/ipk/aarch64_generic"
        index = (feed / "Packages").read_bytes()
        stanza = readers.stanza(index.decode())
        octets = (feed / stanza["Filename"]).read_bytes()
        self.assertEqual(int(stanza["Size"]), len(octets))
        self.assertEqual(stanza["SHA256sum"], hashlib.sha256(octets).hexdigest())
        control = readers.Ipk(octets).control
        self.assertEqual({name: stanza[name] for name in control}, control)
        self.assertEqual(gzip.decompress((feed / "Packages.gz").read_bytes()), index)
        [public] = [path for path in (self.folder / "out/keys").iterdir() if re.fullmatch("[0-9a-f]{16}", path.name)]
        signature = (feed / "Packages.sig").read_bytes()
        readers.verify_signify(public.read_bytes(), index, signature)
        with self.assertRaises(readers.Bad):
            readers.verify_signify(public.read_bytes(), index + b"x", signature)
        # opkg looks for the key by the number in the signature, as the name of the file.
        self.assertEqual(base64.b64decode(signature.splitlines()[1])[2:10].hex(), public.name)

    def test_apk_feed(self):
        build(*self.keys, ["aarch64_generic"], out=self.folder / "out")
        feed = self.folder / "out/apk/aarch64_generic"
        index = readers.ApkIndex((feed / "packages.adb").read_bytes())
        pem = (self.folder / "out/keys/wattle.pem").read_bytes()
        index.verify(pem)
        [info] = index.packages
        octets = (feed / f"{info['name']}-{info['version']}.apk").read_bytes()
        package = readers.Apk(octets)
        self.assertEqual(info["file-size"], len(octets))
        self.assertEqual(info["hashes"], hashlib.sha256(package.adb.payload).digest())
        for name in ("name", "version", "arch", "depends", "installed-size", "description", "license"):
            self.assertEqual(info[name], package.info[name])
        other = Path(self.enterContext(tempfile.TemporaryDirectory()))
        make_keys(other)
        strange = subprocess.run(["openssl", "pkey", "-in", other / "apk", "-pubout"], capture_output=True, check=True).stdout
        with self.assertRaises(readers.Bad):
            index.verify(strange)

    def test_licences_beside_the_binary_are_packed(self):
        run = build(*self.keys, ["aarch64_generic"], out=self.folder / "out")
        self.assertIn("no THIRD-PARTY.txt", run.stderr)
        (self.folder / "out/THIRD-PARTY.txt").write_text("whose works\n")
        run = build(*self.keys, ["aarch64_generic"], out=self.folder / "out")
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        for package in (
            readers.Ipk((self.folder / f"out/ipk/aarch64_generic/wattle_{VERSION}_aarch64_generic.ipk").read_bytes()),
            readers.Apk((self.folder / f"out/apk/aarch64_generic/wattle-{VERSION}.apk").read_bytes()),
        ):
            self.assertEqual(package.files["/usr/share/doc/wattle/THIRD-PARTY.txt"], (0o644, b"whose works\n"))

    def test_private_keys_are_not_in_the_output(self):
        build(*self.keys, ["aarch64_generic"], out=self.folder / "out")
        for path in (self.folder / "out").rglob("*"):
            self.assertFalse(path.is_file() and b"PRIVATE KEY" in path.read_bytes(), path)

    def test_a_signature_of_an_earlier_build_goes(self):
        build(*self.keys, ["aarch64_generic"], out=self.folder / "out")
        run = build(["aarch64_generic"], out=self.folder / "out", epoch="1")
        self.assertIn("not every index is signed", run.stderr)
        self.assertFalse((self.folder / "out/ipk/aarch64_generic/Packages.sig").exists())
        self.assertEqual(readers.ApkIndex((self.folder / "out/apk/aarch64_generic/packages.adb").read_bytes()).adb.signatures, [])

    def test_keys_of_the_wrong_kind_are_refused(self):
        run = build("--opkg-key", self.folder / "apk", ["aarch64_generic"], out=self.folder / "out")
        self.assertEqual(run.returncode, 1)
        self.assertIn("is no Ed25519 key", run.stderr)
        run = build("--apk-key", self.folder / "opkg", ["aarch64_generic"], out=self.folder / "out")
        self.assertIn("is no P-256 key", run.stderr)

    def test_two_builds_are_the_same_octets(self):
        for place in ("one", "two"):
            build(*self.keys, [], out=self.folder / place)
        one = {path.relative_to(self.folder / "one"): path.read_bytes() for path in (self.folder / "one").rglob("*") if path.is_file()}
        two = {path.relative_to(self.folder / "two"): path.read_bytes() for path in (self.folder / "two").rglob("*") if path.is_file()}
        self.assertEqual(set(one), set(two))
        self.assertGreater(len(one), 20)
        version = subprocess.run(["openssl", "version"], capture_output=True, text=True, check=True).stdout.split()[1]
        deterministic = tuple(int(part) for part in version.split(".")[:2]) >= (3, 2)
        for path, data in one.items():
            if path.name == "packages.adb" and not deterministic:
                # ECDSA signatures of OpenSSL before 3.2 are random; what they sign is not.
                self.assertEqual(readers.ApkIndex(data).adb.payload, readers.ApkIndex(two[path]).adb.payload)
            else:
                self.assertEqual(data, two[path], path)


class Refusals(unittest.TestCase):
    """A package never promises what its binary cannot keep."""

    def refused(self, text, binary, names):
        with tempfile.TemporaryDirectory() as folder:
            run = build(names, out=Path(folder) / "out", binary=binary)
            self.assertEqual(run.returncode, 1, run.stdout)
            self.assertIn(text, run.stderr)
            self.assertFalse((Path(folder) / "out/ipk").exists())

    def test_another_machine(self):
        self.refused("arm_cortex-a9 cannot run", ARM64, ["arm_cortex-a9"])
        self.refused("x86_64 cannot run", BY_TARGET["mipsel-unknown-linux-musl"], ["x86_64"])

    def test_hard_float_on_a_cpu_without(self):
        # bcm53xx: it would start there and die of an illegal instruction.
        self.refused("arm_cortex-a9 cannot run", BY_TARGET["armv7-unknown-linux-musleabihf"], ["arm_cortex-a9_neon", "arm_cortex-a9"])

    def test_newer_instructions_on_an_older_cpu(self):
        self.refused("arm_xscale cannot run", BY_TARGET["armv7-unknown-linux-musleabi"], ["arm_xscale"])
        self.refused("arm_cortex-a9 cannot run", machines.arm(14, False), ["arm_cortex-a9"])

    def test_older_and_softer_is_fine(self):
        with tempfile.TemporaryDirectory() as folder:
            run = build(["arm_cortex-a9_neon"], out=folder, binary=BY_TARGET["armv5te-unknown-linux-musleabi"])
            self.assertEqual(run.returncode, 0, run.stderr)

    def test_all_and_unknown_names(self):
        self.refused("all is not an architecture", ARM64, ["all"])
        self.refused("noarch is not an architecture", ARM64, ["noarch"])

    def test_dynamic(self):
        self.refused("linked dynamically", machines.program(183, True, interpreter=True), ["aarch64_generic"])

    def test_no_program(self):
        self.refused("not an ELF file", b"#!/bin/sh\n" * 20, ["x86_64"])
        self.refused("object file", machines.program(62, True, kind=1), ["x86_64"])
        self.refused("no OpenWrt machine", machines.program(8, False, little=False), ["mipsel_24kc"])
        self.refused("does not say which ARM", machines.program(40, False), ["arm_cortex-a9"])

    def test_damage_is_refused_never_a_crash(self):
        for whole in BY_TARGET.values():
            for cut in range(0, len(whole), 3):
                for damaged in (whole[:cut], whole[:cut] + b"\xff" + whole[cut + 1 :]):
                    with contextlib.suppress(Refused):
                        elf.identify(damaged)


class Versions(unittest.TestCase):
    def version(self, cargo, mark):
        return replace(contents.package(ARM64, "aarch64_generic"), cargo_version=cargo).version(mark)

    def test_pre_releases(self):
        self.assertEqual(self.version("1.20.3", "_"), "1.20.3-r1")
        self.assertEqual(self.version("1.0.0-rc.2", "_"), "1.0.0_rc2-r1")
        self.assertEqual(self.version("1.0.0-rc.2", "~"), "1.0.0~rc2-r1")
        self.assertEqual(self.version("1.0.0-alpha", "_"), "1.0.0_alpha-r1")

    def test_what_apk_does_not_know_is_refused(self):
        for wrong in ("1.0.0-dev.1", "1.0", "1.0.0-rc.1.2", "1.0.0+git"):
            with self.subTest(wrong), self.assertRaises(Refused):
                self.version(wrong, "_")


class Database(unittest.TestCase):
    """The writer of apk's database format, at its edges."""

    def test_every_size_of_value_comes_back(self):
        for text in ("", "a", "b" * 255, "c" * 256, "d" * 65535, "e" * 65536):
            payload, _ = adb.encode({1: text, 2: "x"})
            reader = readers.Adb(adb.file(b"test", payload))
            self.assertEqual(reader.text(reader.object(reader.root, ["text", "x"])["text"]), text)
        for number in (0, 1, (1 << 28) - 1, 1 << 28, (1 << 32) - 1, 1 << 32, (1 << 63)):
            payload, _ = adb.encode({1: number, 2: "x"})
            reader = readers.Adb(adb.file(b"test", payload))
            self.assertEqual(reader.value(reader.object(reader.root, ["number", "x"])["number"]) or 0, number)

    def test_equal_values_are_stored_once(self):
        once, _ = adb.encode([{1: "same"}])
        often, _ = adb.encode([{1: "same"}] * 5)
        self.assertEqual(len(often) - len(once), 16)

    def test_blocks_are_padded_to_eight(self):
        for size in range(1, 18):
            reader = readers.Adb(adb.file(b"test", adb.encode({1: "a"})[0], [b"s" * size], [b"d" * size]))
            self.assertEqual((reader.signatures, reader.data), ([b"s" * size], [b"d" * size]))

    def test_the_reader_sees_damage(self):
        octets = apk.build(contents.package(ARM64, "aarch64_generic"))
        plain = bytearray(zlib.decompress(octets[4:], -15))
        missed = []
        for at in range(8, len(plain), 3):
            plain[at] ^= 0x01
            deflate = zlib.compressobj(0, 8, -15)
            try:
                readers.Apk(b"ADBd" + deflate.compress(bytes(plain)) + deflate.flush())
                missed.append(at)
            except (readers.Bad, ValueError, KeyError, IndexError):
                pass
            plain[at] ^= 0x01
        self.assertEqual(missed, [])


class Agreement(unittest.TestCase):
    def test_makefile_says_the_same(self):
        makefile = (ROOT / "openwrt/wattle/Makefile").read_text()
        about = contents.description_file()
        cargo = tomllib.loads((ROOT / "Cargo.toml").read_text())["package"]
        for name, value in {
            "RELEASE": about["release"],
            "LICENSE": cargo["license"],
            "MAINTAINER": about["maintainer"],
        }.items():
            self.assertIn(f"\nPKG_{name}:={value}\n", makefile)
        self.assertNotIn(CARGO_VERSION, makefile, "it has the version from Cargo.toml")
        self.assertIn(cargo["description"], makefile)
        for dependency in about["depends"]:
            self.assertIn(f"+{dependency}", re.search("\n  DEPENDS:=.*", makefile)[0])
        modes = {"INSTALL_BIN": "0755", "INSTALL_CONF": "0600", "INSTALL_DATA": "0644"}
        installed = {}
        for macro, source, path in re.findall(r"\$\((INSTALL_(?:BIN|CONF|DATA))\) (\S+) \$\(1\)(\S+)", makefile):
            installed[path] = [modes[macro], "" if "$(" in source else source.removeprefix("./files/")]
        self.assertEqual(installed, about["files"])
        self.assertEqual(re.findall(r"INSTALL_DIR\) -m(0\d+) \$\(1\)(\S+)", makefile), [(m, p) for p, m in about["directories"].items()])
        kept = re.search(r"define Package/wattle/conffiles\n(.*?)endef", makefile, re.DOTALL)[1].split()
        for path in about["conffiles"]:
            self.assertTrue(any(path == entry or (entry.endswith("/") and path.startswith(entry)) for entry in kept), path)

    def test_the_manual_lists_the_same_names(self):
        rows = re.findall(r"^\| `([a-z0-9_]+-unknown-[a-z-]+)` \| (.*) \|$", (ROOT / "docs/openwrt.md").read_text(), re.MULTILINE)
        listed = {rust: re.findall("`([^`]+)`", names) for rust, names in rows}
        self.assertEqual(listed, {target["rust"]: target["names"] for target in contents.targets()})

    def test_no_document_or_script_has_a_version_of_its_own(self):
        """A release changes Cargo.toml (and Cargo.lock) and nothing else."""
        files = subprocess.run(["git", "-C", ROOT, "ls-files", "-z"], capture_output=True, text=True, check=True).stdout
        pattern = re.compile(rf"wattle[-_ ]v?{re.escape(CARGO_VERSION)}\b")
        found = []
        for name in filter(None, files.split("\0")):
            path = ROOT / name
            if path.suffix != ".rs" and name != "Cargo.lock" and path.is_file() and pattern.search(path.read_text(errors="replace")):
                found.append(name)
        self.assertEqual(found, [], "write VERSION there")

    @unittest.skipUnless(shutil.which("make"), "make is missing")
    def test_the_sdk_compiles_for_speed(self):
        """The variables reach cargo as assignments before the command, of which the last counts: run as make and sh do it."""
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            rust = root / "feeds/packages/lang/rust"
            rust.mkdir(parents=True)
            (root / "rules.mk").touch()
            (root / "package.mk").touch()
            (rust / "rust-package.mk").write_text(
                "CARGO_PKG_VARS=CARGO_PROFILE_RELEASE_OPT_LEVEL=z CARGO_PROFILE_RELEASE_LTO=true\n"
                "Build/Compile/Cargo=$(CARGO_PKG_VARS) sh -c 'echo $$CARGO_PROFILE_RELEASE_OPT_LEVEL $(2)'\n"
            )
            (root / "Makefile").write_text(
                f"include {ROOT}/openwrt/wattle/Makefile\nall:\n\t@$(Build/Compile)\n\t@echo $(PKG_VERSION)\n"
            )
            command = ["make", "-s", "-C", folder, f"TOPDIR={folder}", f"INCLUDE_DIR={folder}", f"WATTLE_SOURCE={ROOT}"]
            run = subprocess.run(command, capture_output=True, text=True, check=False)
            self.assertEqual(run.stdout.split("\n")[:2], ["3 --bin wattle", CARGO_VERSION], run.stderr)


# OWRTPKG=FILE: the packer of others to compare with. It is not ours, so nobody needs it.
if os.environ.get("OWRTPKG"):

    class AnotherPacker(unittest.TestCase):
        def test_another_packer_writes_the_same(self):
            spec = importlib.util.spec_from_file_location("owrtpkg", os.environ["OWRTPKG"])
            other = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(other)
            package = contents.package(ARM64, "aarch64_generic")
            other.EPOCH = package.time
            meta = {"Name": "wattle", "Version": VERSION, "Depends": "kmod-tun", "License": package.license, "Section": "net",
                    "Maintainer": package.maintainer, "Architecture": "aarch64_generic", "Description": package.description, "Source": "wattle"}  # fmt: skip
            with tempfile.TemporaryDirectory() as folder:
                root = Path(folder) / "root"
                for entry in package.entries:
                    path = root / entry.path[1:]
                    if entry.data is None:
                        path.mkdir(parents=True)
                    else:
                        path.write_bytes(entry.data)
                    path.chmod(entry.mode)
                other.build_ipk(meta, str(root), CONFFILES, f"{folder}/ipk")
                other.build_apk(meta, str(root), CONFFILES, f"{folder}/wattle-{VERSION}.apk")
                other.index_apk([f"{folder}/wattle-{VERSION}.apk"], f"{folder}/index")
                theirs, ours = readers.Ipk(Path(f"{folder}/ipk").read_bytes()), readers.Ipk(ipk.build(package))
                self.assertEqual(theirs.files, ours.files)
                self.assertEqual(theirs.conffiles, ours.conffiles)
                theirs.control.pop("Source")
                self.assertEqual({n: v.strip() for n, v in theirs.control.items()}, ours.control)
                theirs, ours = readers.Apk(Path(f"{folder}/wattle-{VERSION}.apk").read_bytes()), readers.Apk(apk.build(package))
                sums = "/lib/apk/packages/wattle.list"
                self.assertEqual(sorted(theirs.files[sums][1].split()), sorted(ours.files[sums][1].split()))
                for each in (theirs, ours):
                    # Theirs counts apk's lists as installed; the order of lines in a list is free; the identity follows from both.
                    each.info["hashes"] = each.info["installed-size"] = each.files[sums] = None
                self.assertEqual(theirs.files, ours.files)
                self.assertEqual(theirs.info, ours.info)
                [entry] = readers.ApkIndex(Path(f"{folder}/index").read_bytes(), complete=False).packages
                [our_entry] = readers.ApkIndex(adb.file(b"indx", apk.index([(package, apk.build(package))]))).packages
                for each in (entry, our_entry):
                    for name in ("hashes", "file-size", "installed-size"):
                        each.pop(name)
                self.assertEqual(entry, our_entry)


@unittest.skipUnless(machines.release_binary(), "there is no release binary for x86-64 (target/release/wattle or WATTLE)")
class ReleaseBinary(unittest.TestCase):
    def test_packages_fit_into_small_flash(self):
        binary = machines.release_binary()
        package = contents.package(binary, "x86_64")
        self.assertLessEqual(len(binary), 2_500_000)
        for octets in (ipk.build(package), apk.build(package)):
            self.assertLessEqual(len(octets), 1_300_000)
        self.assertEqual(readers.Apk(apk.build(package)).files["/usr/sbin/wattle"][1], binary)

    def test_sample_configuration_is_right_once_a_key_is_made(self):
        with tempfile.TemporaryDirectory() as folder:
            sample = Path(folder) / "wattle.json"
            sample.write_bytes((ROOT / "openwrt/wattle/files/wattle.json").read_bytes())
            subprocess.run([machines.RELEASE, "keygen", Path(folder) / "node.key"], check=True, capture_output=True)
            run = subprocess.run([machines.RELEASE, "check", sample], capture_output=True, text=True, check=False)
            self.assertEqual(run.returncode, 0, run.stdout + run.stderr)

    def test_version_is_the_packages(self):
        run = subprocess.run([machines.RELEASE, "--version"], capture_output=True, text=True, check=True)
        self.assertEqual(run.stdout.strip(), f"wattle {contents.package(b'', 'x86_64').cargo_version}")


if __name__ == "__main__":
    unittest.main()

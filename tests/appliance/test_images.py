"""The image files, read by a parser that shares nothing with the writer, and compared with what an engine makes of the Dockerfile."""

import gzip
import hashlib
import io
import json
import os
import re
import shutil
import tarfile
import tempfile
import tomllib
import unittest
from pathlib import Path

import build

PLATFORMS = {
    "linux/amd64": "x86_64-unknown-linux-musl",
    "linux/arm64": "aarch64-unknown-linux-musl",
    "linux/arm/v7": "armv7-unknown-linux-musleabihf",
    "linux/arm/v5": "armv5te-unknown-linux-musleabi",
}
VERSION = tomllib.loads(build.ROOT.joinpath("Cargo.toml").read_text())["package"]["version"]
LARGEST_COMPRESSED = 1_500_000
FILES = {
    "etc/group", "etc/passwd", "etc/wattle/wattle.json.example", "usr/share/doc/wattle/LICENSE",
    "usr/share/doc/wattle/THIRD-PARTY.txt", "wattle",
}
FOLDERS = {"dev", "etc", "etc/wattle", "proc", "run", "sys", "tmp", "usr", "usr/share", "usr/share/doc",
           "usr/share/doc/wattle", "var"}


def setUpModule():
    global built, folder, platforms
    folder = tempfile.TemporaryDirectory()
    unittest.addModuleCleanup(folder.cleanup)
    platforms = [platform for platform, target in PLATFORMS.items() if target in build.chosen]
    if not platforms:
        raise unittest.SkipTest("no binary for an image was built")
    built = Path(folder.name, "images")
    make(built, "--context")


def make(out, *options, **environment):
    build.run(build.ROOT / "scripts/build-images", *platforms, "--no-build", "--dist", build.DIST, "--out", out, *options,
              env={**os.environ, **environment})


def archive(platform):
    return built / f"wattle-{VERSION}-{platform.removeprefix('linux/').replace('/', '-')}.tar"


def raw_members(octets):
    """(name, type, mode, uid, gid, mtime, content) by the ustar format itself (POSIX.1-1988): no tarfile."""
    at, members = 0, []
    while octets[at:at + 512].strip(b"\0"):
        header = octets[at:at + 512]
        text = lambda start, size: header[start:start + size].split(b"\0")[0].decode()  # noqa: E731
        number = lambda start, size: int(text(start, size).strip() or "0", 8)  # noqa: E731
        assert header[257:263] == b"ustar\0", "not ustar"
        assert sum(header[:148]) + 8 * 32 + sum(header[156:]) == number(148, 8), "wrong checksum"
        prefix = text(345, 155)
        name = f"{prefix}/{text(0, 100)}" if prefix else text(0, 100)
        size = number(124, 12)
        content = octets[at + 512:at + 512 + size]
        assert len(content) == size, "cut short"
        members.append((name, chr(header[156]), number(100, 8), number(108, 8), number(116, 8), number(136, 12), content))
        at += 512 + (size + 511) // 512 * 512
    assert octets[at:at + 1024] == bytes(1024), "no end of archive"
    return members


def sha256(octets):
    return f"sha256:{hashlib.sha256(octets).hexdigest()}"


class DockerArchive(unittest.TestCase):
    def opened(self, platform):
        members = raw_members(archive(platform).read_bytes())
        files = {name: content for name, kind, *_, content in members if kind == "0"}
        self.assertEqual(members[0][0], "manifest.json")
        [manifest] = json.loads(files["manifest.json"])
        [layer] = manifest["Layers"]
        self.assertEqual(set(files), {"manifest.json", manifest["Config"], layer})
        return manifest, json.loads(files[manifest["Config"]]), files[manifest["Config"]], files[layer]

    def test_one_uncompressed_layer(self):
        """RouterOS up to 7.20 unpacks neither compressed layers nor more than one."""
        for platform in platforms:
            with self.subTest(platform=platform):
                manifest, config, raw, layer = self.opened(platform)
                self.assertEqual(manifest["Config"], f"{sha256(raw)[7:]}.json")
                self.assertEqual(config["rootfs"], {"type": "layers", "diff_ids": [sha256(layer)]})
                self.assertEqual(manifest["RepoTags"], [f"wattle:{VERSION}"])

    def test_platform(self):
        for platform in platforms:
            with self.subTest(platform=platform):
                config = self.opened(platform)[1]
                said = "/".join(filter(None, (config["os"], config["architecture"], config.get("variant"))))
                self.assertEqual(said, platform)

    def test_configuration(self):
        for platform in platforms:
            with self.subTest(platform=platform):
                config = self.opened(platform)[1]["config"]
                self.assertEqual(config["Entrypoint"], ["/wattle", "run", "--config", "/etc/wattle/wattle.json"])
                self.assertNotIn("Cmd", config)
                self.assertEqual(config["Healthcheck"]["Test"], ["CMD", "/wattle", "health"])
                self.assertEqual(config["StopSignal"], "SIGTERM")
                self.assertEqual((config["User"], config["WorkingDir"], config["Env"]), ("0:0", "/", ["PATH=/"]))
                labels = config["Labels"]
                self.assertEqual(labels["org.opencontainers.image.version"], VERSION)
                self.assertEqual(labels["org.opencontainers.image.licenses"], "Apache-2.0")
                self.assertRegex(labels["org.opencontainers.image.created"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
                self.assertNotIn("$", "".join(labels.values()))

    def test_contents(self):
        for platform in platforms:
            with self.subTest(platform=platform):
                members = raw_members(self.opened(platform)[3])
                names = [member[0].rstrip("/") for member in members]
                self.assertEqual(len(names), len(set(names)))
                self.assertEqual({name for name, member in zip(names, members) if member[1] == "0"}, FILES)
                self.assertEqual({name for name, member in zip(names, members) if member[1] == "5"}, FOLDERS)
                self.assertEqual(len(members), len(FILES | FOLDERS), "links, devices or whiteouts")
                modes = {name: member[2] for name, member in zip(names, members)}
                self.assertEqual((modes["wattle"], modes["tmp"], modes["etc"]), (0o755, 0o1777, 0o755))
                self.assertEqual({member[3:5] for member in members}, {(0, 0)})
                # A folder stands before what is in it.
                for position, name in enumerate(names):
                    self.assertIn(str(Path(name).parent), [".", *names[:position]])
                contents = {name: member[6] for name, member in zip(names, members)}
                self.assertEqual(contents["wattle"], build.binary(PLATFORMS[platform]).read_bytes())
                self.assertEqual(json.loads(contents["etc/wattle/wattle.json.example"])["listen"], [4501])


class OciLayout(unittest.TestCase):
    def test_index(self):
        members = raw_members(built.joinpath(f"wattle-{VERSION}-oci.tar").read_bytes())
        files = {name: content for name, kind, *_, content in members if kind == "0"}
        self.assertEqual(json.loads(files["oci-layout"]), {"imageLayoutVersion": "1.0.0"})
        used = set()

        def blob(descriptor):
            name = "blobs/" + descriptor["digest"].replace(":", "/")
            used.add(name)
            self.assertEqual(sha256(files[name]), descriptor["digest"])
            self.assertEqual(len(files[name]), descriptor["size"])
            return files[name]

        [outer] = json.loads(files["index.json"])["manifests"]
        self.assertEqual(outer["annotations"], {"org.opencontainers.image.ref.name": VERSION})
        self.assertEqual(outer["mediaType"], "application/vnd.oci.image.index.v1+json")
        manifests = json.loads(blob(outer))["manifests"]
        said = ["/".join(one["platform"][key] for key in ("os", "architecture", "variant") if key in one["platform"])
                for one in manifests]
        self.assertEqual(said, platforms)
        for platform, descriptor in zip(platforms, manifests):
            self.assertEqual(descriptor["mediaType"], "application/vnd.oci.image.manifest.v1+json")
            manifest = json.loads(blob(descriptor))
            config = json.loads(blob(manifest["config"]))
            [layer] = manifest["layers"]
            self.assertEqual(layer["mediaType"], "application/vnd.oci.image.layer.v1.tar+gzip")
            self.assertLessEqual(layer["size"], LARGEST_COMPRESSED)
            unpacked = gzip.decompress(blob(layer))
            self.assertEqual([sha256(unpacked)], config["rootfs"]["diff_ids"])
            # The same image as the docker-archive: engines show the digest of the configuration as its number.
            docker = raw_members(archive(platform).read_bytes())
            self.assertIn(f"{manifest['config']['digest'][7:]}.json", [member[0] for member in docker])
        self.assertEqual(used, {name for name in files if name.startswith("blobs/")})


class Whole(unittest.TestCase):
    def test_two_builds_are_equal(self):
        again = Path(folder.name, "again")
        make(again, TZ="Asia/Tokyo", LC_ALL="C", PYTHONHASHSEED="7")
        first, second = (path.joinpath("SHA256SUMS").read_text() for path in (built, again))
        self.assertEqual(first, second)
        for line in first.splitlines():
            digest, name = line.split("  ")
            self.assertEqual(sha256((built / name).read_bytes())[7:], digest)
        self.assertEqual(len(first.splitlines()), len(platforms) + 1)

    def test_another_time_is_another_image(self):
        other = Path(folder.name, "other")
        make(other, SOURCE_DATE_EPOCH="1000000000")
        octets = other.joinpath(archive(platforms[0]).name).read_bytes()
        self.assertIn(b"2001-09-09T01:46:40Z", octets)
        self.assertEqual({member[5] for member in raw_members(octets)}, {1_000_000_000})

    def test_wrong_machine_is_refused(self):
        """A binary under another architecture's name would only fail on the router."""
        wrong = Path(folder.name, "wrong")
        for platform in platforms:
            target = wrong / PLATFORMS[platform]
            target.mkdir(parents=True)
            target.joinpath("THIRD-PARTY.txt").write_text("")
            shutil.copy("/bin/true", target / "wattle")
        done = build.run(build.ROOT / "scripts/build-images", *platforms, "--no-build", "--dist", wrong, "--out",
                         wrong / "out", check=False)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, "not static" if platforms[0] == "linux/amd64" else "another machine")


class Runs(unittest.TestCase):
    def test_unpacked_binary_runs(self):
        """From the layer itself, as the CPU of the platform."""
        for platform in platforms:
            with self.subTest(platform=platform):
                root = Path(folder.name, "root", platform.replace("/", "-"))
                outer = tarfile.open(archive(platform))
                layer = next(name for name in outer.getnames() if name.endswith("/layer.tar"))
                with tarfile.open(fileobj=io.BytesIO(outer.extractfile(layer).read())) as inner:
                    inner.extractall(root)
                words = [*build.TARGETS[PLATFORMS[platform]], root / "wattle"]
                self.assertIn(VERSION, build.run(*words, "--version").stdout)
                build.run(*words, "keygen", root / "etc/wattle/node.key")
                example = root / "etc/wattle/wattle.json.example"
                self.assertRegex(build.run(*words, "check", example).stdout, re.escape(str(example)) + ": fine")

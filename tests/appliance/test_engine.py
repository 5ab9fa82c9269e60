"""podman takes the images, makes the same of images/Dockerfile, and runs the one of this machine as a router would.

The engine keeps everything in a folder of its own, so that nothing is left on the machine. Its settings are those that it
needs where root lacks CAP_SYS_RESOURCE and systemd is not there.
"""

import hashlib
import json
import os
import shutil
import sys
import tarfile
import tempfile
import time
import unittest
from pathlib import Path

import build
import test_images
from test_images import PLATFORMS, VERSION

sys.path.insert(0, str(build.ROOT / "tests/live"))
import lab as live  # noqa: E402

SETTINGS = """[containers]
default_ulimits = ["nofile=16384:16384", "nproc=16384:16384"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
"""
SECOND = "MCowBQYDK2VwAyEA7UkouLW45P1hvAxdCiOVFaDt6j2ZLMu7QEQ2wkJ5Aes="
IMAGE = f"localhost/wattle:{VERSION}"


def setUpModule():
    global home, images, platforms
    if not shutil.which("podman") or not shutil.which("runc"):
        raise unittest.SkipTest("podman or runc is not installed")
    platforms = [platform for platform, target in PLATFORMS.items() if target in build.chosen]
    if not platforms:
        raise unittest.SkipTest("no binary for an image was built")
    home = Path(tempfile.mkdtemp(prefix="wattle-engine-"))
    unittest.addModuleCleanup(shutil.rmtree, home, ignore_errors=True)
    (home / "containers.conf").write_text(SETTINGS)
    unittest.addModuleCleanup(podman, "rm", "--all", "--force", "--time", "1", check=False)
    test_images.platforms = platforms
    images = home / "images"
    test_images.make(images, "--context")


def podman(*words, check=True, **options):
    environment = {**os.environ, "CONTAINERS_CONF": str(home / "containers.conf"), "DISABLE_HC_SYSTEMD": "true"}
    return build.run("podman", "--root", home / "store", "--runroot", home / "run", "--storage-driver", "vfs",
                     *words, check=check, env=environment, **options)


def archive(platform):
    return images / f"wattle-{VERSION}-{platform.removeprefix('linux/').replace('/', '-')}.tar"


def inspect(image):
    return json.loads(podman("image", "inspect", image).stdout)[0]


class Load(unittest.TestCase):
    def test_each_archive(self):
        for platform in platforms:
            with self.subTest(platform=platform):
                podman("load", "--input", archive(platform))
                self.addCleanup(podman, "rmi", "--force", IMAGE, check=False)
                seen = inspect(IMAGE)
                with tarfile.open(archive(platform)) as outer:
                    name = json.load(outer.extractfile("manifest.json"))[0]["Config"]
                self.assertEqual(seen["Id"], name.removesuffix(".json"))
                self.assertEqual(f"{seen['Os']}/{seen['Architecture']}", "/".join(platform.split("/")[:2]))
                self.assertEqual(len(seen["RootFS"]["Layers"]), 1)

    def test_oci_index(self):
        if not shutil.which("skopeo"):
            self.skipTest("skopeo is not installed")
        file = images / f"wattle-{VERSION}-oci.tar"
        raw = json.loads(build.run("skopeo", "inspect", "--raw", f"oci-archive:{file}:{VERSION}").stdout)
        said = ["/".join(filter(None, (p["os"], p["architecture"], p.get("variant"))))
                for p in (one["platform"] for one in raw["manifests"])]
        self.assertEqual(said, platforms)
        build.run("skopeo", "copy", "--all", f"oci-archive:{file}:{VERSION}", f"oci:{home / 'copy'}:{VERSION}")
        outer = json.loads((home / "copy/index.json").read_text())["manifests"][0]["digest"]
        copied = json.loads((home / "copy/blobs" / outer.replace(":", "/")).read_text())
        self.assertEqual(copied, raw)


class Dockerfile(unittest.TestCase):
    def test_an_engine_makes_the_same(self):
        """Same configuration and same files from images/Dockerfile as from our own writer."""
        for platform in platforms:
            with self.subTest(platform=platform):
                podman("load", "--input", archive(platform))
                self.addCleanup(podman, "rmi", "--force", IMAGE, "localhost/wattle:built", check=False)
                ours = inspect(IMAGE)
                labels = ours["Config"]["Labels"]
                arguments = [f"--build-arg={key.upper()}={labels[f'org.opencontainers.image.{key}']}"
                             for key in ("version", "revision", "created")]
                # Where the engine's own version does not know how to read linux/arm/v7: the variable is an argument, too.
                podman("build", "--format", "docker", "--network", "none", "--tag", "localhost/wattle:built",
                       f"--build-arg=TARGETPLATFORM={platform}", *arguments, "--file",
                       build.ROOT / "images/Dockerfile", images / "context")
                theirs = inspect("localhost/wattle:built")
                self.assertEqual(self.configuration(theirs), self.configuration(ours))
                self.assertEqual(self.files("localhost/wattle:built"), self.files(IMAGE))

    def configuration(self, seen):
        config = dict(seen["Config"])
        # The engine's name for itself
        config["Labels"] = {key: value for key, value in config["Labels"].items() if not key.startswith("io.buildah")}
        return {**config, "Healthcheck": seen.get("HealthCheck") or seen.get("Healthcheck")}

    def files(self, image):
        path = home / "saved.tar"
        path.unlink(missing_ok=True)
        podman("save", "--format", "docker-archive", "--output", path, image)
        found = {}
        with tarfile.open(path) as outer:
            for layer in json.load(outer.extractfile("manifest.json"))[0]["Layers"]:
                with tarfile.open(fileobj=outer.extractfile(layer)) as inner:
                    for member in inner:
                        content = hashlib.sha256(inner.extractfile(member).read()).hexdigest() if member.isfile() else None
                        # Some engines write the kind of file into the mode, too.
                        mode = oct(member.mode & 0o7777)
                        found[member.name.strip("/")] = (mode, member.uid, member.gid, member.type, content)
        found.pop("", None)
        return found


class Run(unittest.TestCase):
    """One node in a container, as a router runs it: TUN and NET_ADMIN only, read-only root, little memory.

    An image of another architecture gets the emulator as a mounted file, so that nothing is registered in this machine's kernel.
    """

    def setUp(self):
        self.folder = home / "etc"
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()
        self.name = f"wattle{os.getpid()}"

    def container(self, platform):
        """Loads the image; the words that come before the program's in the container."""
        podman("load", "--input", archive(platform))
        self.addCleanup(podman, "rmi", "--force", IMAGE, check=False)
        self.addCleanup(podman, "rm", "--force", "--time", "1", self.name, check=False)
        emulator = build.TARGETS[PLATFORMS[platform]]
        if emulator and "INTERP" in build.run("readelf", "-lW", emulator[0]).stdout:
            self.skipTest("qemu-user-static is not installed")
        return emulator

    def start(self, emulator, *options, name=None, network="none", folder=None):
        if emulator:
            entry = ["/qemu", *emulator[1:], "/wattle", "run", "--config", "/etc/wattle/wattle.json"]
            options += ("--volume", f"{emulator[0]}:/qemu:ro", "--entrypoint", json.dumps(entry))
        else:
            options += ("--memory", "32m")
        podman("run", "--detach", "--name", name or self.name, "--network", network, "--cap-drop", "all",
               "--cap-add", "NET_ADMIN", "--cap-add", "NET_BIND_SERVICE", "--device", "/dev/net/tun", "--read-only",
               "--volume", f"{folder or self.folder}:/etc/wattle", *options, IMAGE)

    def configure(self, platform):
        # No key: the first start makes it.
        shutil.copy(build.ROOT / "routeros/wattle.example.json", self.folder / "wattle.json")

    def replace_configuration(self):
        """As an editor does it: a new file in the place of the old one, in the mounted folder."""
        config = json.loads((self.folder / "wattle.json").read_text())
        config["nodes"].append({"name": "second", "public_key": SECOND})
        (self.folder / "new").write_text(json.dumps(config))
        (self.folder / "new").rename(self.folder / "wattle.json")

    def state(self):
        return json.loads(podman("inspect", self.name).stdout)[0]["State"]

    def inside(self, emulator, *words):
        before = ["/qemu", *emulator[1:]] if emulator else []
        return podman("exec", self.name, *before, "/wattle", *words, check=False)

    def wait(self, what, condition, seconds=20):
        end = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > end:
                self.fail(f"not within {seconds} s: {what}\n{self.logs()}")
            time.sleep(0.1)

    def logs(self):
        done = podman("logs", self.name, check=False)
        return done.stdout + done.stderr

    def test_life(self):
        """It starts, answers, has its device, and SIGTERM ends it at once with status 0: it is process 1."""
        for platform in platforms:
            with self.subTest(platform=platform):
                emulator = self.container(platform)
                self.configure(platform)
                self.start(emulator)
                self.wait("the daemon answers", lambda: '"hub"' in self.inside(emulator, "status", "--json").stdout)
                net = f"--net=/proc/{self.state()['Pid']}/ns/net"
                devices = build.run("nsenter", net, "ip", "-brief", "address", "show", "wattle0").stdout
                self.assertIn("10.66.0.2/32", devices)
                self.assertIn("fd66::2/128", devices)
                healthy = self.inside(emulator, "health")
                self.assertEqual((healthy.returncode, healthy.stderr), (0, ""))
                self.replace_configuration()
                self.wait("the new configuration is read", lambda: '"second"' in self.inside(emulator, "status", "--json").stdout)
                self.assertLessEqual(max(len(line) for line in self.logs().splitlines()), 160)
                began = time.monotonic()
                podman("kill", "--signal", "TERM", self.name)
                self.wait("SIGTERM ends it", lambda: self.state()["Status"] == "exited")
                self.assertLess(time.monotonic() - began, 2)
                self.assertEqual((self.state()["ExitCode"], self.state()["OOMKilled"]), (0, False))
                podman("rm", self.name)

    def test_health(self):
        """The health check of the image, as the engine runs it."""
        platform = self.this_machine()
        if "\n  health " not in build.run(*build.command(PLATFORMS[platform], "help")).stdout:
            self.skipTest("wattle health is not in this version")
        emulator = self.container(platform)
        self.configure(platform)
        self.start(emulator)
        self.wait("the daemon answers", lambda: '"hub"' in self.inside(emulator, "status", "--json").stdout)
        done = podman("healthcheck", "run", self.name, check=False)
        # The hub of the example does not exist: the process is well all the same.
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr + self.logs())

    def test_empty_volume_is_filled(self):
        """What RouterOS does with an empty mount, and an engine with an empty volume: the example is there."""
        self.container(self.this_machine())
        volume = f"wattle{os.getpid()}"
        podman("volume", "create", volume)
        self.addCleanup(podman, "volume", "rm", "--force", volume, check=False)
        # Without a configuration it ends at once; the volume has been filled before.
        podman("run", "--name", self.name, "--network", "none", "--volume", f"{volume}:/etc/wattle", IMAGE, check=False)
        place = Path(podman("volume", "inspect", "--format", "{{.Mountpoint}}", volume).stdout.strip())
        self.assertEqual([path.name for path in place.iterdir()], ["wattle.json.example"])

    def test_without_configuration(self):
        """It says what is missing and where, and ends with an error that a restart policy sees."""
        self.start(self.container(self.this_machine()))
        self.wait("it ends", lambda: self.state()["Status"] == "exited")
        self.assertNotEqual(self.state()["ExitCode"], 0)
        self.assertIn("/etc/wattle/wattle.json", self.logs())

    def test_two_containers_form_a_mesh(self):
        platform = self.this_machine()
        emulator = self.container(platform)
        program = build.binary(PLATFORMS[platform])
        with live.Lab("k") as lab:
            spaces = {name: lab.namespace(name) for name in "ab"}
            lab.veth(spaces["a"], spaces["b"], ["192.0.2.1/24"], ["192.0.2.2/24"])
            public = {}
            for name in spaces:
                (lab.folder / name).mkdir()
                build.run(program, "keygen", lab.folder / name / "node.key")
                public[name] = build.run(program, "pubkey", lab.folder / name / "node.key").stdout.strip()
            for number, (name, other) in enumerate((("a", "b"), ("b", "a")), 1):
                tun = {"name": "wattle0", "addresses": [f"10.66.0.{number}/32"]}
                peer = {"name": other, "public_key": public[other], "endpoints": [f"192.0.2.{3 - number}:4500"]}
                config = {"name": name, "private_key": "node.key", "tun": tun, "nodes": [peer]}
                (lab.folder / name / "wattle.json").write_text(json.dumps(config))
            for name, space in spaces.items():
                self.addCleanup(podman, "rm", "--force", "--time", "1", f"{self.name}{name}", check=False)
                self.start(emulator, name=self.name + name, network=f"ns:/run/netns/{space}", folder=lab.folder / name)
            lab.reach(spaces["a"], "10.66.0.2", 30)
            lab.reach(spaces["b"], "10.66.0.1", 10)
            for name in spaces:
                podman("rm", "--force", "--time", "5", self.name + name)

    def this_machine(self):
        if "linux/amd64" not in platforms:
            self.skipTest("the image of this machine was not built")
        return "linux/amd64"

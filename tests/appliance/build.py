"""The targets, where their binaries stand, and how to run them here."""

import os
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DIST = Path(os.environ.get("WATTLE_DIST_DIR", ROOT / "target/dist"))


def emulator(name):
    """Some Debian releases call the one without shared libraries, which runs in a container too, by a name of its own."""
    return shutil.which(f"qemu-{name}-static") or f"qemu-{name}"


# What emulates each target, with the CPU model of the least router of that kind: qemu's default CPU has what those lack.
TARGETS = {
    "x86_64-unknown-linux-musl": [],
    "aarch64-unknown-linux-musl": [emulator("aarch64"), "-cpu", "cortex-a53"],
    "armv7-unknown-linux-musleabihf": [emulator("arm"), "-cpu", "cortex-a7"],
    # bcm53xx: a Cortex-A9 that was built without any floating point
    "armv7-unknown-linux-musleabi": [emulator("arm"), "-cpu", "cortex-a9,vfp=off,neon=off"],
    "armv5te-unknown-linux-musleabi": [emulator("arm"), "-cpu", "arm926"],
    "mipsel-unknown-linux-musl": [emulator("mipsel"), "-cpu", "24Kc"],
}
# Those that this run is about
chosen = []


def binary(target):
    return DIST / target / "wattle"


def command(target, *words):
    return [*TARGETS[target], str(binary(target)), *map(str, words)]


def run(*words, check=True, **options):
    """Runs a command and returns what came of it; a failure shows what it said."""
    done = subprocess.run([str(word) for word in words], text=True, capture_output=True, timeout=120, **options)
    if check and done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, words))}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return done

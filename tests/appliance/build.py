"""The targets, where their binaries stand, and how to run them here."""

import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DIST = Path(os.environ.get("WATTLE_DIST_DIR", ROOT / "target/dist"))
# What emulates each target, with the CPU model of the least router of that kind: qemu's default CPU has what those lack.
TARGETS = {
    "x86_64-unknown-linux-musl": [],
    "aarch64-unknown-linux-musl": ["qemu-aarch64", "-cpu", "cortex-a53"],
    "armv7-unknown-linux-musleabihf": ["qemu-arm", "-cpu", "cortex-a7"],
    "armv7-unknown-linux-musleabi": ["qemu-arm", "-cpu", "cortex-a7"],
    "armv5te-unknown-linux-musleabi": ["qemu-arm", "-cpu", "arm926"],
    "mipsel-unknown-linux-musl": ["qemu-mipsel", "-cpu", "24Kc"],
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

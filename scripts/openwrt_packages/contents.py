"""What is in the package: read from openwrt/package.toml and Cargo.toml, the same for both formats."""

import hashlib
import os
import re
import shutil
import subprocess
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

from . import Refused

ROOT = Path(__file__).resolve().parents[2]
LICENCES = "/usr/share/doc/wattle/THIRD-PARTY.txt"
PRE_RELEASES = {"alpha", "beta", "pre", "rc"}


@dataclass(frozen=True)
class Entry:
    """A directory (data is None) or a regular file, owned by root."""

    path: str
    mode: int
    data: bytes | None


@dataclass(frozen=True)
class Package:
    name: str
    architecture: str
    # As Cargo says it, and the number of this packaging of it.
    cargo_version: str
    release: int
    description: str
    license: str
    maintainer: str
    section: str
    depends: tuple[str, ...]
    conffiles: tuple[str, ...]
    # Seconds since 1970: the only time in the package.
    time: int
    entries: tuple[Entry, ...] = field(repr=False)

    @property
    def files(self):
        return [entry for entry in self.entries if entry.data is not None]

    def version(self, pre_release_mark):
        """`0.2.0-rc.1` as package managers order it: opkg sorts what follows `~` first, apk knows `_rc`."""
        match = re.fullmatch(r"(\d+\.\d+\.\d+)(?:-([a-z]+)\.?(\d*))?", self.cargo_version)
        if not match or (match[2] and match[2] not in PRE_RELEASES):
            raise Refused(f"the version {self.cargo_version} has no form that apk takes: use X.Y.Z or X.Y.Z-rc.N (or alpha, beta, pre)")
        suffix = f"{pre_release_mark}{match[2]}{match[3]}" if match[2] else ""
        return f"{match[1]}{suffix}-r{self.release}"

    def digest_of(self, path):
        return hashlib.sha256(next(entry.data for entry in self.files if entry.path == path)).hexdigest()


def description_file():
    return tomllib.loads((ROOT / "openwrt/package.toml").read_text())


def targets():
    return description_file()["targets"]


def package(binary, architecture, release=None, licences=None):
    """`licences`: the text on the works of others in the binary."""
    about = description_file()
    cargo = tomllib.loads((ROOT / "Cargo.toml").read_text())["package"]
    files = []
    for path, (mode, source) in about["files"].items():
        data = (ROOT / "openwrt/wattle/files" / source).read_bytes() if source else binary
        files.append(Entry(path, int(mode, 8), data))
    if licences is not None:
        files.append(Entry(LICENCES, 0o644, licences))
    return Package(
        name=cargo["name"],
        architecture=architecture,
        cargo_version=cargo["version"],
        release=about["release"] if release is None else release,
        description=cargo["description"],
        license=cargo["license"],
        maintainer=about["maintainer"],
        section=about["section"],
        depends=tuple(about["depends"]),
        conffiles=tuple(about["conffiles"]),
        time=build_time(),
        entries=with_directories(files, about["directories"]),
    )


def with_directories(files, modes=None):
    """The files and every directory above them, in the order of their paths."""
    modes = modes or {}
    above = {str(parent) for entry in files for parent in Path(entry.path).parents} - {"/"}
    directories = [Entry(path, int(modes.get(path, "0755"), 8), None) for path in above]
    return tuple(sorted([*files, *directories], key=lambda entry: entry.path))


def build_time():
    """SOURCE_DATE_EPOCH, or when the tree was last committed: never the clock."""
    text = os.environ.get("SOURCE_DATE_EPOCH")
    if text is None:
        command = ["git", "-C", str(ROOT), "log", "-1", "--format=%ct"]
        # A tree without its history has no time of its own.
        git = subprocess.run(command, capture_output=True, text=True, check=False).stdout if shutil.which("git") else ""
        text = git.strip() or "0"
    if not text.isdecimal() or int(text) >= 1 << 32:
        raise Refused(f"SOURCE_DATE_EPOCH is {text!r}: it has to be a number of seconds since 1970")
    return int(text)

"""Readers of .ipk, .apk (v3), feed indexes and their signatures, written from the formats and not from our writer.

They are strict: what a package manager would never look at, such as padding and offsets, is checked as well."""

import base64
import gzip
import hashlib
import io
import struct
import subprocess
import tarfile
import tempfile
import zlib
from pathlib import Path


class Bad(AssertionError):
    pass


def must(condition, text):
    if not condition:
        raise Bad(text)


# ---- .ipk


class Ipk:
    """control: field to value; scripts, conffiles; files: path to (mode, data), data None for directories."""

    def __init__(self, octets):
        outer = self._members(octets)
        must(list(outer) == ["./debian-binary", "./data.tar.gz", "./control.tar.gz"], f"members are {list(outer)}")
        must(outer["./debian-binary"][1] == b"2.0\n", "debian-binary is not 2.0")
        data = outer["./data.tar.gz"][1]
        self.files = {path[1:].rstrip("/"): entry for path, entry in self._members(data).items() if path != "./"}
        control = self._members(outer["./control.tar.gz"][1])
        self.control = stanza(control["./control"][1].decode())
        self.conffiles = control["./conffiles"][1].decode().split() if "./conffiles" in control else []
        self.scripts = {path[2:]: entry for path, entry in control.items() if path not in ("./", "./control", "./conffiles")}
        must(int(self.control["Installed-Size"]) == len(gzip.decompress(data)), "Installed-Size is not that of data.tar")

    def _members(self, octets):
        must(octets[:2] == b"\x1f\x8b", "not gzip")
        must(octets[4:8] == bytes(4) and octets[3] == 0, "the gzip header holds a time or a name")
        members = {}
        with tarfile.open(fileobj=io.BytesIO(gzip.decompress(octets)), mode="r:") as tar:
            for info in tar:
                must(info.uid == info.gid == 0 and not info.uname and not info.gname, f"{info.name} is not owned by 0:0")
                must(info.isfile() or info.isdir(), f"{info.name} is neither file nor directory")
                name = info.name if info.isfile() or info.name == "." else info.name + "/"
                name = "./" if name == "." else name
                must(name.startswith("./") and ".." not in name and name not in members, f"{name} is a bad path")
                members[name] = (info.mode, tar.extractfile(info).read() if info.isfile() else None)
                self.times = getattr(self, "times", set()) | {info.mtime}
        return members


def stanza(text):
    fields, name = {}, None
    for line in text.splitlines():
        if line.startswith(" "):
            fields[name] += "\n" + line[1:]
        else:
            name, value = line.split(": ", 1)
            must(name not in fields, f"{name} is there twice")
            fields[name] = value
    return fields


# ---- apk's database format

KINDS = {0: "nothing", 1: "int", 2: "int32", 3: "int64", 8: "blob8", 9: "blob16", 10: "blob32", 13: "array", 14: "object"}
PACKAGE = ["info", "paths", "scripts", "triggers", "replaces-priority"]
INFO = [
    "name", "version", "hashes", "description", "arch", "license", "origin", "maintainer", "url", "repo-commit", "build-time",
    "installed-size", "file-size", "provider-priority", "depends", "provides", "replaces", "install-if", "recommends",
]  # fmt: skip
DIRECTORY, FILE, ACL, DEPENDENCY = (
    ["name", "acl", "files"],
    ["name", "acl", "size", "mtime", "hashes", "target"],
    ["mode", "user", "group"],
    ["name", "version", "match"],
)
SCRIPTS = ["trigger", "pre-install", "post-install", "pre-deinstall", "post-deinstall", "pre-upgrade", "post-upgrade"]


class Adb:
    """One file: schema, the payload, signature blocks and data blocks."""

    def __init__(self, octets):
        must(octets[:4] == b"ADBd", "not a deflated ADB file")
        inflate = zlib.decompressobj(-15)
        raw = inflate.decompress(octets[4:])
        must(inflate.eof and not inflate.unused_data, "something follows the compressed data")
        must(raw[:4] == b"ADB.", "the magic number is wrong")
        self.schema, self.signatures, self.data = raw[4:8], [], []
        at, order = 8, []
        while at < len(raw):
            word = struct.unpack_from("<I", raw, at)[0]
            kind, size = word >> 30, word & 0x3FFF_FFFF
            must(size >= 4 and at + size <= len(raw), f"the block at {at} has {size} octets")
            body, end = raw[at + 4 : at + size], at + (size + 7) // 8 * 8
            must(end <= len(raw) and not any(raw[at + size : end]), f"the block at {at} is padded wrongly")
            order.append(kind)
            if kind == 0:
                self.payload = body
            else:
                (self.signatures if kind == 1 else self.data).append(body)
            at = end
        must(order == sorted(order) and order.count(0) == 1 and set(order) <= {0, 1, 2}, f"blocks come as {order}")
        must(self.payload[:4] == bytes(4), "the payload's versions and reserved octets are not zero")
        self.used = {}
        self.root = struct.unpack_from("<I", self.payload, 4)[0]

    def value(self, word):
        """int, bytes, or a list of words."""
        kind, at = KINDS.get(word >> 28), word & 0x0FFF_FFFF
        must(kind is not None, f"{word:#x} is of no kind")
        if kind in ("nothing", "int"):
            return at or None if kind == "nothing" else at
        must(at >= 8, f"{word:#x} points into the header")
        if kind in ("int32", "int64"):
            size = 4 if kind == "int32" else 8
            must(at % size == 0, f"the number at {at} is not aligned")
            return int.from_bytes(self.span(at, size), "little")
        if kind.startswith("blob"):
            wide = int(kind[4:]) // 8
            must(at % wide == 0, f"the blob at {at} is not aligned")
            length = int.from_bytes(self.span(at, wide), "little")
            return self.span(at + wide, length, at)
        must(at % 4 == 0, f"the {kind} at {at} is not aligned")
        count = int.from_bytes(self.span(at, 4), "little")
        must(count >= 2, f"the {kind} at {at} is empty, but there")
        words = struct.unpack(f"<{count - 1}I", self.span(at + 4, 4 * (count - 1), at))
        must(words[-1] != 0, f"the {kind} at {at} ends in nothing")
        return list(words)

    def span(self, at, size, since=None):
        must(at + size <= len(self.payload), f"{at}+{size} lies outside of the payload")
        self.used[at if since is None else since] = max(self.used.get(at, 0), at + size)
        return self.payload[at : at + size]

    def object(self, word, names):
        words = self.array(word)
        must(len(words) <= len(names), f"an object has {len(words)} fields, {names} are known")
        return dict(zip(names, words, strict=False))

    def array(self, word):
        words = self.value(word) if word else []
        must(isinstance(words, list), f"{word:#x} is no object or array")
        return words

    def text(self, word):
        value = self.value(word) if word else b""
        must(isinstance(value, bytes), f"{word:#x} is no text")
        return value.decode()

    def info(self, word):
        fields = self.object(word, INFO)
        read = {}
        for name, field in fields.items():
            if name == "depends":
                read[name] = [{n: self.text(w) for n, w in self.object(dep, DEPENDENCY).items()} for dep in self.array(field)]
            elif name in ("build-time", "installed-size", "file-size") or name == "hashes":
                read[name] = self.value(field)
            else:
                read[name] = self.text(field)
        return read

    def complete(self):
        """Nothing in the payload is left unread, but for padding."""
        at = 8
        for start in sorted(self.used):
            must(start >= at - 8 and not any(self.payload[at:start]), f"octets {at} to {start} are not part of anything")
            at = max(at, self.used[start])
        must(at == len(self.payload), f"{len(self.payload) - at} octets follow the last value")


class Apk:
    """info: field to value; scripts: name to text; files: path to (mode, data), data None for directories."""

    def __init__(self, octets):
        adb = Adb(octets)
        must(adb.schema == b"pckg", f"the schema is {adb.schema}")
        root = adb.object(adb.root, PACKAGE)
        self.adb, self.files, self.times = adb, {}, set()
        self.info = adb.info(root["info"])
        self.scripts = {name: adb.text(word) for name, word in adb.object(root["scripts"], SCRIPTS).items() if word}
        data = {}
        for block in adb.data:
            data[struct.unpack_from("<II", block)] = block[8:]
        must(list(data) == sorted(data), "the data blocks are not in order")
        directories = [adb.object(word, DIRECTORY) for word in adb.array(root["paths"])]
        names = [adb.text(directory["name"]) for directory in directories]
        must(names == sorted(set(names)) and names[0] == "", f"directories are not sorted, root first: {names}")
        size = 0
        for number, directory in enumerate(directories, 1):
            path = names[number - 1]
            must(path == "" or path.rpartition("/")[0] in names, f"{path} is in no directory")
            mode = self._acl(directory["acl"])
            if path:
                self.files["/" + path] = (mode, None)
            files = [adb.object(word, FILE) for word in adb.array(directory.get("files", 0))]
            listed = [adb.text(file["name"]) for file in files]
            must(listed == sorted(set(listed)), f"files in {path} are not sorted: {listed}")
            for place, file in enumerate(files, 1):
                contents = data.pop((number, place), b"")
                must(adb.value(file["size"]) == len(contents), f"the size of {listed[place - 1]} is wrong")
                must(adb.value(file["hashes"]) == hashlib.sha256(contents).digest(), f"the hash of {listed[place - 1]} is wrong")
                self.times.add(adb.value(file["mtime"]))
                self.files[f"/{path}/{listed[place - 1]}"] = (self._acl(file["acl"]), contents)
                size += len(contents)
        must(not data, f"data without a file: {list(data)}")
        adb.complete()
        # The package's identity: the payload's hash, with zeroes where it stands itself.
        at = adb.payload.index(self.info["hashes"])
        blank = adb.payload[:at] + bytes(20) + adb.payload[at + 20 :]
        must(hashlib.sha256(blank).digest()[:20] == self.info["hashes"], "info.hashes is not the payload's")

    def _acl(self, word):
        acl = self.adb.object(word, ACL)
        must((self.adb.text(acl["user"]), self.adb.text(acl["group"])) == ("root", "root"), "not owned by root")
        return self.adb.value(acl["mode"])


class ApkIndex:
    def __init__(self, octets, complete=True):
        adb = Adb(octets)
        must(adb.schema == b"indx" and not adb.data, "not an index")
        root = adb.object(adb.root, ["description", "packages"])
        adb.text(root["description"])
        self.adb, self.packages = adb, [adb.info(word) for word in adb.array(root["packages"])]
        if complete:
            adb.complete()

    def verify(self, public_pem):
        """With the program openssl, as apk does with its library."""
        must(len(self.adb.signatures) == 1, f"{len(self.adb.signatures)} signatures")
        block = self.adb.signatures[0]
        must(block[:2] == b"\x00\x04", "the signature is of another version or hash")
        der = base64.b64decode("".join(line for line in public_pem.decode().splitlines() if "-" not in line))
        must(hashlib.sha512(der[-65:]).digest()[:16] == block[2:18], "the signature is of another key")
        signed = b"indx" + block[:18] + hashlib.sha512(self.adb.payload).digest()
        with tempfile.TemporaryDirectory() as folder:
            for name, data in {"key": public_pem, "signature": block[18:], "message": signed}.items():
                (Path(folder) / name).write_bytes(data)
            command = ["openssl", "dgst", "-sha512", "-verify", "key", "-signature", "signature", "message"]
            must(subprocess.run(command, cwd=folder, capture_output=True, check=False).returncode == 0, "the signature is wrong")


def verify_signify(public_file, message, signature_file):
    """By the program signify, whose files usign reads and writes."""
    with tempfile.TemporaryDirectory() as folder:
        for name, data in {"key.pub": public_file, "message.sig": signature_file, "message": message}.items():
            (Path(folder) / name).write_bytes(data)
        command = ["signify-openbsd", "-V", "-q", "-p", "key.pub", "-m", "message"]
        run = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        must(run.returncode == 0, f"signify: {run.stderr.strip()}")

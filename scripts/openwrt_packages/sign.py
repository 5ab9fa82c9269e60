"""Signatures of feed indexes, by the program openssl: keys stay in their files, and no cryptography is written here."""

import base64
import hashlib
import struct
import subprocess
import tempfile

from . import Refused

ED25519_SPKI = bytes.fromhex("302a300506032b6570032100")
P256_SPKI = bytes.fromhex("3059301306072a8648ce3d020106082a8648ce3d030107034200")


class OpkgKey:
    """An Ed25519 key (PEM); signatures and the public key have the form of usign and signify."""

    def __init__(self, path):
        self.path = path
        self.public = _public(path, ED25519_SPKI, "Ed25519", "openssl genpkey -algorithm ed25519 -out FILE")
        # usign draws it at random; of the key itself it needs no second file.
        self.number = hashlib.sha256(self.public).digest()[:8]

    @property
    def name(self):
        """The public key's file name below /etc/opkg/keys."""
        return self.number.hex()

    def public_file(self):
        return _signify(f"wattle feed, key {self.name}", b"Ed" + self.number + self.public)

    def sign(self, message):
        with tempfile.NamedTemporaryFile() as file:
            file.write(message)
            file.flush()
            signature = _openssl(["pkeyutl", "-sign", "-rawin", "-inkey", str(self.path), "-in", file.name])
        return _signify(f"signed by key {self.name}", b"Ed" + self.number + signature)


class ApkKey:
    """A P-256 key (PEM); apk takes the public key as PEM, too."""

    def __init__(self, path):
        self.path = path
        self.public = _public(path, P256_SPKI, "P-256", "openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out FILE")

    def public_file(self):
        return _openssl(["pkey", "-in", str(self.path), "-pubout"])

    def sign(self, schema, payload):
        """A signature block: version 0, hash SHA-512 (4), the key's id, and a signature over these and the payload's hash."""
        head = struct.pack("<BB", 0, 4) + hashlib.sha512(self.public).digest()[:16]
        message = schema + head + hashlib.sha512(payload).digest()
        command = ["dgst", "-sha512", "-sign", str(self.path)]
        try:
            # RFC 6979: the same index, the same signature. OpenSSL knows it from 3.2 on.
            return head + _openssl([*command, "-sigopt", "nonce-type:1"], message)
        except Refused:
            return head + _openssl(command, message)


def _public(path, prefix, kind, make):
    der = _openssl(["pkey", "-in", str(path), "-pubout", "-outform", "DER"])
    if not der.startswith(prefix):
        raise Refused(f"{path} is no {kind} key; one is made by: {make}")
    return der[len(prefix) :]


def _signify(comment, octets):
    return f"untrusted comment: {comment}\n{base64.b64encode(octets).decode()}\n".encode()


def _openssl(arguments, data=None):
    try:
        # Never from a terminal: a key with a passphrase is refused, not asked for.
        run = subprocess.run(["openssl", *arguments], input=data or b"", capture_output=True, check=False)
    except FileNotFoundError:
        raise Refused("signing needs the program openssl (package openssl)") from None
    if run.returncode:
        said = run.stderr.decode(errors="replace").strip().splitlines() or ["it says nothing"]
        raise Refused(f"openssl {arguments[0]} failed: {said[0]}")
    return run.stdout

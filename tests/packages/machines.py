"""Programs for each machine, as small as an ELF file can be: what the packer must read in them, and nothing that runs."""

import os
import struct
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# WATTLE=path, as for the live tests.
RELEASE = Path(os.environ.get("WATTLE", ROOT / "target/release/wattle"))
STRING_TABLE = b"\0.shstrtab\0.ARM.attributes\0"


def program(machine, wide, flags=0, attributes=None, interpreter=False, little=True, kind=2):
    """An ELF program with one segment and, for ARM, the section of attributes."""
    order = "<" if little else ">"
    header, segment, section = (64, 56, 64) if wide else (52, 32, 40)
    body = b"made by hand for a test\n" * 8
    segments = [3 if interpreter else 1]
    sections = [(0, 0, b""), (1, 3, STRING_TABLE)]
    if attributes is not None:
        sections.append((11, 0x70000003, attributes))
    text = bytearray(body)
    placed = []
    start = header + segment * len(segments)
    for name, sort, contents in sections:
        placed.append((name, sort, start + len(text), len(contents)))
        text += contents
    shoff = start + len(text)
    word = "Q" if wide else "I"
    ident = b"\x7fELF" + bytes([2 if wide else 1, 1 if little else 2, 1]) + bytes(9)
    numbers = (kind, machine, 1, 0x10000, header, shoff, flags, header, segment, len(segments), section, len(sections), 1)
    out = ident + struct.pack(order + f"HHI{word}{word}{word}IHHHHHH", *numbers)
    for sort in segments:
        if wide:
            out += struct.pack(order + "IIQQQQQQ", sort, 5, start, 0x10000, 0x10000, len(body), len(body), 0x10000)
        else:
            out += struct.pack(order + "IIIIIIII", sort, start, 0x10000, 0x10000, len(body), len(body), 5, 0x10000)
    out += text
    for name, sort, at, size in placed:
        if wide:
            out += struct.pack(order + "IIQQQQIIQQ", name, sort, 0, 0, at, size, 0, 0, 1, 0)
        else:
            out += struct.pack(order + "IIIIIIIIII", name, sort, 0, 0, at, size, 0, 0, 1, 0)
    return out


def arm(cpu_arch, hard, name=b"7-A"):
    """.ARM.attributes with a text (5), the architecture (6), an odd tag above 32 and the calling convention (28)."""
    pairs = b"\x05" + name + b"\0" + bytes([6, cpu_arch]) + b"\x43text\0" + (bytes([28, 1]) if hard else b"")
    file = b"\x01" + struct.pack("<I", 5 + len(pairs)) + pairs
    vendor = b"aeabi\0" + file
    other = b"gnu\0" + b"\x01" + struct.pack("<I", 5)
    attributes = b"A" + struct.pack("<I", 4 + len(other)) + other + struct.pack("<I", 4 + len(vendor)) + vendor
    return program(40, False, 0x05000400 if hard else 0x05000200, attributes)


BY_TARGET = {
    "x86_64-unknown-linux-musl": program(62, True),
    "aarch64-unknown-linux-musl": program(183, True),
    "armv7-unknown-linux-musleabihf": arm(10, True),
    "armv7-unknown-linux-musleabi": arm(10, False),
    "armv5te-unknown-linux-musleabi": arm(4, False, b"5TE"),
    "mipsel-unknown-linux-musl": program(8, False, 0x70001007),
}


def release_binary():
    """The release binary as it would be packed, or None. Built for glibc it names an interpreter, which is taken out: what
    it is packed for here is its size and contents, and a musl build has none."""
    if not RELEASE.exists():
        return None
    data = bytearray(RELEASE.read_bytes())
    if data[18:20] != b"\x3e\0":
        return None
    phoff, phnum = struct.unpack_from("<Q", data, 32)[0], struct.unpack_from("<H", data, 56)[0]
    for at in range(phoff, phoff + 56 * phnum, 56):
        if struct.unpack_from("<I", data, at)[0] == 3:
            struct.pack_into("<I", data, at, 0)
    return bytes(data)

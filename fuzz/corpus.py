"""Packs a corpus into one file (each input with its length in front, in two octets), and unpacks it for libFuzzer.

    corpus.py unpack FILE FOLDER
    corpus.py pack FILE FOLDER MORE    all of FOLDER, and what else fits of MORE, the shortest first
"""

import hashlib
import sys
from pathlib import Path

# All targets together stay below half a megabyte, and CI replays them in seconds.
LARGEST = 50_000


def unpack(file, folder):
    rest = file.read_bytes() if file.exists() else b""
    while rest:
        end = 2 + int.from_bytes(rest[:2], "big")
        data, rest = rest[2:end], rest[end:]
        (folder / hashlib.sha1(data).hexdigest()).write_bytes(data)


def pack(file, folder, more):
    read = lambda folder: sorted({path.read_bytes() for path in folder.iterdir()}, key=lambda data: (len(data), data))
    inputs = read(folder)
    size = sum(2 + len(data) for data in inputs)
    for data in read(more):
        size += 2 + len(data)
        if size > LARGEST:
            break
        if data not in inputs:
            inputs.append(data)
    packed = b"".join(len(data).to_bytes(2, "big") + data for data in inputs)
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(packed)
    print(f"kept: {len(inputs)} inputs, {len(packed)} octets")


{"unpack": unpack, "pack": pack}[sys.argv[1]](*map(Path, sys.argv[2:]))

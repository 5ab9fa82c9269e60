"""apk's database format, version 3: values in 32-bit words that point backwards into one payload, and blocks around it."""

import struct
import zlib

INT, INT_32, INT_64 = 0x1, 0x2, 0x3
BLOB_8, BLOB_16, BLOB_32 = 0x8, 0x9, 0xA
ARRAY, OBJECT = 0xD, 0xE
NOTHING = 0

BLOCK_ADB, BLOCK_SIGNATURE, BLOCK_DATA = 0, 1, 2
MOST = (1 << 28) - 1


class Own(bytes):
    """Octets with a place of their own, which equal octets elsewhere do not share: they are written over later."""


def encode(document):
    """The payload of a document: dictionaries from field number to value are objects, lists are arrays; 0, empty text and
    empty lists are absent. Returns the payload and where each `Own` lies."""
    encoder = _Encoder()
    root = encoder.value(document)
    struct.pack_into("<I", encoder.out, 4, root)
    return bytes(encoder.out), encoder.own


def file(schema, payload, signatures=(), data=()):
    """The octets of a file, deflated: OpenWrt's apk has no zstd."""
    parts = [_block(BLOCK_ADB, payload)]
    parts += [_block(BLOCK_SIGNATURE, signature) for signature in signatures]
    parts += [_block(BLOCK_DATA, contents) for contents in data]
    deflate = zlib.compressobj(9, zlib.DEFLATED, -15)
    return b"ADBd" + deflate.compress(b"ADB." + schema + b"".join(parts)) + deflate.flush()


def _block(kind, contents):
    # The length counts its own four octets; the padding to eight is not in it.
    size = 4 + len(contents)
    return struct.pack("<I", kind << 30 | size) + contents + bytes(-size % 8)


class _Encoder:
    def __init__(self):
        # Two version octets (0), two reserved ones, and the root, which is known last.
        self.out = bytearray(8)
        self.places = {}
        self.own = []

    def value(self, item):
        if isinstance(item, dict):
            slots = [self.value(item.get(number)) for number in range(1, max(item, default=0) + 1)]
            return self.slots(OBJECT, slots)
        if isinstance(item, list):
            return self.slots(ARRAY, [self.value(member) for member in item])
        if isinstance(item, str):
            return self.octets(item.encode())
        if isinstance(item, bytes):
            return self.octets(item)
        return self.number(item or 0)

    def slots(self, kind, slots):
        while slots and slots[-1] == NOTHING:
            slots.pop()
        if not slots:
            return NOTHING
        # The first word counts itself.
        return self.store(kind, struct.pack(f"<{len(slots) + 1}I", len(slots) + 1, *slots), 4)

    def octets(self, data):
        if not data:
            return NOTHING
        if len(data) < 1 << 8:
            kind, length = BLOB_8, struct.pack("<B", len(data))
        elif len(data) < 1 << 16:
            kind, length = BLOB_16, struct.pack("<H", len(data))
        else:
            kind, length = BLOB_32, struct.pack("<I", len(data))
        if isinstance(data, Own):
            value = self.store(kind, length + data, len(length), share=False)
            self.own.append((value & MOST) + len(length))
            return value
        return self.store(kind, length + data, len(length))

    def number(self, number):
        if number == 0:
            return NOTHING
        if number <= MOST:
            return INT << 28 | number
        if number < 1 << 32:
            return self.store(INT_32, struct.pack("<I", number), 4)
        return self.store(INT_64, struct.pack("<Q", number), 8)

    def store(self, kind, data, alignment, share=True):
        place = self.places.get((alignment, data)) if share else None
        if place is None:
            self.out += bytes(-len(self.out) % alignment)
            place = len(self.out)
            self.out += data
            if share:
                self.places[alignment, data] = place
        return kind << 28 | place

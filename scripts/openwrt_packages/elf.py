"""Which machine a binary is for, so that no package promises what its binary cannot keep."""

import struct
from dataclasses import dataclass

from . import Refused

EM_MIPS, EM_ARM, EM_X86_64, EM_AARCH64 = 8, 40, 62, 183
PT_INTERP = 3
SHT_ARM_ATTRIBUTES = 0x7000_0003
EF_ARM_ABI_FLOAT_HARD = 0x400


@dataclass(frozen=True)
class Binary:
    machine: str
    # Only for "arm": the version of the instruction set, and the convention for floating point.
    arm: int | None = None
    float: str | None = None

    def is_for(self, target):
        """Whether it was built for this target of package.toml."""
        return self.machine == target["machine"] and (self.arm, self.float) == (target.get("arm"), target.get("float"))

    def runs_on(self, target):
        """Whether the target's machines can run it; soft floating point runs everywhere, since it is static."""
        if self.machine != target["machine"]:
            return False
        if self.machine != "arm":
            return True
        return self.arm <= target["arm"] and (self.float == "soft" or target["float"] == "hard")

    def __str__(self):
        return self.machine if self.arm is None else f"ARMv{self.arm} with {self.float} floating point"


def identify(data):
    """Reads the headers of an ELF file; refuses what is no static program for a machine in package.toml."""
    if data[:4] != b"\x7fELF" or len(data) < 52:
        raise Refused("the binary is not an ELF file")
    wide, order = {1: False, 2: True}.get(data[4]), {1: "<", 2: ">"}.get(data[5])
    if wide is None or order is None:
        raise Refused("the binary's ELF header is damaged")
    kind, machine = struct.unpack_from(order + "HH", data, 16)
    if kind not in (2, 3):
        raise Refused("the binary is not a program but an object file or a core dump")
    try:
        programs, sections, flags = _tables(data, wide, order)
    except (struct.error, OverflowError):
        raise Refused("the binary's ELF file is cut off") from None
    if any(program == PT_INTERP for program in programs):
        raise Refused("the binary is linked dynamically: build it for a musl target, which links statically")
    if (machine, wide, order) == (EM_X86_64, True, "<"):
        return Binary("x86-64")
    if (machine, wide, order) == (EM_AARCH64, True, "<"):
        return Binary("aarch64")
    if (machine, wide, order) == (EM_MIPS, False, "<"):
        return Binary("mipsel")
    if (machine, wide, order) != (EM_ARM, False, "<"):
        raise Refused(f"no OpenWrt machine of package.toml has this ELF header: machine {machine}, {'64' if wide else '32'} bits")
    attributes = next((body for kind, body in sections if kind == SHT_ARM_ATTRIBUTES), None)
    if attributes is None:
        raise Refused("the binary does not say which ARM it is for: strip it so that .ARM.attributes stays")
    values = arm_attributes(attributes)
    hard = values.get(28) == 1 or bool(flags & EF_ARM_ABI_FLOAT_HARD)
    return Binary("arm", _arm_version(values.get(6, 0)), "hard" if hard else "soft")


def arm_attributes(body):
    """The file's own attributes of the section .ARM.attributes (ABI for the Arm Architecture: build attributes)."""
    values = {}
    at = 1
    try:
        while body[:1] == b"A" and at < len(body):
            length = struct.unpack_from("<I", body, at)[0]
            vendor_end = body.index(0, at + 4)
            if length < 4:
                break
            if body[at + 4 : vendor_end] == b"aeabi":
                values |= _attributes_of_file(body[vendor_end + 1 : at + length])
            at += length
    except (struct.error, ValueError, IndexError):
        raise Refused("the binary's .ARM.attributes are damaged") from None
    return values


def _attributes_of_file(part):
    values = {}
    at = 0
    while at < len(part):
        scope, size = part[at], struct.unpack_from("<I", part, at + 1)[0]
        if size < 5:
            break
        if scope == 1:
            values |= _pairs(part[at + 5 : at + size])
        at += size
    return values


def _pairs(part):
    values = {}
    at = 0
    while at < len(part):
        tag, at = _uleb(part, at)
        # Names are text, and so is what follows 32 with an odd number; 32 itself is a number and a text.
        if tag in (4, 5) or (tag > 32 and tag % 2):
            at = part.index(0, at) + 1
            continue
        values[tag], at = _uleb(part, at)
        if tag == 32:
            at = part.index(0, at) + 1
    return values


def _uleb(part, at):
    value = shift = 0
    while True:
        octet = part[at]
        value |= (octet & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if not octet & 0x80:
            return value, at


def _arm_version(cpu_arch):
    """Tag_CPU_arch: 3 to 5 are ARMv5 with letters, 6 to 9 ARMv6, 11 and 12 microcontrollers with v6 code, 10 ARMv7."""
    if cpu_arch < 6:
        return 5 if cpu_arch >= 3 else 4
    if cpu_arch in (6, 7, 8, 9, 11, 12):
        return 6
    return 7 if cpu_arch in (10, 13) else 8


def _tables(data, wide, order):
    if wide:
        phoff, shoff, flags, _, phsize, phnum, shsize, shnum = struct.unpack_from(order + "QQIHHHHH", data, 32)
    else:
        phoff, shoff, flags, _, phsize, phnum, shsize, shnum = struct.unpack_from(order + "IIIHHHHH", data, 28)
    programs = [struct.unpack_from(order + "I", data, phoff + i * phsize)[0] for i in range(phnum)]
    sections = []
    for i in range(shnum):
        at = shoff + i * shsize
        kind = struct.unpack_from(order + "I", data, at + 4)[0]
        start, size = struct.unpack_from(order + ("QQ" if wide else "II"), data, at + (24 if wide else 16))
        sections.append((kind, data[start : start + size]))
    return programs, sections, flags

"""The .ipk format of opkg, and its feed index."""

import hashlib
import io
import tarfile
import zlib

MAINTAINER_SCRIPTS = {
    # OpenWrt's own functions enable and start the service, and stop it; without them this is no OpenWrt, and nothing is done.
    "postinst": """#!/bin/sh
[ "${IPKG_NO_SCRIPT}" = 1 ] && exit 0
[ -s "${IPKG_INSTROOT}/lib/functions.sh" ] || exit 0
. "${IPKG_INSTROOT}/lib/functions.sh"
default_postinst "$0" "$@"
""",
    "prerm": """#!/bin/sh
[ -s "${IPKG_INSTROOT}/lib/functions.sh" ] || exit 0
. "${IPKG_INSTROOT}/lib/functions.sh"
default_prerm "$0" "$@"
""",
}


def file_name(package):
    return f"{package.name}_{package.version('~')}_{package.architecture}.ipk"


def build(package):
    """The package's octets: a gzipped tar of two gzipped tars and a version."""
    data = _tar([(entry.path, entry.mode, entry.data) for entry in package.entries], package.time)
    control = [
        ("/control", 0o644, _control(package, len(data)).encode()),
        ("/conffiles", 0o644, "".join(f"{path}\n" for path in package.conffiles).encode()),
        *((f"/{name}", 0o755, text.encode()) for name, text in MAINTAINER_SCRIPTS.items()),
    ]
    parts = [
        ("/debian-binary", 0o644, b"2.0\n"),
        ("/data.tar.gz", 0o644, gzip(data)),
        ("/control.tar.gz", 0o644, gzip(_tar(control, package.time))),
    ]
    return gzip(_tar(parts, package.time, root=False))


def index(packages):
    """The text of `Packages` for (package, octets) pairs."""
    stanzas = []
    for package, octets in packages:
        with tarfile.open(fileobj=io.BytesIO(octets)) as outer:
            data = zlib.decompress(outer.extractfile("./data.tar.gz").read(), 31)
        stanzas.append(
            _control(
                package,
                len(data),
                [
                    ("Filename", file_name(package)),
                    ("Size", str(len(octets))),
                    ("SHA256sum", hashlib.sha256(octets).hexdigest()),
                ],
            )
        )
    return "\n".join(stanzas)


def gzip(data):
    """Without name and time, so that the same contents give the same octets (with the same zlib)."""
    deflate = zlib.compressobj(9, zlib.DEFLATED, -15)
    body = deflate.compress(data) + deflate.flush()
    tail = zlib.crc32(data).to_bytes(4, "little") + (len(data) & 0xFFFF_FFFF).to_bytes(4, "little")
    return b"\x1f\x8b\x08\x00" + bytes(4) + b"\x02\xff" + body + tail


def _control(package, size, more=()):
    fields = [
        ("Package", package.name),
        ("Version", package.version("~")),
        ("Depends", ", ".join(package.depends)),
        ("SourceName", package.name),
        ("License", package.license),
        ("Section", package.section),
        ("SourceDateEpoch", str(package.time)),
        ("Maintainer", package.maintainer),
        ("Architecture", package.architecture),
        ("Installed-Size", str(size)),
        *more,
        # Last: what follows it indented belongs to it.
        ("Description", package.description),
    ]
    return "".join(f"{name}: {value}\n" for name, value in fields)


def _tar(entries, time, root=True):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for path, mode, data in [("", 0o755, None)] * root + list(entries):
            info = tarfile.TarInfo("." + path if path else "./")
            info.mode, info.mtime = mode, time
            if data is None:
                info.type = tarfile.DIRTYPE
                tar.addfile(info)
            else:
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
    return out.getvalue()

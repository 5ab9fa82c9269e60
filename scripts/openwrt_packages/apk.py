"""The .apk format of apk-tools 3 as OpenWrt uses it, and its feed index."""

import hashlib
import struct

from . import adb
from .contents import Entry, with_directories

# The scripts of a package by their number in it. As everywhere in OpenWrt, its own functions enable, start and stop the service;
# apk upgrades by the last one only.
POST_INSTALL, PRE_DEINSTALL, POST_UPGRADE = 3, 4, 7
ROOT_ACL = {1: 0o755, 2: "root", 3: "root"}


def file_name(package):
    return f"{package.name}-{package.version('_')}.apk"


def build(package):
    """The package's octets. Packages are not signed, as in OpenWrt: the index is."""
    payload, data = _payload(package)
    return adb.file(b"pckg", payload, data=data)


def index(packages):
    """The payload of `packages.adb` for (package, octets) pairs."""
    infos = []
    for package, octets in packages:
        digest = hashlib.sha256(_payload(package)[0]).digest()
        infos.append(_info(package, digest, file_size=len(octets)))
    payload, _ = adb.encode({1: packages[0][0].name, 2: infos})
    return payload


def _payload(package):
    entries = _entries_with_lists(package)
    tree, data = _tree(entries, package.time)
    # The package's name in the database is the hash of all of this, with zeroes in its place.
    payload, own = adb.encode({1: _info(package, adb.Own(bytes(20))), 2: tree, 3: _scripts(package.name)})
    digest = hashlib.sha256(payload).digest()[:20]
    payload = payload[: own[0]] + digest + payload[own[0] + 20 :]
    return payload, data


def _info(package, digest, file_size=0):
    return {
        1: package.name,
        2: package.version("_"),
        3: digest,
        4: package.description,
        5: package.architecture,
        6: package.license,
        7: package.name,
        8: package.maintainer,
        11: package.time,
        12: sum(len(entry.data) for entry in package.files),
        13: file_size,
        15: [{1: name} for name in sorted(package.depends)],
    }


def _entries_with_lists(package):
    """Adds what OpenWrt's functions look for: by the list they find the service, by the others `sysupgrade` what has changed."""
    base = f"/lib/apk/packages/{package.name}"
    lists = {
        ".list": [entry.path for entry in package.files],
        ".conffiles": package.conffiles,
        ".conffiles_static": [f"{path} {package.digest_of(path)}" for path in package.conffiles],
    }
    added = [Entry(base + suffix, 0o644, "".join(f"{line}\n" for line in lines).encode()) for suffix, lines in lists.items()]
    modes = {entry.path: f"{entry.mode:o}" for entry in package.entries if entry.data is None}
    return with_directories([*package.files, *added], modes)


def _tree(entries, time):
    """The directories with their files, and the contents of the files with their places in it."""
    directories = {"": (ROOT_ACL, [])}
    for entry in entries:
        acl = {1: entry.mode, 2: "root", 3: "root"}
        parent, _, name = entry.path[1:].rpartition("/")
        if entry.data is None:
            directories[entry.path[1:]] = (acl, [])
        else:
            directories[parent][1].append((name, acl, entry.data))
    tree, contents = [], []
    for number, (path, (acl, files)) in enumerate(sorted(directories.items()), 1):
        listed = []
        for place, (name, file_acl, data) in enumerate(sorted(files), 1):
            listed.append({1: name, 2: file_acl, 3: len(data), 4: time, 5: hashlib.sha256(data).digest()})
            if data:
                contents.append(struct.pack("<II", number, place) + data)
        tree.append({1: path, 2: acl, 3: listed})
    return tree, contents


def _scripts(name):
    functions = '[ -s "${IPKG_INSTROOT}/lib/functions.sh" ] || exit 0\n. "${IPKG_INSTROOT}/lib/functions.sh"\n'
    names = f'export root="${{IPKG_INSTROOT}}"\nexport pkgname="{name}"\n'
    install = '[ "${IPKG_NO_SCRIPT}" = 1 ] && exit 0\n' + functions + names + "add_group_and_user\ndefault_postinst\n"
    return {
        POST_INSTALL: "#!/bin/sh\n" + install,
        PRE_DEINSTALL: "#!/bin/sh\n" + functions + names + "default_prerm\n",
        POST_UPGRADE: "#!/bin/sh\nexport PKG_UPGRADE=1\n" + install,
    }

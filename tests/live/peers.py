"""strongSwan, BIRD and babeld, unpacked beside the system: software that no one here wrote.

Debian's testing suite has the first strongSwan with ML-KEM. Its packages are unpacked into a folder of their own (no
maintainer script runs, nothing of the host changes) and run by chroot in a mount namespace of their own.
"""

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

from lab import run, wait_for

SUITE = os.environ.get("WATTLE_PEERS_SUITE", "forky")
FOLDER = Path(os.environ.get("WATTLE_PEERS", Path.home() / ".cache" / "wattle-peers" / SUITE))
PACKAGES = [
    "base-files", "libc6", "busybox-static", "charon-systemd", "strongswan-swanctl", "strongswan-pki",
    "libstrongswan-standard-plugins", "libstrongswan-extra-plugins", "libcharon-extra-plugins", "bird2", "babeld",
]
DONE = FOLDER / ".complete"


class Unavailable(Exception):
    """The peers cannot be had: a reason in words."""


def install():
    """Unpacks the peers, once. Takes about half a minute."""
    if DONE.exists():
        return
    if not shutil.which("mmdebstrap"):
        raise Unavailable("mmdebstrap is not installed (apt-get install mmdebstrap)")
    targets = run("apt-get", "indextargets", "--format", "$(SITE) $(ORIGIN)", "Created-By: Packages").stdout
    sites = [line.split()[0] for line in targets.splitlines() if line.split()[1:] == ["Debian"]]
    if not sites:
        raise Unavailable("apt knows no Debian mirror (run apt-get update)")
    unpacked = FOLDER.with_name(FOLDER.name + f".{os.getpid()}")
    unpacked.parent.mkdir(parents=True, exist_ok=True)
    try:
        # A mirror that stands still lets a testing suite's Release file expire; its signature is checked all the same.
        done = run("mmdebstrap", "--mode=root", "--variant=extract", '--aptopt=Acquire::Check-Valid-Until "false"',
                   '--aptopt=Apt::Install-Recommends "false"', f"--include={','.join(PACKAGES)}", SUITE, unpacked, sites[0],
                   check=False)
        if done.returncode != 0:
            raise Unavailable("mmdebstrap failed: " + done.stderr.strip()[-300:])
        (unpacked / "etc" / "passwd").write_text("root:x:0:0:root:/root:/bin/sh\n")
        (unpacked / "etc" / "group").write_text("root:x:0:\n")
        (unpacked / ".complete").touch()
        shutil.rmtree(FOLDER, ignore_errors=True)
        unpacked.rename(FOLDER)
    finally:
        shutil.rmtree(unpacked, ignore_errors=True)


# Folders of the instance lie over those of the unpacked system, in a mount namespace that ends with the process.
ENTER = r"""
set -e
root=$1; inst=$2; shift 2
mount --make-rprivate /
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount --bind "$inst/run" "$root/run"
mount --bind "$inst/tmp" "$root/tmp"
for part in "$inst"/etc/*; do
    target=$root/etc/${part##*/}
    [ -e "$target" ] || { [ -d "$part" ] && mkdir -p "$target" || : > "$target"; }
    mount --bind "$part" "$target"
done
exec chroot "$root" "$@"
"""


class Instance:
    """A program of the unpacked system, with /etc, /run and /tmp of its own, in a namespace of a lab."""

    def __init__(self, lab, namespace, name):
        self.lab, self.namespace, self.name = lab, namespace, name
        self.folder = lab.folder / name
        for part in ("run", "tmp", "etc"):
            (self.folder / part).mkdir(parents=True)
        self.process = None

    def spawn(self, *command):
        self.process = self.lab.spawn(
            self.namespace, "unshare", "-m", "bash", "-c", ENTER, "enter", FOLDER, self.folder, *command,
            log=self.folder / "stdout")

    def control(self, *command, check=True):
        """Runs a program beside the instance, in its namespaces."""
        return run("nsenter", "-t", self.process.pid, "-n", "-m", "-r", "-w", *command, check=check)

    @property
    def log_text(self):
        log = self.folder / "run" / "log"
        return log.read_text(errors="replace") if log.exists() else ""


def section(name, content):
    """Settings as strongSwan's files write them: dictionaries are sections."""
    lines = [section(key, value) if isinstance(value, dict) else f"{key} = {value}\n" for key, value in content.items()]
    return f"{name} {{\n{''.join(lines)}}}\n"


class Charon(Instance):
    """A strongSwan daemon with userspace ESP."""

    def __init__(self, lab, namespace, name):
        super().__init__(lab, namespace, f"charon-{name}")
        swanctl = self.folder / "etc" / "swanctl"
        for part in ("private", "pubkey", "x509", "x509ca", "x509aa", "x509ac", "x509crl", "x509ocsp", "rsa", "ecdsa", "pkcs8",
                     "pkcs12", "conf.d"):
            (swanctl / part).mkdir(parents=True)

    def tool(self, *command, data=None):
        """Runs a program of the unpacked system."""
        return subprocess.run(["chroot", str(FOLDER), *command], input=data, capture_output=True, check=True).stdout

    def make_key(self):
        """Makes an Ed25519 key as strongSwan's own tool does and returns the public key as PEM."""
        key = self.tool("/usr/bin/pki", "--gen", "--type", "ed25519", "--outform", "pem")
        public = self.tool("/usr/bin/pki", "--pub", "--type", "priv", "--outform", "pem", data=key)
        swanctl = self.folder / "etc" / "swanctl"
        (swanctl / "private" / "own.key").write_bytes(key)
        (swanctl / "pubkey" / "own.pub").write_bytes(public)
        return public.decode()

    def configure(self, peer_key, local, remote, connection=(), child=(), daemon=()):
        """One connection `peer` with one child `net`; `local` and `remote` are (address, identity).

        `connection`, `child` and `daemon` are settings of swanctl.conf and strongswan.conf, beside or instead of the usual.
        """
        swanctl = self.folder / "etc" / "swanctl"
        (swanctl / "pubkey" / "peer.pub").write_text(peer_key)
        of_connection = {
            "version": 2, "local_addrs": local[0], "remote_addrs": remote[0], "local_port": 4500, "remote_port": 4500,
            "proposals": "aes256gcm16-prfsha256-x25519-ke1_mlkem768", "encap": "yes", "mobike": "no", "fragmentation": "yes",
            **dict(connection)}
        of_child = {
            "local_ts": "0.0.0.0/0,::/0", "remote_ts": "0.0.0.0/0,::/0", "esp_proposals": "aes256gcm16", "mode": "tunnel",
            **dict(child)}
        (swanctl / "swanctl.conf").write_text(section("connections", {"peer": {
            **of_connection,
            "local": {"id": local[1], "auth": "pubkey", "pubkeys": "own.pub"},
            "remote": {"id": remote[1], "auth": "pubkey", "pubkeys": "peer.pub"},
            "children": {"net": of_child}}}))
        # kernel-libipsec is the ESP that needs no kernel support; it has to come before kernel-netlink. The marks keep
        # its own datagrams out of its tunnel.
        (self.folder / "etc" / "strongswan.conf").write_text(section("charon-systemd", {
            "load": "random nonce openssl pubkey pkcs1 pkcs8 pem curve25519 chapoly aes sha1 sha2 hmac kdf gcm drbg "
                    "kernel-libipsec kernel-netlink socket-default vici updown",
            "routing_table": 220, "routing_table_prio": 40000,
            "plugins": {
                "kernel-libipsec": {"allow_peer_ts": "yes"}, "socket-default": {"fwmark": "0x42"},
                "kernel-netlink": {"fwmark": "!0x42"}, "vici": {"socket": "unix:///run/charon.vici"}},
            "filelog": {"log": {
                "path": "/run/log", "default": 1, "ike": 2, "cfg": 2, "flush_line": "yes", "append": "yes",
                "time_format": "%s", "time_add_ms": "yes"}},
            "journal": {"default": -1},
            **dict(daemon)}) + section("swanctl", {"load": "pem pkcs1 pkcs8 pubkey openssl curve25519 random nonce"}))

    def take(self, peer_name, peer_key, swanctl, strongswan):
        """Uses configuration files that are given as text; the peer's key is called `peer_name`.pub in them."""
        (self.folder / "etc" / "swanctl" / "pubkey" / f"{peer_name}.pub").write_text(peer_key)
        (self.folder / "etc" / "swanctl" / "swanctl.conf").write_text(swanctl)
        (self.folder / "etc" / "strongswan.conf").write_text(strongswan)

    def start(self, addresses=(), routes=()):
        """Starts the daemon and gives its tunnel device addresses and routes."""
        (self.folder / "run" / "charon.vici").unlink(missing_ok=True)
        self.spawn("/usr/sbin/charon-systemd")
        wait_for("charon's socket", (self.folder / "run" / "charon.vici").is_socket, 10)
        self.ctl("--load-all", "--noprompt")
        wait_for("ipsec0", lambda: run("ip", "-n", self.namespace, "link", "show", "ipsec0", check=False).returncode == 0, 5)
        for address in addresses:
            run("ip", "-n", self.namespace, "addr", "add", address, "dev", "ipsec0", "nodad" if ":" in address else "scope",
                *([] if ":" in address else ["global"]))
        run("ip", "-n", self.namespace, "link", "set", "ipsec0", "up")
        for route in routes:
            run("ip", "-n", self.namespace, "route", "add", route, "dev", "ipsec0")

    def ctl(self, command, *more, check=True):
        return self.control("/usr/sbin/swanctl", command, "--uri", "unix:///run/charon.vici", *more, check=check)


class Bird(Instance):
    """BIRD, with a configuration file that is given as text."""

    def __init__(self, lab, namespace, config, name="bird"):
        super().__init__(lab, namespace, name)
        (self.folder / "etc" / "bird.conf").write_text(config)

    def start(self):
        (self.folder / "run" / "bird.ctl").unlink(missing_ok=True)
        self.spawn("/usr/sbin/bird", "-f", "-c", "/etc/bird.conf", "-s", "/run/bird.ctl")
        wait_for("BIRD's socket", (self.folder / "run" / "bird.ctl").is_socket, 5)

    def show(self, *what):
        return self.control("/usr/sbin/birdc", "-s", "/run/bird.ctl", "show", *what).stdout


def bird_over_a_tunnel(interface, router_id, announce4, announce6):
    """A configuration for one interface, with the link costs that wattle has by default."""
    return f"""
log "/run/log" all;
router id {router_id};
ipv6 sadr table sadr6;
protocol device {{ scan time 2; }}
protocol kernel {{ ipv4 {{ import none; export where source = RTS_BABEL; }}; }}
protocol kernel {{ ipv6 sadr {{ table sadr6; import none; export where source = RTS_BABEL; }}; }}
protocol static {{ ipv4; route {announce4} unreachable; }}
protocol static {{ ipv6 sadr {{ table sadr6; }}; route {announce6} from ::/0 unreachable; }}
protocol babel mesh {{
  ipv4 {{ import all; export all; }};
  ipv6 sadr {{ table sadr6; import all; export all; }};
  interface "{interface}" {{
    type tunnel; rxcost 16; hello interval 4 s; send timestamps yes; check link no; extended next hop yes;
    rtt cost 4000; rtt min 1 ms; rtt max 1000 ms;
  }};
}}
"""


class Babeld(Instance):
    """babeld, with a configuration file that is given as text."""

    PORT = 33123

    def __init__(self, lab, namespace, config, name="babeld"):
        super().__init__(lab, namespace, name)
        (self.folder / "etc" / "babeld.conf").write_text(config)

    def start(self):
        for stale in ("babeld.pid", "state"):
            (self.folder / "run" / stale).unlink(missing_ok=True)
        self.spawn("/usr/sbin/babeld", "-c", "/etc/babeld.conf", "-I", "/run/babeld.pid", "-S", "/run/state",
                   "-g", self.PORT, "-L", "/run/log")
        wait_for("babeld's port", self.dump, 5)

    def dump(self):
        """What the local interface says: lines of words."""
        script = f"exec 3<>/dev/tcp/::1/{self.PORT} && echo dump >&3 && echo quit >&3 && timeout 2 cat <&3"
        done = run("ip", "netns", "exec", self.namespace, "bash", "-c", script, check=False)
        return [line.split() for line in done.stdout.splitlines()]

    def tables(self):
        """The tables that babeld writes into its log when asked by a signal: they have the seqnos."""
        log = self.folder / "run" / "log"
        before = log.stat().st_size if log.exists() else 0
        self.process.send_signal(signal.SIGUSR1)
        time.sleep(0.3)
        return log.read_bytes()[before:].decode(errors="replace")

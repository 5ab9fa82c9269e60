"""The matrix of wattle and strongSwan: each row in both roles, with pings every 20 ms both ways throughout.

A row is judged by what both ends say (suites, SPIs) and by the pings: none may be lost, save in rows that freeze, move or
restart something, where the seconds until pings are answered again are the figure.
"""

import json
import re
import subprocess
import threading
import time
from dataclasses import asdict, dataclass, field

import peers
from lab import BINARY, Lab, ROOT, run, wait_for
from tunnel import INNER, OUTER, THEIRS, Tunnel

M768 = "aes256gcm16-prfsha256-x25519-ke1_mlkem768"
CLASSIC = "aes256gcm16-prfsha256-x25519"
PFS = "aes256gcm16-x25519-ke1_mlkem768"
# Seconds until the tunnel carries again after the peer is back, or has moved.
BACK, MOVED = 15, 3


@dataclass
class Result:
    row: str
    dials: str
    passed: bool = False
    sent: int = 0
    lost: int = 0
    recovery: float | None = None
    suite: str = ""
    note: str = ""
    seconds: float = 0.0


@dataclass
class Row:
    name: str
    what: str
    play: object
    wattle: dict = field(default_factory=dict)
    swan: dict = field(default_factory=dict)
    more: dict = field(default_factory=dict)
    # Who dials; in `quick` only those.
    roles: tuple = ("wattle", "swan")
    quick: tuple = ()
    # Not before something else is built; only when asked for by name.
    waits_for: str = ""


def steady(seconds=3.0, then=None):
    """Traffic, and both ends agree before and after; `then` looks for what is special."""
    def play(tunnel, result):
        tunnel.start()
        agreed = tunnel.agreement()
        chosen = tunnel.chosen("IKE")[-1]
        assert chosen == agreed.ike, f"strongSwan selected {chosen}, and shows {agreed.ike}"
        with tunnel.pings() as pings:
            time.sleep(seconds)
            result.sent, result.lost = pings.stop()
        agreed = tunnel.agreement()
        result.suite = f"{agreed.ike} / {agreed.esp}"
        if then:
            result.note = then(tunnel) or ""
    return play


def suite(ike, esp, policy="preferred"):
    return {"wattle": {"proposals": [ike], "esp": [esp], "pq": policy},
            "swan": {"connection": {"proposals": ike}, "child": {"esp_proposals": esp}}}


def rekeying(what, pfs):
    """Each side rekeys twice."""
    def play(tunnel, result):
        tunnel.start()
        tunnel.agreement()
        with tunnel.pings() as pings:
            time.sleep(0.5)
            for who in ("wattle", "swan", "swan", "wattle"):
                tunnel.rekey(who, what)
                time.sleep(0.5)
            agreed = tunnel.agreement()
            result.sent, result.lost = pings.stop()
        if what == "child":
            assert ("x25519" in agreed.esp) == pfs, agreed
            assert ("x25519" in tunnel.chosen("ESP")[-1]) == pfs
        assert tunnel.theirs.log_text.count("IKE_SA_INIT request") == 1, "rekeyed, not set up anew"
        result.suite = f"{agreed.ike} / {agreed.esp}"
    return play


def collisions(tunnel, result):
    """Both rekey by time, at the same time, and by command besides.

    One of them is stopped while both are told, so that its request leaves before it reads the other's, or just after.
    """
    tunnel.start()
    with tunnel.pings() as pings:
        for number, what in enumerate(("child", "child", "ike", "child", "ike", "ike") * 2):
            late = ("wattle", "swan")[number % 2]
            tunnel.freeze(late)
            wattle = [BINARY, "rekey", THEIRS, "--ike" if what == "ike" else "--data", "--socket", tunnel.ours.socket]
            both = subprocess.Popen([str(word) for word in wattle], stdout=subprocess.DEVNULL)
            other = threading.Thread(target=tunnel.theirs.ctl, args=("--rekey", *(("--ike", "peer") if what == "ike" else ("--child", "net"))),
                                     kwargs={"check": False})
            other.start()
            time.sleep(0.1)
            tunnel.thaw(late)
            both.wait()
            other.join()
            time.sleep(2.5)
        agreed = tunnel.agreement(30)
        result.sent, result.lost = pings.stop()
    log = tunnel.theirs.log_text
    assert log.count("IKE_SA_INIT request") == 1, "no other session"
    hits = len(re.findall(r"collision|TEMP_FAIL", log))
    assert hits, "the two never met"
    result.suite, result.note = f"{agreed.ike} / {agreed.esp}", f"{hits} lines about collisions in strongSwan's log"


def reauthentication(tunnel, result):
    """strongSwan makes a new session in the place of the old one, twice."""
    tunnel.start()
    tunnel.agreement()
    before = tunnel.spis("ike")
    with tunnel.pings() as pings:
        wait_for("strongSwan has reauthenticated twice", lambda: tunnel.theirs.log_text.count("IKE_SA_INIT request") >= 3, 40)
        time.sleep(2)
        result.sent, result.lost = pings.stop()
    assert tunnel.spis("ike") != before
    agreed = tunnel.agreement(40)
    result.suite = f"{agreed.ike} / {agreed.esp}"


def refused(words, init=True):
    """The session is refused, and wattle says why; nothing is up."""
    def play(tunnel, result):
        tunnel.start(up=False)
        def told():
            status = tunnel.ours.status()
            reasons = [entry["reason"] for entry in status["refused"]] + [tunnel.reason()]
            return next((reason for reason in reasons if re.search(words, reason)), None)
        result.note = f"“{wait_for(f'a reason with {words}: {tunnel.reason()} {tunnel.story()}', told, 15)}”"
        assert tunnel.ours.peer(THEIRS)["state"] != "up"
        if init:
            assert not [sa for sa in tunnel.sas() if sa["established"]]
    return play


def comes_back(action, limit, who=None, quiet=10.0):
    """Something is done to one end; the seconds until the tunnel carries again count from when it is back."""
    def play(tunnel, result):
        tunnel.start()
        agreed = tunnel.agreement()
        result.suite = f"{agreed.ike} / {agreed.esp}"
        with tunnel.pings() as pings:
            time.sleep(1)
            back = action(tunnel)
            result.recovery = round(pings.recovery(back, limit + 15), 1)
        assert result.recovery <= limit, f"{result.recovery} s, {limit} s are allowed\n{tunnel.story()}"
        tunnel.agreement(30)
    return play


def frozen(who, seconds):
    def action(tunnel):
        tunnel.freeze(who)
        time.sleep(seconds)
        tunnel.thaw(who)
        return time.time()
    return action


def restarted(who):
    def action(tunnel):
        tunnel.kill(who)
        time.sleep(2)
        if who == "wattle":
            tunnel.ours.start("--log", "info,wattle::ike=debug")
            return time.time()
        tunnel.start_swan()
        back = time.time()
        if tunnel.dials == "swan":
            tunnel.initiate()
        return back
    return action


def moved(who):
    """The address of one end changes; the other end's stays."""
    def action(tunnel):
        namespace = tunnel.ours.namespace if who == "wattle" else tunnel.theirs.namespace
        old = OUTER[4][0 if who == "wattle" else 1]
        run("ip", "-n", namespace, "addr", "add", f"{old}1/24", "dev", "eth0")
        run("ip", "-n", namespace, "addr", "del", f"{old}/24", "dev", "eth0")
        # Without it the new address would have gone with the old one, whose network it shares.
        run("ip", "-n", namespace, "addr", "add", f"{old}1/24", "dev", "eth0", check=False)
        return time.time()
    return action


def seen(pattern, end="swan", count=1):
    """A line that proves that the row was about what it says."""
    def look(tunnel):
        log = tunnel.theirs.log_text if end == "swan" else tunnel.ours.log_text
        found = re.findall(pattern, log)
        assert len(found) >= count, f"{pattern} is not in {end}'s log\n{tunnel.story()}"
        return ""
    return look


def half_open(tunnel):
    """Leaves half-open sessions at the other end, so that it asks for cookies: first requests from another port."""
    capture = json.loads((ROOT / "tests/data/ike/gcm-mlkem-rawkey.json").read_text())
    request = bytes.fromhex(capture["frames"][0]["message"])
    namespace, source, target = (tunnel.ours.namespace, *tunnel.outer)
    if tunnel.dials == "swan":
        namespace, source, target = tunnel.theirs.namespace, *reversed(tunnel.outer)
    script = f"""
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(("{source}", 4599))
for number in range(4):
    s.sendto(b"\\0\\0\\0\\0" + bytes([number + 1]) + bytes.fromhex("{request[1:].hex()}"), ("{target}", 4500))
"""
    run("ip", "netns", "exec", namespace, "python3", "-c", script)
    time.sleep(0.3)


def cookie(tunnel, result):
    tunnel.start_swan()
    # With log and options as everywhere; the half-open ones come before the first request of the dialler.
    if tunnel.dials == "wattle":
        half_open(tunnel)
        tunnel.ours.start("--log", "info,wattle::ike=debug")
    else:
        tunnel.ours.start("--log", "info,wattle::ike=debug")
        half_open(tunnel)
        tunnel.initiate()
    tunnel.wait_up()
    assert "N(COOKIE)" in tunnel.theirs.log_text, tunnel.story()
    with tunnel.pings() as pings:
        time.sleep(3)
        result.sent, result.lost = pings.stop()
    agreed = tunnel.agreement()
    result.suite = f"{agreed.ike} / {agreed.esp}"


def childless(tunnel, result):
    """IKE_AUTH without a Child SA, which comes by CREATE_CHILD_SA (RFC 6023)."""
    steady()(tunnel, result)
    log = tunnel.theirs.log_text
    assert re.search(r"IKE_AUTH request \d+ \[ (?!.*TSi).*\]" if tunnel.dials == "swan" else r"CREATE_CHILD_SA", log), tunnel.story()
    assert re.search(r"CREATE_CHILD_SA (request|response)", log), tunnel.story()


def too_large(tunnel, result):
    """strongSwan takes no IKE fragments, and the path no IP fragments: the key exchange cannot pass, and that is said."""
    for namespace in (tunnel.ours.namespace, tunnel.theirs.namespace):
        run("ip", "-n", namespace, "link", "set", "eth0", "mtu", "1280")
        run("ip", "netns", "exec", namespace, "nft", "add table ip no; add chain ip no in { type filter hook prerouting priority -450; };"
            " add rule ip no in ip frag-off & 0x3fff != 0 drop")
    refused("fragment")(tunnel, result)


def spread(base, *more):
    merged = {key: dict(value) for key, value in base.items()}
    for extra in more:
        for key, value in extra.items():
            if isinstance(value, dict):
                merged[key] = {**merged.get(key, {}), **{k: {**merged.get(key, {}).get(k, {}), **v} if isinstance(v, dict) else v
                                                        for k, v in value.items()}}
            else:
                merged[key] = value
    return merged


def rows():
    default = suite(M768, "aes256gcm16")
    no_pfs, pfs = default, spread(default, {"swan": {"child": {"esp_proposals": PFS}}})
    lives = {"swan": {"connection": {"over_time": "600s", "rand_time": "0s"}, "child": {"life_time": "600s", "rand_time": "0s"}}}
    detect = {"swan": {"connection": {"dpd_delay": "2s"}}}
    plain = {"swan": {"connection": {"local_port": 500, "remote_port": 500}}, "wattle": {"listen": [4500, 500]}}
    yield Row("aes-gcm", "AES-256-GCM, X25519 + ML-KEM-768", steady(), **default, quick=("wattle", "swan"))
    yield Row("chacha20", "ChaCha20-Poly1305, X25519 + ML-KEM-768", steady(),
              **suite("chacha20poly1305-prfsha256-x25519-ke1_mlkem768", "chacha20poly1305"), quick=("swan",))
    yield Row("aes128", "AES-128-GCM, HMAC-SHA2-512, X25519 + ML-KEM-512", steady(),
              **suite("aes128gcm16-prfsha512-x25519-ke1_mlkem512", "aes128gcm16"))
    yield Row("x25519", "X25519 alone; wattle prefers ML-KEM", steady(),
              **spread(suite(CLASSIC, "aes256gcm16"), {"wattle": {"proposals": [M768, CLASSIC]}}), quick=("wattle",))
    yield Row("three-ke", "X25519 + ML-KEM-768 + ML-KEM-1024, HMAC-SHA2-384", steady(),
              **suite("aes256gcm16-prfsha384-x25519-ke1_mlkem768-ke2_mlkem1024", "aes256gcm16"), quick=("wattle",))
    yield Row("mlkem-first", "ML-KEM-768 as the first and only key exchange", steady(),
              **suite("aes256gcm16-prfsha256-mlkem768", "aes256gcm16"), quick=("swan",))
    yield Row("child-rekey", "Child SA rekeyed by each side, without PFS", rekeying("child", False), **no_pfs)
    yield Row("child-rekey-pfs", "Child SA rekeyed by each side, with PFS", rekeying("child", True), **pfs, quick=("wattle",))
    yield Row("ike-rekey", "IKE SA rekeyed by each side", rekeying("ike", False), **no_pfs, quick=("swan",))
    yield Row("ike-rekey-x25519", "IKE SA rekeyed by each side, X25519 alone", rekeying("ike", False), **suite(CLASSIC, "aes256gcm16"))
    yield Row("collisions", "both rekey Child SA and IKE SA at once, by equal timers and by command", collisions,
              **spread(pfs, lives, {"wattle": {"rekey": {"child_s": 10, "ike_s": 23}},
                                    "swan": {"connection": {"rekey_time": "23s"}, "child": {"rekey_time": "10s"}}}))
    yield Row("reauth", "strongSwan reauthenticates twice", reauthentication,
              **spread(default, {"swan": {"connection": {"reauth_time": "6s", "over_time": "600s", "rand_time": "0s"}}}))
    yield Row("childless", "IKE_AUTH without Child SA (RFC 6023)", childless,
              **spread(default, {"swan": {"connection": {"childless": "force"}}}))
    yield Row("port-500", "begins on port 500, goes on at 4500", steady(then=seen(r"\[500\] to .*\[500\][\s\S]*\[4500\] to .*\[4500\]")),
              **spread(default, plain), more={"listen": 500}, quick=("wattle", "swan"))
    yield Row("free-port", "ports of their own at both ends", steady(),
              **spread(default, {"wattle": {"listen": [14501]}, "swan": {
                  "connection": {"local_port": 14500, "remote_port": 14501}, "daemon": {"port_nat_t": 14500}}}),
              more={"listen": 14500})
    yield Row("outer-ipv6", "IPv6 outside", steady(), **default, more={"outer": 6}, quick=("wattle",))
    yield Row("fragments-576", "IKE fragments of 576 octets", steady(then=seen("splitting IKE message")),
              **spread(default, {"swan": {"daemon": {"fragment_size": 576}}}))
    yield Row("fragments-1280", "IKE fragments of 1280 octets", steady(then=seen("EF\\(1/2\\)|splitting IKE message")),
              **spread(default, {"swan": {"daemon": {"fragment_size": 1280}}}))
    yield Row("no-fragments", "strongSwan takes no IKE fragments, and the path is wide enough", steady(),
              **spread(default, {"swan": {"connection": {"fragmentation": "no"}}}))
    yield Row("no-fragments-narrow", "no IKE fragments, and the path takes no IP fragments either: refused, with a reason", too_large,
              **spread(default, {"swan": {"connection": {"fragmentation": "no"}}}))
    yield Row("cookie", "the responder asks for a cookie", cookie, **spread(default, {"swan": {"daemon": {"cookie_threshold": 1}}}))
    other = ["aes256gcm16-prfsha256-x25519", "aes256gcm16-prfsha256-mlkem512"]
    yield Row("invalid-ke", "INVALID_KE_PAYLOAD: the responder wants another key exchange first",
              steady(then=seen(r"INVAL_KE|requested .*ML_KEM_512|peer requested")),
              wattle={"proposals": ["aes256gcm16-prfsha256-x25519-ke1_mlkem1024", other[1]]},
              swan={"connection": {"proposals": ",".join(other)}},
              more={"by_role": {"wattle": {"swan": {"connection": {"proposals": other[1]}}},
                                "swan": {"wattle": {"proposals": [other[1]]}}}})
    yield Row("no-proposal", "NO_PROPOSAL_CHOSEN in IKE_SA_INIT: ML-KEM required here, none there",
              refused("peer refused our IKE proposal|did not agree to ML-KEM"),
              **spread(suite(CLASSIC, "aes256gcm16"), {"wattle": {"proposals": [M768], "pq": "required"}}), quick=("swan",))
    yield Row("no-esp-proposal", "NO_PROPOSAL_CHOSEN in IKE_AUTH: no ESP cipher in common", refused("ESP", init=False),
              **spread(default, {"swan": {"child": {"esp_proposals": "chacha20poly1305"}}}))
    yield Row("identities", "KEY_ID and DER-DN", steady(), **default,
              more={"node": {"remote_id": "C=CH, O=Swan, CN=swan.example", "local_id": "keyid:wattle"},
                    "swan_ids": ('"C=CH, O=Swan, CN=swan.example"', "keyid:wattle")})
    yield Row("swan-frozen", "strongSwan frozen for 30 s (SIGSTOP)", comes_back(frozen("swan", 30), BACK), **spread(default, detect))
    yield Row("wattle-frozen", "wattle frozen for 30 s (SIGSTOP)", comes_back(frozen("wattle", 30), BACK), **spread(default, detect))
    yield Row("swan-restarted", "strongSwan killed and started", comes_back(restarted("swan"), BACK), **spread(default, detect))
    yield Row("wattle-restarted", "wattle killed and started", comes_back(restarted("wattle"), BACK), **spread(default, detect),
              quick=("swan",))
    mobile = spread(default, {"swan": {"connection": {"mobike": "yes", "local_addrs": "%any"}}})
    yield Row("swan-moves", "MOBIKE: strongSwan's address changes", comes_back(moved("swan"), MOVED), **mobile, quick=("wattle",))
    yield Row("wattle-moves", "MOBIKE: wattle's address changes", comes_back(moved("wattle"), MOVED), **mobile, quick=("wattle",))


def play(row, dials):
    result = Result(row.name, dials)
    began = time.monotonic()
    parts = {"wattle": row.wattle, "swan": row.swan}
    more = dict(row.more)
    parts = spread(parts, more.pop("by_role", {}).get(dials, {}))
    version = None
    try:
        with Lab("m") as lab:
            tunnel = Tunnel(lab, dials, parts["wattle"], parts["swan"], **more)
            row.play(tunnel, result)
            version = tunnel.version()
            result.passed = result.lost == 0
            if result.lost:
                result.note = f"{result.lost} pings lost"
                print(tunnel.story(), flush=True)
    except (AssertionError, subprocess.SubprocessError, OSError) as error:
        first, _, rest = str(error).partition("\n")
        result.note = first[:200]
        print(f"{row.name}, {dials} dials: {first}\n{rest}", flush=True)
    result.seconds = round(time.monotonic() - began, 1)
    return result, version


def table(results, versions):
    """Markdown, as docs/interop.md shows it."""
    lines = [f"{versions}", "", "| row | dials | result | pings lost | back after | suite, or what was said |",
             "|---|---|---|---|---|---|"]
    for one in results:
        pings = f"{one.lost} of {one.sent}" if one.sent else ""
        recovery = f"{one.recovery} s" if one.recovery is not None else ""
        said = f"`{one.suite}`" if one.suite else ""
        said = ", ".join(part for part in (said, one.note) if part)
        lines.append(f"| {one.row} | {one.dials} | {'ok' if one.passed else '**failed**'} | {pings} | {recovery} | {said} |")
    return "\n".join(lines)


def as_json(results, versions):
    return json.dumps({"versions": versions, "rows": [asdict(one) for one in results]}, indent=2)

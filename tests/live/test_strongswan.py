"""strongSwan 6.1 as responder and as initiator: Ed25519 raw keys, X25519 + ML-KEM-768, IPv4 and IPv6 both ways."""

import re
import time
import unittest

import peers
from lab import BINARY, Lab, Router, run, wait_for

SUITE = "aes256gcm16-prfsha256-x25519-ke1_mlkem768"


def setUpModule():
    try:
        peers.install()
    except peers.Unavailable as reason:
        print(f"\n*** SKIPPED LOUDLY: no test against strongSwan: {reason}\n", flush=True)
        raise unittest.SkipTest(f"interop peers not available: {reason}") from reason


class StrongSwan(unittest.TestCase):
    def build(self, lab, wattle_dials, **options):
        ours = Router(lab, lab.namespace("w"), "wattle.example", proposals=[options.get("proposals", SUITE)],
                      tun={"name": "wattle0", "addresses": ["10.66.0.1/32", "fd66::1/128"]})
        theirs = peers.Charon(lab, lab.namespace("s"), "swan.example")
        lab.veth(ours.namespace, theirs.namespace, ["192.0.2.1/24"], ["192.0.2.2/24"])
        node = {"name": "swan.example", "public_key": theirs.make_key()}
        if not options.get("babel"):
            node["routes"] = ["10.66.0.2/32", "fd66::2/128"]
        if wattle_dials:
            node["endpoints"] = ["192.0.2.2:4500"]
        ours.config["nodes"] = [node]
        if "rekey" in options:
            ours.config["rekey"] = options["rekey"]
        pem = run(BINARY, "pubkey", "--pem", ours.folder / "key").stdout
        theirs.configure(pem, ("192.0.2.2", "swan.example"), ("192.0.2.1", "wattle.example"), **options)
        theirs.start(["10.66.0.2/32", "fd66::2/128"], ["10.66.0.1/32", "fd66::1/128"])
        return ours, theirs

    def check_traffic(self, lab, ours, theirs):
        for namespace, targets in ((ours.namespace, ("10.66.0.2", "fd66::2")), (theirs.namespace, ("10.66.0.1", "fd66::1"))):
            for target in targets:
                self.assertEqual(lab.ping(namespace, target), 3, f"{target}\n{ours.log_text}\n{theirs.log_text[-3000:]}")

    def check_suite(self, ours):
        link = ours.peer("swan.example")["links"][0]
        self.assertEqual(link["ike_suite"], SUITE)

    def test_strongswan_as_responder(self):
        with Lab("r") as lab:
            ours, theirs = self.build(lab, wattle_dials=True)
            ours.start()
            ours.wait_up("swan.example")
            self.check_suite(ours)
            self.check_traffic(lab, ours, theirs)
            self.assertIn("INSTALLED, TUNNEL-in-UDP, ESP:AES_GCM_16-256", theirs.ctl("--list-sas").stdout)
            # Our DELETE ends it at once at the other end.
            self.assertEqual(ours.stop(), 0)
            wait_for("strongSwan dropped the SA", lambda: "peer" not in theirs.ctl("--list-sas").stdout, 5)

    def test_strongswan_as_initiator(self):
        with Lab("i") as lab:
            ours, theirs = self.build(lab, wattle_dials=False)
            ours.start()
            theirs.ctl("--initiate", "--child", "net", "--timeout", "10")
            ours.wait_up("swan.example")
            self.check_suite(ours)
            self.check_traffic(lab, ours, theirs)
            theirs.ctl("--terminate", "--ike", "peer")
            wait_for("wattle saw the DELETE", lambda: ours.peer("swan.example")["state"] != "up", 5)
            self.assertIn("closed by the peer", ours.peer("swan.example")["reason"])

    def test_chacha20_poly1305(self):
        with Lab("c") as lab:
            suite = "chacha20poly1305-prfsha256-x25519-ke1_mlkem768"
            ours, theirs = self.build(lab, wattle_dials=True, proposals=suite, esp="chacha20poly1305")
            ours.start()
            ours.wait_up("swan.example")
            link = ours.peer("swan.example")["links"][0]
            self.assertEqual((link["ike_suite"], link["esp_suite"]), (suite, "chacha20poly1305"))
            self.check_traffic(lab, ours, theirs)

    def rekey_under_traffic(self, esp):
        with Lab("k") as lab:
            ours, theirs = self.build(lab, wattle_dials=True, esp=esp, rekey={"child_s": 10, "ike_s": 12})
            ours.start()
            ours.wait_up("swan.example")
            before = ours.peer("swan.example")["links"][0]
            pings = []
            for namespace, target in ((ours.namespace, "10.66.0.2"), (theirs.namespace, "fd66::1")):
                log = lab.folder / f"ping-{target}"
                pings.append((log, lab.spawn(namespace, "ping", "-q", "-i", "0.02", "-c", "2400", "-W", "2", target, log=log)))
            # Ours come by time, theirs by command, and now and then both at once.
            for what in (("--child", "net"), ("--child", "net"), ("--ike", "peer")) * 3:
                time.sleep(5)
                theirs.ctl("--rekey", *what)
            for log, ping in pings:
                ping.wait(30)
                self.assertIn(" 0% packet loss", log.read_text(), f"{ours.log_text[-3000:]}\n{theirs.log_text[-6000:]}")
            after = ours.peer("swan.example")["links"][0]
            self.assertNotEqual(before["spi_in"], after["spi_in"])
            self.assertEqual(theirs.log_text.count("IKE_SA_INIT request"), 1, "no other session")
            self.assertIn("rekeyed between", theirs.log_text, "the IKE SA by strongSwan")
            self.assertRegex(theirs.log_text, r"parsed CREATE_CHILD_SA request \d+ \[ SA No KE \]", "and by us")
            self.assertRegex(theirs.log_text, r"parsed CREATE_CHILD_SA request \d+ \[ N\(REKEY_SA\) SA", "the Child SA by us")
            sas = theirs.ctl("--list-sas").stdout
            self.assertEqual(sas.count("ESTABLISHED"), 1, sas)
            return theirs.log_text

    def test_rekeying_from_both_sides_without_key_exchange(self):
        self.rekey_under_traffic("aes256gcm16")

    def test_rekeying_from_both_sides_with_key_exchange(self):
        self.assertIn("IKE_FOLLOWUP_KE", self.rekey_under_traffic("aes256gcm16-x25519-ke1_mlkem768"))

    def move(self, wattle_dials, who):
        """The address of one side is replaced under pings of 20 ms both ways; returns the longest time without an answer."""
        with Lab("m") as lab:
            ours, theirs = self.build(lab, wattle_dials, mobike=True)
            ours.start()
            if not wattle_dials:
                theirs.ctl("--initiate", "--child", "net", "--timeout", "10")
            ours.wait_up("swan.example")
            time.sleep(1)
            pings = []
            for namespace, target in ((ours.namespace, "10.66.0.2"), (theirs.namespace, "fd66::1")):
                log = lab.folder / f"ping-{target}"
                pings.append((log, lab.spawn(namespace, "ping", "-n", "-i", "0.02", "-c", "600", "-W", "2", target, log=log)))
            time.sleep(2)
            namespace = (ours if who == "wattle" else theirs).namespace
            old, new = ("192.0.2.1", "192.0.2.11") if who == "wattle" else ("192.0.2.2", "192.0.2.12")
            run("ip", "-n", namespace, "addr", "del", f"{old}/24", "dev", "eth0")
            run("ip", "-n", namespace, "addr", "add", f"{new}/24", "dev", "eth0")
            longest = 0.0
            for log, ping in pings:
                ping.wait(30)
                answered = [0] + sorted(int(seq) for seq in re.findall(r"icmp_seq=(\d+) ttl", log.read_text())) + [601]
                gap = max(later - earlier - 1 for earlier, later in zip(answered, answered[1:])) * 0.02
                longest = max(longest, gap)
            logs = f"{ours.log_text}\n{theirs.log_text[-6000:]}"
            self.assertEqual(theirs.log_text.count("IKE_SA_INIT request"), 1, "no other session")
            self.assertIn(new, theirs.ctl("--list-sas").stdout, logs)
            if wattle_dials or who == "swan":
                # Otherwise strongSwan, which leads, goes by the source of our message and rekeys the Child SA.
                self.assertIn("N(UPD_SA_ADDR)", theirs.log_text, logs)
            if who == "swan":
                self.assertIn(new, ours.peer("swan.example")["links"][0]["remote"])
            print(f"\nMOBIKE, {'wattle' if wattle_dials else 'strongSwan'} leads, {who} moves: {longest:.2f} s without an answer")
            self.assertLessEqual(longest, 3.0, logs)

    def test_mobike_wattle_leads_and_moves(self):
        self.move(True, "wattle")

    def test_mobike_wattle_leads_and_strongswan_moves(self):
        self.move(True, "swan")

    def test_mobike_strongswan_leads_and_moves(self):
        self.move(False, "swan")

    def test_mobike_strongswan_leads_and_wattle_moves(self):
        self.move(False, "wattle")

    def test_bird_over_strongswan_is_a_member_of_the_mesh(self):
        with Lab("b") as lab:
            ours, theirs = self.build(lab, wattle_dials=True, babel=True)
            ours.start()
            config = peers.bird_over_a_tunnel("ipsec0", "10.66.0.2", "10.78.0.0/24", "fd78::/64")
            bird = peers.Bird(lab, theirs.namespace, config)
            bird.start()
            ours.wait_up("swan.example", 15)
            routes = lambda: {route["to"]: route for route in ours.status()["routes"] if route["selected"]}
            wait_for(f"BIRD's routes: {routes()}", lambda: {"10.78.0.0/24", "fd78::/64"} <= set(routes()), 20)
            wait_for("our routes in BIRD", lambda: "10.66.0.1/32" in bird.show("babel", "routes"), 20)
            wait_for("BIRD measures the time", lambda: "ipsec0" in bird.show("babel", "neighbors"), 10)
            rtt = wait_for("we measure the time", lambda: ours.status()["neighbours"][0]["rtt_us"], 10)
            self.assertLess(rtt, 50_000)
            print("\n" + bird.show("babel", "neighbors"))


if __name__ == "__main__":
    unittest.main()

"""strongSwan 6.1 as a member of the mesh. What a tunnel between the two must do is in the matrix: scripts/interop strongswan."""

import unittest

import matrix
import peers
from lab import Lab, wait_for
from tunnel import THEIRS, Tunnel


def setUpModule():
    try:
        peers.install()
    except peers.Unavailable as reason:
        print(f"\n*** SKIPPED LOUDLY: no test against strongSwan: {reason}\n", flush=True)
        raise unittest.SkipTest(f"interop peers not available: {reason}") from reason


class StrongSwan(unittest.TestCase):
    def test_a_delete_ends_the_session_at_the_other_end_at_once(self):
        default = matrix.suite(matrix.M768, "aes256gcm16")
        with Lab("d") as lab:
            tunnel = Tunnel(lab, "wattle", **default).start()
            self.assertEqual(tunnel.ours.stop(), 0)
            wait_for("strongSwan dropped the SA", lambda: "peer" not in tunnel.theirs.ctl("--list-sas").stdout, 5)
        with Lab("e") as lab:
            tunnel = Tunnel(lab, "swan", **default).start()
            tunnel.theirs.ctl("--terminate", "--ike", "peer")
            wait_for("wattle saw the DELETE", lambda: "closed by the peer" in tunnel.ours.log_text, 5)

    def test_bird_over_strongswan_is_a_member_of_the_mesh(self):
        with Lab("b") as lab:
            tunnel = Tunnel(lab, "wattle", node={"routes": []})
            ours, theirs = tunnel.ours, tunnel.theirs
            tunnel.start(up=False)
            config = peers.bird_over_a_tunnel("ipsec0", "10.66.0.2", "10.78.0.0/24", "fd78::/64")
            bird = peers.Bird(lab, theirs.namespace, config)
            bird.start()
            ours.wait_up(THEIRS, 15)
            routes = lambda: {route["to"]: route for route in ours.status()["routes"] if route["selected"]}
            wait_for(f"BIRD's routes: {routes()}", lambda: {"10.78.0.0/24", "fd78::/64"} <= set(routes()), 20)
            wait_for("our routes in BIRD", lambda: "10.66.0.1/32" in bird.show("babel", "routes"), 20)
            wait_for("BIRD measures the time", lambda: "ipsec0" in bird.show("babel", "neighbors"), 10)
            rtt = wait_for("we measure the time", lambda: ours.status()["neighbours"][0]["rtt_us"], 10)
            self.assertLess(rtt, 50_000)
            print("\n" + bird.show("babel", "neighbors"))


if __name__ == "__main__":
    unittest.main()

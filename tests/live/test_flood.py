"""Ten thousand strangers a second: first requests of IKE from spoofed addresses, while those inside talk."""

import json
import re
import signal
import time
import unittest

from lab import ROOT, Lab, pair, run, wait_for

FLOODER = ROOT / "tests" / "live" / "flooder.py"
RATE = 12_000
PINGS = 1000
MEBIBYTE = 1 << 20


def memory(router):
    """Octets that the daemon has in memory now."""
    text = open(f"/proc/{router.process.pid}/status").read()
    return int(re.search(r"VmRSS:\s+(\d+) kB", text)[1]) * 1024


def processor(router):
    """Seconds that it has run."""
    fields = open(f"/proc/{router.process.pid}/stat").read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / 100


def overflow(namespace):
    """Datagrams for which a UDP socket there had no room, as the kernel counts them."""
    text = run("ip", "netns", "exec", namespace, "cat", "/proc/net/udp").stdout
    return sum(int(line.split()[-1]) for line in text.splitlines()[1:])


class Flood(unittest.TestCase):
    def test_strangers_do_not_disturb_those_inside(self):
        with Lab("f") as lab:
            a, b = pair(lab)
            stranger = lab.namespace("s")
            lab.veth(a.namespace, stranger, ["198.51.100.1/24"], ["198.51.100.2/24"], name="eth1")
            # Our answers go to where the requests say they come from.
            run("ip", "-n", a.namespace, "route", "add", "198.18.0.0/15", "via", "198.51.100.2")
            a.start(), b.start()
            a.wait_up("b"), b.wait_up("a")
            lab.reach(b.namespace, "10.66.0.1")
            session, rest, ran = a.peer("b")["links"][0]["spi_in"], memory(a), processor(a)

            flood = lab.spawn(stranger, "python3", FLOODER, "198.51.100.1", RATE, log=lab.folder / "flood")
            began = time.monotonic()
            wait_for("cookies are asked for", lambda: a.drops().get("ike_cookie_asked", 0) > RATE)
            ping = lab.spawn(b.namespace, "ping", "-n", "-q", "-i", "0.01", "-c", PINGS, "-W", 2, "10.66.0.1",
                             log=lab.folder / "ping")
            most, half_open = 0, 0
            while ping.poll() is None:
                most, half_open = max(most, memory(a)), max(half_open, a.status()["half_open"])
                time.sleep(0.2)
            took, ran = time.monotonic() - began, processor(a) - ran
            flood.send_signal(signal.SIGTERM)
            self.assertEqual(flood.wait(5), 0)
            sent, pings = json.loads((lab.folder / "flood").read_text()), (lab.folder / "ping").read_text()
            drops, lost = a.drops(), overflow(a.namespace)
            rate = sent["sent"] / sent["seconds"]
            print(f"\n{rate:.0f} requests a second for {sent['seconds']:.1f} s: {drops['ike_cookie_asked']} answered by a cookie, "
                  f"{lost} came to a full socket; memory {rest >> 10} kB before, at most {most >> 10} kB, "
                  f"{memory(a) >> 10} kB after; at most {half_open} half-open; processor {100 * ran / took:.0f} %;\n"
                  + " ".join(pings.strip().splitlines()[-2:]))

            self.assertGreaterEqual(rate, 10_000, "the sender did not get far enough: a busy machine?")
            # Each was answered, but for those that the socket had no room for; and these are counted too.
            self.assertGreaterEqual(drops["ike_cookie_asked"] + lost + 100, sent["sent"], drops)
            self.assertEqual(drops.get("socket_overflow", 0), lost)
            # On a busy machine the queue at the door runs over, and nobody inside notices.
            self.assertLess(lost, sent["sent"] / 2)
            self.assertIn(" 0% packet loss", pings)
            self.assertTrue(1 <= half_open <= 16, f"{half_open}: only so many are let in without a cookie")
            self.assertLess(max(most, memory(a)) - rest, 2 * MEBIBYTE)
            self.assertEqual(a.peer("b")["links"][0]["spi_in"], session, "the session is another one")
            self.assertLess(len(a.log_text.splitlines()), 30, "a stranger is not worth a line")
            # And whoever has a key still comes in, at once.
            b.stop()
            b.start()
            b.wait_up("a", 5)


if __name__ == "__main__":
    unittest.main()

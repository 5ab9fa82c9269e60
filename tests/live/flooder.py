"""Sends IKE_SA_INIT requests from spoofed addresses (198.18.0.0/15), as root, until it is ended: flooder.py TARGET RATE

The request is one that strongSwan made, so everything in it is right; only its SPI and nonce are new in each. Prints what it
reached as JSON.
"""

import json
import os
import signal
import socket
import struct
import sys
import time
from pathlib import Path

CAPTURE = Path(__file__).resolve().parents[1] / "data" / "ike" / "gcm-mlkem-rawkey.json"


def main(target, rate):
    ended = []
    signal.signal(signal.SIGTERM, lambda *_: ended.append(True))
    request = bytes.fromhex(json.loads(CAPTURE.read_text())["frames"][0]["message"])
    out = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
    out.connect((target, 0))
    # No checksum, which IPv4 allows. From any port with the non-ESP marker, from port 500 without.
    kinds = [struct.pack("!HHHH", port, 4500, 8 + marker + len(request), 0) + bytes(marker) for port, marker in ((61000, 4), (500, 0))]
    destination = socket.inet_aton(target)
    began, sent = time.monotonic(), 0
    while not ended:
        if sent >= rate * (time.monotonic() - began):
            time.sleep(0.001)
            continue
        for _ in range(16):
            # The kernel fills in length and checksum.
            source = bytes([198, 18 | sent >> 16 & 1, sent >> 8 & 255, sent & 255])
            ip = struct.pack("!BBHHHBBH", 0x45, 0, 0, 0, 0, 64, socket.IPPROTO_UDP, 0) + source + destination
            out.send(ip + kinds[sent % 2] + os.urandom(8) + request[8:])
            sent += 1
    print(json.dumps({"sent": sent, "seconds": time.monotonic() - began}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))

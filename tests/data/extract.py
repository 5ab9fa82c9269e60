#!/usr/bin/env python3
"""Makes ike/*.json from captures of strongSwan: tests/data/extract.py CAPTURES

CAPTURES holds a folder per scenario with decoded.json (key derivations and frames) and keys/ (throw-away Ed25519 keys).
What is kept: every derivation with its input, every IKE message, the plaintext of the protected ones, and both ends' keys.
"""
import json
import pathlib
import sys

SCENARIOS = """chacha-mlkem-rawkey child-no-proposal cookie frag-off frag576 gcm-mlkem-ca gcm-mlkem-childless gcm-mlkem-outer6
gcm-mlkem-port500 gcm-mlkem-rawkey gcm-x25519-only invalid-ke ke1-optional mlkem-as-first-ke mobike no-proposal three-ke""".split()
OF_A_KEY = "kind name hex ke_secret add_ke_secret nonces SKEYSEED SK_D SK_EI SK_ER SK_PI SK_PR seed encr_i encr_r".split()
OF_A_FRAME = "message key plaintext".split()


def main(captures):
    target = pathlib.Path(__file__).parent / "ike"
    for scenario in SCENARIOS:
        folder = captures / scenario
        decoded = json.loads((folder / "decoded.json").read_text())
        compact = {
            "keys": [only(OF_A_KEY, key) for key in decoded["keys"]],
            "frames": [only(OF_A_FRAME, frame) for frame in decoded["frames"] if frame["proto"] == "ike"],
            "key_files": {name: (folder / "keys" / f"{name}.example.key").read_text() for name in "ab"},
        }
        (target / f"{scenario}.json").write_text(json.dumps(compact, separators=(",", ":")) + "\n")


def only(names, record):
    return {name: record[name] for name in names if name in record}


main(pathlib.Path(sys.argv[1]))

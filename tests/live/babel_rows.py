"""The rows of `scripts/interop babel`: each is a live test of its own, with BIRD and babeld, or with a kernel whose
routes come and go."""

import time
import unittest
from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    name: str
    what: str
    test: str = ""
    waits_for: str = ""
    quick: bool = False


@dataclass(frozen=True)
class Result:
    row: Row
    passed: bool
    seconds: float
    note: str


def rows():
    member = "test_babel.Members."
    return [
        Row("line", "wattle, BIRD, babeld in a line: tables agree route for route, RTT as ping sees it, packets pass",
            member + "test_a_line", quick=True),
        Row("ring", "a ring in which each of the three takes two fast hops instead of its slow one, and comes back",
            member + "test_a_ring_and_the_faster_way"),
        Row("restart", "each of the three killed and started again, also with lost state", member + "test_each_is_killed_and_comes_back"),
        Row("kernel", "kernel routes that are announced, with filters, as they come and go",
            "test_routes.Routes.test_routes_follow_the_kernel", quick=True),
        Row("filter", "filters in both directions, changed while it runs", "test_routes.Routes.test_filters_change_at_once", quick=True),
        Row("mac", "MAC authentication: right and wrong key, replay", waits_for="MAC authentication (RFC 8967)"),
        Row("between", "strongSwan and BIRD forward between two wattle nodes", waits_for="Babel on ordinary interfaces"),
    ]


def play(row):
    suite = unittest.defaultTestLoader.loadTestsFromName(row.test)
    outcome, start = unittest.TestResult(), time.monotonic()
    suite.run(outcome)
    told = [text for _, text in outcome.failures + outcome.errors + outcome.skipped]
    passed = outcome.wasSuccessful() and not outcome.skipped and outcome.testsRun == 1
    return Result(row, passed, time.monotonic() - start, told[0].strip().splitlines()[-1][:160] if told else "")


def table(results, versions):
    lines = [f"Measured with {versions}.", "", "| row | what | result | seconds |", "|---|---|---|---|"]
    for result in results:
        lines.append(f"| {result.row.name} | {result.row.what} | {'ok' if result.passed else 'FAILED'} | {result.seconds:.0f} |")
    return "\n".join(lines)

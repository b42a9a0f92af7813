"""Short cuts of a link, in every mode, while requests stand in every stage: nobody notices.

Bounds: `control` 1 s, `kv` 2 s (DESIGN 7). The death verdict comes after 1.5 s without a beat, so a machine
that keeps a worker or the proxy from running for 0.3 s at the wrong moment fails the control cases; the
pair asks the kernel to prefer it (`favor`), and a cut that lasted too long is said to be one.
"""

from __future__ import annotations

import pytest

from chaos.codes import LinkKind
from tests.e2e.liveness.cut import CUTS, Cut, hold
from tests.e2e.liveness.pair import Pair
from tests.e2e.liveness.traffic import LATE, Flight, Traffic

pytestmark = pytest.mark.e2e
SPARE_S = 0.2
SECONDS = {LinkKind.BOOTSTRAP: 2.0, LinkKind.CONTROL: 1.0, LinkKind.KV: 2.0}
QUICK = {
    (LinkKind.CONTROL, "stall"),
    (LinkKind.CONTROL, "blackhole"),
    (LinkKind.KV, "blackhole"),
}


def cases() -> list[object]:
    return [
        pytest.param(
            kind,
            cut,
            id=f"{kind}-{name}",
            marks=() if (kind, name) in QUICK else (pytest.mark.slow,),
        )
        for kind in LinkKind
        for name, cut in CUTS.items()
    ]


class Counts:
    """What must not move while nobody notices."""

    def __init__(self, pair: Pair) -> None:
        self._pair = pair
        self.before = self._read()

    def _read(self) -> list[tuple[float, float]]:
        return [
            (half.metric("severance_sessions_lost"), half.metric("severance_aborts_total"))
            for half in self._pair.halves
        ]

    def check_unmoved(self) -> None:
        assert self._read() == self.before, "a session was lost, or a request aborted"


@pytest.mark.parametrize(("kind", "cut"), cases())
def test_a_short_cut_loses_nothing(traffic: Traffic, kind: LinkKind, cut: Cut) -> None:
    pair = traffic.pair
    counts = Counts(pair)
    flights = traffic.fill_every_stage()
    late: list[Flight] = []

    def arrive() -> None:
        late.extend(traffic.send(LATE))

    def look() -> None:
        if cut.blocks_new_requests(kind):
            assert all(flight.decode.is_open for flight in late), "the cut did not bite"

    held = hold(pair, kind, cut, SECONDS[kind], arrive, look)

    assert held.lasted_s < SECONDS[kind] + SPARE_S, "the machine is too slow for this test"
    traffic.check_right([*flights, *late])
    traffic.check_small(within_s=2.0)
    pair.wait_clean()
    counts.check_unmoved()


@pytest.mark.slow
@pytest.mark.parametrize("kind", [LinkKind.CONTROL, LinkKind.KV])
def test_a_flapping_link_loses_nothing(traffic: Traffic, kind: LinkKind) -> None:
    """Ten cuts of 0.2 s, each in another mode, with as long a breath between."""
    counts = Counts(traffic.pair)
    modes = ["stall", "blackhole", "refuse", "reset", "blackhole-up"] * 2
    flights = traffic.fill_every_stage()
    for name in modes:
        hold(traffic.pair, kind, CUTS[name], 0.2)
        flights += traffic.send(LATE)

    traffic.check_right(flights)
    traffic.check_small(within_s=2.0)
    counts.check_unmoved()


@pytest.mark.parametrize("tries", [1, pytest.param(5, marks=pytest.mark.slow)])
def test_a_new_toxiproxy_server_cuts_every_link_and_loses_nothing(
    traffic: Traffic, tries: int
) -> None:
    """The last rung of the heal ladder: all links drop at once, and come back."""
    counts = Counts(traffic.pair)
    flights = traffic.fill_every_stage()
    for _ in range(tries):
        traffic.pair.toxiproxy.respawn()

    traffic.check_right(flights)
    traffic.check_small(within_s=2.0)
    counts.check_unmoved()

"""What do cuts of a link between prefill and decode cost? (DESIGN 7)

    python -m bench.cuts [--json FILE] [--quick] [--delay-seconds 600]

A real pair through real toxiproxy, with requests in every stage at the moment of each cut. Prints a
JSON line a row and a table at the end. Takes some minutes, and 10 more for the delays.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from chaos.codes import LinkKind
from tests.e2e.liveness.conftest import running_traffic
from tests.e2e.liveness.cut import CUTS, SILENT, Cut, cut_link, delayed_links, hold
from tests.e2e.liveness.pair import wait_until
from tests.e2e.liveness.traffic import LATE, LONG, RUNNING, Flight, Traffic

SHORT_S = {LinkKind.CONTROL: 1.0, LinkKind.KV: 2.0}
LONG_CUTS_S = (2.5, 4.0)
ENDS_WITHIN_S = 2.0
SERVES_WITHIN_S = 5.0
AT_ONCE_S = 2.0


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One figure. ``samples``: requests (or sides of requests) that were looked at; none is no pass."""

    name: str
    target: str
    value: float
    unit: str
    passed: bool
    how: str
    p50: float | None = None
    p99: float | None = None
    samples: int = 0


def at_most(
    name: str, limit: float, values: Sequence[float], value: float, unit: str, how: str
) -> Row:
    """``value`` is judged; ``values`` are what it was made of."""
    return Row(
        name=name,
        target=f"<= {limit:g}",
        value=round(value, 3),
        unit=unit,
        passed=bool(values) and value <= limit,
        how=how,
        samples=len(values),
    )


def percentile(values: Sequence[float], percent: float) -> float:
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)] if ordered else math.nan


class Bench:
    """Runs on one pair, and keeps what every cut left behind."""

    def __init__(self, traffic: Traffic) -> None:
        self._traffic = traffic
        self._pair = traffic.pair
        self.small_s: list[float] = []
        """How long the first request after each heal took, that came when the pair served again."""

    def short_cuts(self, kind: LinkKind, names: Sequence[str]) -> Row:
        """Requests that were aborted, lost or wrong, over all modes."""
        hurt: list[str] = []
        total: list[float] = []
        for name in names:
            flights = self._short_cut(kind, CUTS[name])
            wrong = [flight for flight in flights if not self._traffic.is_right(flight)]
            hurt += [f"{name}: {flight.rid}" for flight in wrong]
            total += [1.0] * len(flights)
            self._settle()
        how = f"{len(names)} modes, requests in every stage and some that come meanwhile"
        return at_most(
            f"cuts.{kind}.{SHORT_S[kind]:g}s",
            0,
            total,
            len(hurt),
            "requests hurt",
            how + (f"; {hurt}" if hurt else ""),
        )

    def _short_cut(self, kind: LinkKind, cut: Cut) -> list[Flight]:
        flights = self._traffic.fill_every_stage()
        late: list[Flight] = []

        def look() -> None:
            if cut.blocks_new_requests(kind):
                assert all(flight.decode.is_open for flight in late), f"{cut} did not bite"

        hold(
            self._pair,
            kind,
            cut,
            SHORT_S[kind],
            lambda: late.extend(self._traffic.send(LATE)),
            look,
        )
        return [*flights, *late]

    def long_cuts(self, names: Sequence[str], seconds: Sequence[float]) -> Iterator[Row]:
        """Times from a cut of `control` to the ends of what it hurt, and from the heal to an answer."""
        ended_s: list[float] = []
        served_s: list[float] = []
        for name in names:
            for cut_s in seconds:
                ended, served = self._long_cut(CUTS[name], cut_s)
                ended_s += ended
                served_s.append(served)
                self._settle()
        how = f"{len(names)} silent modes of {min(seconds):g} to {max(seconds):g} s"
        p99 = percentile(ended_s, 99)
        row = at_most(
            "cuts.control.long.ends", ENDS_WITHIN_S, ended_s, p99, "s, p99 from the cut", how
        )
        yield msgspec.structs.replace(row, p50=round(percentile(ended_s, 50), 3), p99=row.value)
        worst = max(served_s, default=math.nan)
        yield at_most(
            "cuts.control.long.serves",
            SERVES_WITHIN_S,
            served_s,
            worst,
            "s, worst from the heal",
            how,
        )

    def _long_cut(self, cut: Cut, seconds: float) -> tuple[list[float], float]:
        flights = self._traffic.fill_every_stage()
        hurt = flights[-len(LONG) :]
        with cut_link(self._pair, LinkKind.CONTROL, cut) as cut_at:
            sides = [side.wait() for flight in hurt for side in flight.sides]
            time.sleep(max(0.0, cut_at + seconds - time.monotonic()))  # how long the fault lasts
        healed_at = time.monotonic()
        wait_until(self._completes, 60, "serving again")
        return [side.ended_at - cut_at for side in sides if side.reason], (
            time.monotonic() - healed_at
        )

    def _completes(self) -> bool:
        (flight,) = self._traffic.send(LATE[:1])
        return flight.is_whole

    def delays(self, seconds: float) -> Row:
        """Requests that did not complete under random delays."""
        flights: list[Flight] = []
        with delayed_links(self._pair, seed=7) as draw_again:
            ends_at = time.monotonic() + seconds
            while time.monotonic() < ends_at:
                draw_again()
                flights += self._traffic.send([*LATE, *RUNNING[:1]])
                time.sleep(1.0)  # how long a draw holds
        wrong = [flight for flight in flights if not self._traffic.is_right(flight)]
        self._settle()
        return at_most(
            "cuts.delay",
            0,
            [1.0] * len(flights),
            len(wrong),
            "requests hurt",
            f"0-500 ms at random on every link for {seconds:g} s, drawn anew each second",
        )

    def sticky(self) -> Row:
        late = [took for took in self.small_s if took > AT_ONCE_S]
        return at_most(
            "cuts.sticky",
            0,
            self.small_s,
            len(late),
            "cuts",
            "after each: free counts at baseline on both halves, and a new request completes at once "
            f"(worst {max(self.small_s, default=math.nan):.2f} s)",
        )

    def _settle(self) -> None:
        """Counts must come back; an error here ends the benchmark, as nothing after it would be true."""
        self._pair.wait_clean()
        self.small_s.append(self._traffic.check_small(within_s=60.0))
        self._pair.wait_clean()


def measure(quick: bool, delay_s: float) -> Iterator[Row]:
    """Rows as they come."""
    names = ["stall", "blackhole"] if quick else list(CUTS)
    with (
        tempfile.TemporaryDirectory() as directory,
        running_traffic(Path(directory)) as traffic,
    ):
        bench = Bench(traffic)
        for kind in SHORT_S:
            yield bench.short_cuts(kind, names)
        yield from bench.long_cuts(
            ["blackhole"] if quick else SILENT, LONG_CUTS_S[:1] if quick else LONG_CUTS_S
        )
        yield bench.delays(5.0 if quick else delay_s)
        yield bench.sticky()


def table(rows: Sequence[Row]) -> str:
    lines = ["| what | target | measured | samples | |", "|---|---|---|---|---|"]
    for row in rows:
        verdict = "reached" if row.passed else "MISSED"
        value = f"{row.value:g} {row.unit}"
        lines.append(
            f"| {row.name}: {row.how} | {row.target} | {value} | {row.samples} | {verdict} |"
        )
    return "\n".join(lines)


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows there, as a list")
    parser.add_argument("--quick", action="store_true", help="few modes: does it run")
    parser.add_argument(
        "--delay-seconds", type=float, default=600.0, help="how long links are delayed (600)"
    )
    args = parser.parse_args(argv)
    rows: list[Row] = []
    for row in measure(args.quick, args.delay_seconds):
        print(msgspec.json.encode(row).decode(), flush=True)
        rows.append(row)
        if args.json is not None:
            args.json.write_bytes(msgspec.json.encode(rows))
    print(table(rows), file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Shrinks a failing scenario by re-running it: fewer faults, shorter ones, each tried k times.

Timing decides whether a fault hits, so one run proves nothing: a candidate counts as failing if any of its
k runs fails by a check that the original failed by, and the answer says "fails m of k".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from chaos.spec import Scenario

_SHORTEST_S = 0.25

Run = Callable[[Scenario], frozenset[str]]
"""Runs a scenario once; returns the ids of the checks that failed (empty: it did not fail)."""
Say = Callable[[str], None]


class Tally(msgspec.Struct, frozen=True, kw_only=True):
    """``num_failed`` of ``num_runs`` runs failed, by ``checks``."""

    scenario: Scenario
    num_runs: int
    num_failed: int
    checks: tuple[str, ...]

    def __str__(self) -> str:
        by = f" by {', '.join(self.checks)}" if self.checks else ""
        return f"fails {self.num_failed} of {self.num_runs}{by}"


class Shrinker:
    """``times``: runs of each candidate. ``max_runs`` bounds them all."""

    def __init__(self, run: Run, times: int, max_runs: int, say: Say) -> None:
        self._run = run
        self._times = times
        self._runs_left = max_runs
        self._say = say

    def shrink(self, scenario: Scenario) -> Tally:
        """The smallest scenario found that still fails, or the original's tally if it never does."""
        best = self._tally(scenario, None)
        while best.num_failed and self._runs_left >= self._times:
            smaller = self._first_failing(best)
            if smaller is None:
                break
            best = smaller
        return best

    def _first_failing(self, best: Tally) -> Tally | None:
        wanted = frozenset(best.checks)
        for what, candidate in smaller_ones(best.scenario):
            if self._runs_left < self._times:
                return None
            self._say(f"trying {what}")
            tally = self._tally(candidate, wanted)
            if tally.num_failed:
                return tally
        return None

    def _tally(self, scenario: Scenario, wanted: frozenset[str] | None) -> Tally:
        """``wanted`` None: any failure counts; else one by these checks, and one is enough to go on."""
        failures: list[frozenset[str]] = []
        num_runs = 0
        while num_runs < self._times and self._runs_left:
            self._runs_left -= 1
            num_runs += 1
            failed = self._run(scenario)
            if failed and (wanted is None or failed & wanted):
                failures.append(failed if wanted is None else failed & wanted)
        checks = tuple(sorted(frozenset().union(*failures)))
        tally = Tally(scenario=scenario, num_runs=num_runs, num_failed=len(failures), checks=checks)
        self._say(f"{len(scenario.method)} faults: {tally}")
        return tally


def smaller_ones(scenario: Scenario) -> Iterator[tuple[str, Scenario]]:
    """Candidates, boldest first: one fault alone, one fault less, one fault half as long."""
    method = scenario.method
    if len(method) > 2:
        for index, step in enumerate(method):
            yield (
                f"fault {index} alone",
                msgspec.structs.replace(scenario, method=(step,)),
            )
    for index in range(len(method)):
        rest = (*method[:index], *method[index + 1 :])
        yield f"without fault {index}", msgspec.structs.replace(scenario, method=rest)
    for index, step in enumerate(method):
        hold_s = round(step.fault.hold_s / 2, 3)
        if hold_s < _SHORTEST_S:
            continue
        shorter = msgspec.structs.replace(step, fault=step.fault.holding(hold_s))
        changed = (*method[:index], shorter, *method[index + 1 :])
        yield (
            f"fault {index} for {hold_s:g} s",
            msgspec.structs.replace(scenario, method=changed),
        )

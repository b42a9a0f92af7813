"""`search`: a campaign for people: progress, summary, and a shrunk file for what it finds."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from engine.simulator.campaign import Campaign, run_campaign
from engine.simulator.draw import Size
from engine.simulator.schedule import Schedule, save
from engine.simulator.shrink import shrink
from engine.simulator.simulation import Outcome, simulate

PROGRESS_S = 0.5
PLAIN_PROGRESS_S = 10.0


class _Progress:
    """One line that renews itself on a terminal; now and then a line elsewhere."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._is_terminal = sys.stderr.isatty()
        self._period_s = PROGRESS_S if self._is_terminal else PLAIN_PROGRESS_S
        self.started_s = time.monotonic()
        self._shown_s = self.started_s

    def show(self, campaign: Campaign) -> None:
        now_s = time.monotonic()
        if now_s - self._shown_s < self._period_s:
            return
        self._shown_s = now_s
        rate = campaign.num_schedules / (now_s - self.started_s)
        left_s = (self._total - campaign.num_schedules) / rate
        text = (
            f"{campaign.num_schedules}/{self._total} schedules, {rate * 60:.0f} a minute,"
            f" {left_s:.0f} s left"
        )
        print(text, end="\r" if self._is_terminal else "\n", file=sys.stderr, flush=True)


def search(seed: int, count: int, size: Size, out: Path) -> Path | None:
    """Run the schedules; the file of the first failure, shrunk, or None."""
    print(f"seed {seed}: {count} schedules of {size.num_prefill}P{size.num_decode}D,"
          f" {size.num_requests} requests each")  # fmt: skip
    progress, cpu_s = _Progress(count), time.process_time()
    campaign = run_campaign(seed, count, size, progress.show)
    _summarize(campaign, time.monotonic() - progress.started_s, time.process_time() - cpu_s)
    if campaign.failure is None:
        print("clean: every law held in every schedule")
        return None
    return _report(*campaign.failure, out)


def _summarize(campaign: Campaign, took_s: float, cpu_s: float) -> None:
    rate = campaign.num_schedules / max(took_s, 1e-9) * 60
    cpu_rate = campaign.num_schedules / max(cpu_s, 1e-9) * 60
    print(
        f"{campaign.num_schedules} schedules in {took_s:.1f} s"
        f" ({rate:.0f} a minute, {cpu_rate:.0f} a CPU minute):"
        f" {campaign.num_requests} requests, {campaign.num_completed} completed,"
        f" {campaign.num_faults} faults, {campaign.num_acts} acts of operators,"
        f" {campaign.num_steps} scheduler steps, {campaign.num_cancelled} forwards cancelled,"
        f" {campaign.virtual_ms / 1000:.0f} virtual s"
    )
    ends = ", ".join(f"{count} {name}" for name, count in campaign.outcomes.most_common())
    print(f"halves ended with: {ends}")


def _report(schedule: Schedule, outcome: Outcome, out: Path) -> Path:
    assert outcome.violation is not None
    law = outcome.violation.law
    print(f"BROKEN {law} by seed {schedule.seed}: {outcome.violation.text}")
    print("shrinking ...", file=sys.stderr, flush=True)
    small = shrink(schedule, law)
    found = simulate(small).violation
    assert found is not None
    out.mkdir(parents=True, exist_ok=True)
    path = out / f"{law}-{schedule.seed}.json"
    save(small, path)
    print(
        f"shrunk from {len(schedule.requests)} requests and {len(schedule.faults)} faults"
        f" to {len(small.requests)} and {len(small.faults)}: {found.text}"
    )
    print(f"replay it: severance simulate --replay {path}")
    return path

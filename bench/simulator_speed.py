"""How many schedules the simulator runs in a minute of one core.

python -m bench.simulator_speed
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

from bench.command import run_command
from bench.row import BenchRow, at_least, make_row, not_measured
from engine.simulator.campaign import Campaign, run_campaign
from engine.simulator.draw import Size

SEED = 1
MIN_A_MINUTE = 1_000
MIN_FAULTS = 3
MIN_VIRTUAL_S = 10
SIZE = Size(num_prefill=2, num_decode=2, num_requests=30)


def measure(quick: bool) -> Iterator[BenchRow]:
    began_s, began_cpu_s = time.monotonic(), time.process_time()
    campaign = run_campaign(SEED, 50 if quick else 500, SIZE, lambda _: None)
    wall_s, cpu_s = time.monotonic() - began_s, time.process_time() - began_cpu_s
    yield _row(campaign, wall_s, cpu_s)


def _row(campaign: Campaign, wall_s: float, cpu_s: float) -> BenchRow:
    count = campaign.num_schedules
    num_faults, virtual_s = campaign.num_faults / count, campaign.virtual_ms / 1e3 / count
    name, target = "simulator.schedules_a_minute", at_least(MIN_A_MINUTE)
    if campaign.failure is not None:
        text = f"seed {campaign.failure[0].seed} broke a law: severance simulate shows it"
        return not_measured(name, str(target), "a minute", text)
    if num_faults < MIN_FAULTS or virtual_s < MIN_VIRTUAL_S:
        text = f"schedules are too small: {num_faults:.1f} faults, {virtual_s:.1f} virtual s"
        return not_measured(name, str(target), "a minute", text)
    return make_row(
        name,
        count / cpu_s * 60,
        "a minute",
        target,
        f"{count} schedules of 2P2D with {SIZE.num_requests} requests, on average {num_faults:.1f} faults "
        f"and {virtual_s:.1f} virtual s, laws checked; by CPU time of one core, by the clock "
        f"{count / wall_s * 60:,.0f}",
        samples=count,
    )


if __name__ == "__main__":
    sys.exit(run_command(measure, (__doc__ or "").splitlines()[0], sys.argv[1:]))

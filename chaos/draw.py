"""Draws a schedule of faults from a seed: ``draw:`` of a scenario instead of ``method:``.

The same scenario and seed give the same schedule on every machine; what was drawn stands in
``scenario.resolved.yaml`` as a plain method, so a run can be repeated or shrunk without drawing again.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import msgspec

from chaos.errors import ScenarioError
from chaos.fault_spec import FaultSpec, LinkFaultSpec, ProcessFaultSpec
from chaos.links import matches, pair_names
from chaos.spec import DrawSpec, Scenario, Step


def draw_method(
    scenario: Scenario, draw: DrawSpec, prefill: Sequence[str], decode: Sequence[str]
) -> tuple[Step, ...]:
    """``draw.faults`` steps that fit into the load. Raises `ScenarioError` if they cannot fit."""
    if draw.for_s[0] > draw.for_s[1]:
        raise ScenarioError("draw.for_s", "the shorter time comes first")
    slot_s = draw.for_s[1] + draw.apart_s
    spare_s = scenario.load.duration_s - draw.first_at_s - draw.faults * slot_s
    if spare_s < 0:
        needed_s = scenario.load.duration_s - spare_s
        raise ScenarioError("draw.faults", f"do not fit: load.duration_s must be {needed_s:g}")
    rng = random.Random(f"{scenario.name}/{scenario.seed}")
    delays_s = sorted(rng.uniform(0, spare_s) for _ in range(draw.faults))
    return tuple(
        Step(
            at_s=round(draw.first_at_s + index * slot_s + delay_s, 2),
            fault=_draw_fault(rng, draw, prefill, decode),
        )
        for index, delay_s in enumerate(delays_s)
    )


def _draw_fault(
    rng: random.Random, draw: DrawSpec, prefill: Sequence[str], decode: Sequence[str]
) -> FaultSpec:
    fault = rng.choice(draw.of).holding(round(rng.uniform(*draw.for_s), 2))
    match fault:
        case LinkFaultSpec():
            links = _draw_links(rng, fault, prefill, decode)
            return msgspec.structs.replace(fault, links=links)
        case ProcessFaultSpec():
            return msgspec.structs.replace(fault, worker=rng.choice([*prefill, *decode]))
        case _:
            return fault


def _draw_links(
    rng: random.Random, fault: LinkFaultSpec, prefill: Sequence[str], decode: Sequence[str]
) -> tuple[str, ...]:
    """Everything that the fault may cut, or one link of it."""
    names = [
        str(name)
        for name in pair_names(prefill, decode)
        if any(matches(pattern, name) for pattern in fault.links)
    ]
    return rng.choice([fault.links, *((name,) for name in names)])

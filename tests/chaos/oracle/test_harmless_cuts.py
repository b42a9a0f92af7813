"""What counts as too short to be a death; what the check then sees is in `test_mutations`."""

from __future__ import annotations

import pytest

from chaos.codes import CutMode
from chaos.oracle.harmless_cuts import CUTS, is_short
from chaos.oracle.plan import FaultPlan, Plan

PLAN = Plan(name="pd")


def test_every_mode_of_a_link_is_known() -> None:
    assert {mode.value for mode in CutMode} == CUTS


@pytest.mark.parametrize("mode", sorted(CUTS))
def test_a_cut_is_short_by_its_links(mode: str) -> None:
    def short(for_s: float, *links: str) -> bool:
        return is_short(PLAN, FaultPlan(kind="link", mode=mode, links=links, for_s=for_s))

    assert short(1.0, "control:*")
    assert not short(1.1, "control:*")
    assert short(2.0, "kv:*")
    assert not short(2.1, "kv:*")
    assert not short(1.1, "kv:*", "control:*"), "the more sensitive link decides"


def test_a_pause_is_short_as_a_cut_of_control_is() -> None:
    def short(for_s: float) -> bool:
        return is_short(PLAN, FaultPlan(kind="process", mode="pause", worker="d0", for_s=for_s))

    assert short(1.0)
    assert not short(1.1)


@pytest.mark.parametrize(
    ("kind", "mode", "for_s"),
    [("process", "kill", None), ("process", "slow", 0.5), ("telemetry", "collector_stall", 0.5)],
)
def test_what_is_no_silence_is_no_blip(kind: str, mode: str, for_s: float | None) -> None:
    assert not is_short(PLAN, FaultPlan(kind=kind, mode=mode, for_s=for_s))

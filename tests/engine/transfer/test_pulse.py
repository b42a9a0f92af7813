"""When does a loop stand still? (DESIGN 2.3: longer than max(5 s, 10 x its longest step) in one step.)"""

from __future__ import annotations

import pytest

from engine.transfer.pulse import LoopPulse, wedged_for_ns

S_NS = 1_000_000_000


@pytest.mark.parametrize(
    ("age_s", "longest_s", "still_s"),
    [(0, 0, 0), (3, 0.1, 0), (5, 0.1, 0), (5.1, 0.1, 5.1), (20, 3, 0), (30, 3, 0), (31, 3, 31)],
)
def test_a_long_step_is_not_a_dead_loop(age_s: float, longest_s: float, still_s: float) -> None:
    assert wedged_for_ns(int(age_s * S_NS), int(longest_s * S_NS)) == int(still_s * S_NS)


def test_a_loop_stands_still_in_its_step_and_not_between_two() -> None:
    pulse = LoopPulse()
    assert not pulse.stands_still(100 * S_NS)
    pulse.begin_step(1 * S_NS)
    assert not pulse.stands_still(5 * S_NS)
    assert pulse.stands_still(7 * S_NS)
    pulse.end_step(8 * S_NS)
    assert not pulse.stands_still(100 * S_NS)
    pulse.begin_step(100 * S_NS)
    assert not pulse.stands_still(160 * S_NS)  # 7 s were a step of this loop: 70 s are the limit
    assert pulse.stands_still(171 * S_NS)

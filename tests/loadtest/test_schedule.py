"""Lengths, abort plans and whole schedules: in range, in proportion, and independent of each other."""

from __future__ import annotations

import itertools
import json
import random
import statistics
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadtest.abort_plan import AbortChoice, AbortMix, read_choices
from loadtest.errors import UsageError
from loadtest.history import AbortKind
from loadtest.lengths import Lengths
from loadtest.schedule import Shapes


@pytest.mark.parametrize("mean", [560.0, 1100.0, 2800.0])
def test_lengths_have_the_wanted_mean(mean: float) -> None:
    lengths = Lengths(low=512, high=3000, mean=mean)
    sample = [lengths.draw(rng) for rng in [random.Random(1)] for _ in range(20_000)]
    assert min(sample) >= 512
    assert max(sample) <= 3000
    assert statistics.fmean(sample) == pytest.approx(mean, rel=0.03)
    assert len(set(sample)) > 100


@given(st.integers(1, 5000), st.integers(0, 5000), st.floats(0, 1), st.integers())
def test_lengths_stay_in_range(low: int, width: int, share: float, seed: int) -> None:
    high = low + width
    lengths = Lengths(low=low, high=high, mean=min(float(high), low + share * width))
    assert low <= lengths.draw(random.Random(seed)) <= high


MIX = AbortMix(
    share=0.4,
    choices=(
        AbortChoice(kind=AbortKind.DISCONNECT, weight=2, after_tokens=(1, 12)),
        AbortChoice(kind=AbortKind.RID, after_ms=(30, 600)),
        AbortChoice(kind=AbortKind.DEADLINE, after_ms=(60, 900)),
    ),
)


def test_plans_follow_share_and_weights() -> None:
    rng = random.Random(5)
    plans = [MIX.draw(rng) for _ in range(20_000)]
    kinds = Counter(plan.kind for plan in plans if plan)
    assert kinds.total() / len(plans) == pytest.approx(0.4, abs=0.02)
    assert kinds[AbortKind.DISCONNECT] / kinds.total() == pytest.approx(0.5, abs=0.02)
    assert kinds[AbortKind.RID] / kinds.total() == pytest.approx(0.25, abs=0.02)
    tokens = {plan.after_tokens for plan in plans if plan and plan.kind is AbortKind.DISCONNECT}
    assert tokens == set(range(1, 13))
    times = [plan.after_ms for plan in plans if plan and plan.kind is AbortKind.RID]
    assert 30 <= min(times) < 40
    assert 590 < max(times) <= 600


def test_another_mix_moves_no_prompt_and_another_share_keeps_the_plans() -> None:
    isl, osl = Lengths(low=10, high=500, mean=100), Lengths(low=1, high=50)

    def slots(aborts: AbortMix) -> list[object]:
        due_times = itertools.repeat(0.0, 300)
        return list(Shapes(isl=isl, osl=osl, aborts=aborts).slots(3, 4, due_times))

    none, some, more = (
        slots(AbortMix()),
        slots(MIX),
        slots(AbortMix(share=0.8, choices=MIX.choices)),
    )
    assert [(s.isl, s.max_new_tokens) for s in none] == [(s.isl, s.max_new_tokens) for s in some]
    for slot, same in zip(some, more, strict=True):
        assert slot.plan is None or slot.plan == same.plan


@pytest.mark.parametrize(
    ("entry", "complaint"),
    [
        ({"kind": "rid"}, "exactly one"),
        ({"kind": "rid", "after_ms": [1, 2], "after_tokens": [1, 2]}, "exactly one"),
        ({"kind": "deadline", "after_tokens": [1, 2]}, "needs after_ms"),
        ({"kind": "rid", "after_ms": [9, 2]}, "low <= high"),
        ({"kind": "rid", "after_ms": [-1, 2]}, "low <= high"),
        ({"kind": "rid", "after_tokens": [0, 2]}, "counts from 1"),
        ({"kind": "rid", "after_ms": [1, 2], "weight": 0}, "weight"),
        ({"kind": "sudden", "after_ms": [1, 2]}, "sudden"),
        ({"kind": "rid", "after_ms": [1, 2], "fater": 1}, "fater"),
    ],
)
def test_bad_mix_files(entry: object, complaint: str, tmp_path: Path) -> None:
    path = tmp_path / "mix.json"
    path.write_text(json.dumps([entry]))
    with pytest.raises(UsageError, match=complaint) as caught:
        read_choices(path)
    assert caught.value.flag == "--abort-mix"


def test_mix_file_with_explicit_nulls(tmp_path: Path) -> None:
    path = tmp_path / "mix.json"
    path.write_text('[{"kind": "rid", "weight": 1.0, "after_ms": [1, 2], "after_tokens": null}]')
    assert read_choices(path) == (AbortChoice(kind=AbortKind.RID, after_ms=(1, 2)),)

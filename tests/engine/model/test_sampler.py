"""Tokens, margins and logprobs out of logits."""

from __future__ import annotations

import math
from collections import Counter

import pytest
import torch

from engine.core.batch import ForwardItem
from engine.core.io_struct import SamplingParams
from engine.model.sampler import sample


def make_item(
    temperature: float = 0.0, seed: int = 0, output_index: int = 0, top: int = 0, rid: str = "r"
) -> ForwardItem:
    return ForwardItem(
        rid=rid,
        input_ids=(0,),
        start=0,
        page_ids=(0,),
        wants_token=True,
        sampling_params=SamplingParams(temperature=temperature, seed=seed),
        output_index=output_index,
        top_logprobs_num=top,
    )


def test_greedy_with_margin_and_top() -> None:
    logits = torch.tensor([[0.5, 3.0, 1.0, 2.25], [9.0, -1.0, 2.0, 8.5]])
    first, second = sample(logits, [make_item(), make_item(top=3)])
    assert (first.token_id, first.margin, first.top) == (1, 0.75, ())
    total = sum(math.exp(value) for value in (0.5, 3.0, 1.0, 2.25))
    assert first.logprob == pytest.approx(3.0 - math.log(total), abs=1e-6)
    assert (second.token_id, second.margin) == (0, 0.5)
    assert [token for token, _ in second.top] == [0, 3, 2]
    assert second.top[0][1] == second.logprob
    assert second.top[0][1] - second.top[1][1] == pytest.approx(second.margin, abs=1e-6)


def test_a_tie_has_no_margin() -> None:
    (token,) = sample(torch.tensor([[1.0, 4.0, 4.0]]), [make_item()])
    assert token.margin == 0.0
    assert token.token_id in (1, 2)


def test_more_tops_than_tokens() -> None:
    (token,) = sample(torch.tensor([[1.0, 2.0]]), [make_item(top=5)])
    assert [i for i, _ in token.top] == [1, 0]


def test_a_draw_depends_on_seed_and_index_alone() -> None:
    logits = torch.zeros(1, 1000)

    def draw(**settings: object) -> int:
        return sample(logits, [make_item(temperature=1.0, **settings)])[0].token_id  # type: ignore[arg-type]

    assert draw(seed=5, output_index=3) == draw(seed=5, output_index=3, rid="other")
    company = [make_item(), make_item(1.0, seed=5, output_index=3), make_item(0.3, seed=9)]
    assert sample(logits.expand(3, -1), company)[1].token_id == draw(seed=5, output_index=3)
    # Seeds that share their low 32 bits, or have a sign, are seeds of their own.
    draws = {draw(seed=s, output_index=i) for s in (1, 1 + 2**32, -1, 2**80) for i in range(25)}
    assert len(draws) > 80


def test_draws_follow_the_distribution() -> None:
    odds = torch.tensor([[0.5, 0.3, 0.2]])
    counts = Counter(sample(odds.log(), [make_item(1.0, seed=i)])[0].token_id for i in range(2_000))
    assert [counts[token] / 2_000 for token in range(3)] == pytest.approx([0.5, 0.3, 0.2], abs=0.04)
    cold = Counter(sample(odds.log(), [make_item(0.1, seed=i)])[0].token_id for i in range(200))
    assert cold[0] > 190


def test_a_drawn_token_has_its_own_logprob_and_the_same_margin() -> None:
    logits = torch.tensor([[0.0, 1.0, 2.0]])
    drawn = [sample(logits, [make_item(5.0, seed=i)])[0] for i in range(30)]
    assert {token.token_id for token in drawn} == {0, 1, 2}
    for token in drawn:
        expected = float(torch.log_softmax(logits[0], -1)[token.token_id])
        assert token.logprob == pytest.approx(expected, abs=1e-6)
        assert token.margin == 1.0

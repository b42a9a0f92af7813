"""The model computes what a Llama computes, and a request's tokens are its own business."""

from __future__ import annotations

import random

import pytest
import torch

from engine.model.config import TINY
from engine.model.runner import ModelRunner
from engine.model.seeded import seeded_source
from tests.engine.model.drive import Request, finish, make_prompt, pages_for, step
from tests.engine.model.reference import Reference

NUM_OUT = 24


def scattered_pages(seed: int, *lengths: int) -> list[tuple[int, ...]]:
    """Disjoint pages for requests of so many tokens, in no order."""
    ids = random.Random(seed).sample(range(400), 400)
    return [tuple(ids.pop() for _ in range(pages_for(length + NUM_OUT))) for length in lengths]


def test_equals_a_plain_reference(runner: ModelRunner) -> None:
    reference = Reference(TINY, seeded_source(0))
    for length in (1, 2, 16, 17, 255, 256, 257, 520):
        prompt = make_prompt(length, length)
        (pages,) = scattered_pages(length, length)
        request = Request(prompt, pages, NUM_OUT)
        finish(runner, request)
        expected = reference.logprobs(list(prompt) + request.token_ids)[length - 1 : -1]
        got = torch.tensor([token.logprob for token in request.output], dtype=torch.float64)
        chosen = torch.tensor(request.token_ids)[:, None]
        assert (got - expected.gather(1, chosen)[:, 0]).abs().max() < 2e-3, length
        best = expected.topk(2)
        margins = best.values[:, 0] - best.values[:, 1]
        clear = margins > 2e-3
        assert torch.equal(best.indices[clear, 0], chosen[clear, 0]), length
        measured = torch.tensor([token.margin for token in request.output], dtype=torch.float64)
        assert (measured - margins)[clear].abs().max() < 4e-3, length


def test_tokens_do_not_depend_on_neighbors_or_pages(runner: ModelRunner) -> None:
    """Bit for bit: alone, in company that joins and leaves, and in other pages."""
    lengths = (1, 40, 130, 300, 513, 700)
    prompts = [make_prompt(i, length) for i, length in enumerate(lengths)]
    alone = []
    for prompt, pages in zip(prompts, scattered_pages(1, *lengths), strict=True):
        alone += finish(runner, Request(prompt, pages, NUM_OUT))

    together = [
        Request(prompt, pages, NUM_OUT)
        for prompt, pages in zip(prompts, scattered_pages(2, *lengths), strict=True)
    ]
    for joined in range(1, len(together)):  # each starts one step after the other
        step(runner, together[:joined])
    assert finish(runner, *together) == alone

    backwards = [
        Request(prompt, pages, NUM_OUT)
        for prompt, pages in zip(prompts, scattered_pages(3, *lengths), strict=True)
    ]
    assert finish(runner, *backwards[::-1]) == alone[::-1]


@pytest.mark.parametrize("num_neighbors", [1, 2, 3, 7, 15, 30])
def test_decode_is_the_same_in_every_batch_size(runner: ModelRunner, num_neighbors: int) -> None:
    first, *rest = scattered_pages(num_neighbors, 100, *([20] * num_neighbors))
    (alone,) = finish(runner, Request(make_prompt(0, 100), first, NUM_OUT))
    neighbors = [Request(make_prompt(i, 20), pages, NUM_OUT) for i, pages in enumerate(rest)]
    together = finish(runner, *neighbors, Request(make_prompt(0, 100), first, NUM_OUT))
    assert together[-1] == alone


def test_chunk_size_changes_rounding_only(runner: ModelRunner) -> None:
    prompt = make_prompt(5, 500)
    (pages,) = scattered_pages(0, 500)
    outputs = [
        finish(runner, Request(prompt, pages, num_tokens=1, chunk=chunk))[0][0]
        for chunk in (500, 256, 64, 16)
    ]
    assert max(abs(output.logprob - outputs[0].logprob) for output in outputs) < 1e-4
    assert len({output.token_id for output in outputs}) == 1


def test_broken_bytes_of_a_former_owner_do_not_matter(runner: ModelRunner) -> None:
    prompt = make_prompt(7, 300)
    (pages,) = scattered_pages(4, 300)
    (clean,) = finish(runner, Request(prompt, pages, NUM_OUT))
    every_page = range(400)
    nan = b"\xff" * (runner.page_bytes * len(every_page))
    runner.scatter_pages(every_page, nan)
    try:
        assert finish(runner, Request(prompt, pages, NUM_OUT)) == [clean]
    finally:
        runner.scatter_pages(every_page, bytes(len(nan)))


def test_no_repeated_token(runner: ModelRunner) -> None:
    (pages,) = scattered_pages(0, 200)
    request = Request(make_prompt(9, 200), pages, NUM_OUT)
    finish(runner, request)
    assert len(set(request.token_ids)) > NUM_OUT // 2


def test_bfloat16_runs_in_half_the_space(runner: ModelRunner) -> None:
    half = ModelRunner(TINY, 8, 16, "bfloat16", seed=0)
    assert half.page_bytes * 2 == runner.page_bytes
    exact, rough = (
        finish(it, Request(make_prompt(1, 50), tuple(range(6)), 1))[0][0] for it in (runner, half)
    )
    assert abs(exact.logprob - rough.logprob) < 0.3

"""The model: tokens depend on the cache, and on nothing else."""

from __future__ import annotations

import pytest

from engine.core.io_struct import SamplingParams
from engine.model.config import TINY
from engine.model.errors import ModelPathError
from engine.model.runner import ModelRunner, load_runner
from engine.model.tokenizer import load_tokenizer
from tests.engine.model.bench_items import (
    chunk_items,
    generate,
    go_on,
    make_item,
    prefill,
    random_prompt,
)

PAGE = 16


def make_runner(num_pages: int = 256, seed: int = 0) -> ModelRunner:
    return ModelRunner(TINY, num_pages, PAGE, "float32", seed)


@pytest.fixture(scope="module")
def runner() -> ModelRunner:
    return make_runner()


def test_one_wrong_page_changes_the_answer() -> None:
    """DESIGN 2.5: else the token oracle is blind. Foreign or zeroed; start, middle and end."""
    runner = make_runner(400)
    length, count = 1_000, 32
    num_pages = -(-(length + count) // PAGE)
    pages, foreign = list(range(num_pages)), list(range(200, 200 + num_pages))
    prefill(runner, random_prompt(99, length), foreign)
    cases, changed = 0, 0
    for seed in range(4):
        prompt = random_prompt(seed, length)
        first = prefill(runner, prompt, pages)
        clean = runner.gather_pages(pages)
        right = go_on(runner, prompt, pages, first, count)
        for where in (0, num_pages // 2, length // PAGE - 1):
            for wrong in (runner.gather_pages([foreign[where]]), bytes(runner.page_bytes)):
                runner.scatter_pages(pages, clean)
                runner.scatter_pages([pages[where]], wrong)
                cases += 1
                changed += go_on(runner, prompt, pages, first, count) != right
    assert changed >= 0.95 * cases, f"{changed} of {cases}"


def test_neighbours_and_page_places_change_nothing(runner: ModelRunner) -> None:
    prompt = random_prompt(2, 300)
    alone = generate(runner, prompt, list(range(20)), 12)
    assert generate(runner, prompt, list(range(60, 40, -1)), 12) == alone
    pages, other_pages = list(range(20)), list(range(100, 130))
    other = random_prompt(3, 400)
    first = None
    for mine, theirs in zip(
        chunk_items(prompt, pages), chunk_items(other, other_pages), strict=True
    ):
        first = runner.forward([theirs, mine])[1]
    assert first is not None
    out = [first.token_id]
    while len(out) < 12:
        mine = make_item(out[-1:], len(prompt) + len(out) - 1, pages, len(out))
        crowd = [make_item([7], 400, other_pages, 1), mine, make_item([9], 401, other_pages, 2)]
        token = runner.forward(crowd)[1]
        assert token is not None
        out.append(token.token_id)
    assert out == alone


def test_kv_moves_to_another_runner() -> None:
    """What a PD pair does: prefill here, decode there, tokens as in one engine."""
    here, there = make_runner(), make_runner()
    assert here.fingerprint == there.fingerprint
    assert here.fingerprint != make_runner(seed=1).fingerprint
    prompt = random_prompt(4, 500)
    whole = generate(here, prompt, list(range(40)), 16)
    first = prefill(here, prompt, list(range(40)))
    num_pages = -(-len(prompt) // PAGE)
    moved_to = list(range(200, 240))
    there.scatter_pages(moved_to[:num_pages], here.gather_pages(list(range(num_pages))))
    assert go_on(there, prompt, moved_to, first, 16) == whole


def test_gather_and_scatter_are_inverse_and_page_major(runner: ModelRunner) -> None:
    prefill(runner, random_prompt(5, 100), list(range(10)))
    data = runner.gather_pages([3, 1, 2])
    assert len(data) == 3 * runner.page_bytes
    assert data[: runner.page_bytes] == runner.gather_pages([3])
    runner.scatter_pages([50, 51, 52], data)
    assert runner.gather_pages([50, 51, 52]) == data
    runner.scatter_pages([60], memoryview(data)[runner.page_bytes : 2 * runner.page_bytes])
    assert runner.gather_pages([60]) == runner.gather_pages([1])


def test_temperature_is_repeatable_by_seed(runner: ModelRunner) -> None:
    prompt, pages = random_prompt(6, 50), list(range(10))
    hot = SamplingParams(temperature=1.5, seed=11)
    first = generate(runner, prompt, pages, 12, hot)
    assert generate(runner, prompt, pages, 12, hot) == first
    assert generate(runner, prompt, pages, 12, SamplingParams(temperature=1.5, seed=12)) != first
    assert generate(runner, prompt, pages, 12) != first


def test_logprobs_are_a_distribution_and_give_the_margin(runner: ModelRunner) -> None:
    token = prefill(runner, random_prompt(7, 40), list(range(10)))
    (best, best_logprob), (_, second_logprob) = token.top
    assert best == token.token_id
    assert best_logprob == token.logprob < 0
    assert best_logprob - second_logprob == pytest.approx(token.margin, abs=1e-5)


def test_an_unknown_model_says_what_to_give() -> None:
    with pytest.raises(ModelPathError, match=r"--model-path 'nowhere'.*tiny"):
        load_runner("nowhere", 8, PAGE, "float32", 0, "cpu")
    with pytest.raises(ModelPathError):
        load_tokenizer("nowhere")


@pytest.mark.parametrize("text", ["", "plain", "naïve – 漢字 🙂"])
def test_byte_tokenizer_round_trip(text: str) -> None:
    tokenizer = load_tokenizer("tiny")
    assert tokenizer.decode([256, *tokenizer.encode(text), 257]) == text


def test_broken_utf8_is_replaced() -> None:
    assert load_tokenizer("tiny").decode([65, 0xFF, 66]) == "A\ufffdB"

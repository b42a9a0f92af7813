"""A forward of the real model that stops between layers leaves nothing behind."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from engine.core.batch import Cancelled
from engine.model.runner import ModelRunner
from tests.engine.model.drive import Request, finish, make_prompt, pages_for, prefill

LENGTH = 600


def after(num_asked: int) -> Callable[[], bool]:
    """Says yes at the ``num_asked``-th question (from 0) and from then on."""
    asked = iter(range(1_000))
    return lambda: next(asked) >= num_asked


def new_request(index: int, num_tokens: int = 16) -> Request:
    pages = tuple(range(pages_for(LENGTH + num_tokens)))
    return Request(make_prompt(index, LENGTH), pages, num_tokens=num_tokens)


@pytest.mark.parametrize("num_asked", [0, 1, 4, 6])
def test_stops_where_it_is_told(runner: ModelRunner, num_asked: int) -> None:
    result = runner.forward([new_request(0).next_item()], after(num_asked))

    assert result == Cancelled(num_layers_run=num_asked // 2)


def test_a_forward_that_nobody_stops_asks_twice_a_layer(runner: ModelRunner) -> None:
    asked: list[None] = []

    def count() -> bool:
        asked.append(None)
        return False

    request = new_request(0)
    request.start = 2 * request.chunk
    assert runner.forward([request.next_item()], count) != Cancelled(num_layers_run=0)
    assert len(asked) == 2 * runner.config.num_hidden_layers


@pytest.mark.parametrize("num_asked", [0, 3, 6])
def test_the_next_request_on_the_pages_is_right(runner: ModelRunner, num_asked: int) -> None:
    (expected,) = finish(runner, new_request(1))
    aborted = new_request(0)
    prefill(runner, aborted)
    aborted.start = 256
    assert isinstance(runner.forward([aborted.next_item()], after(num_asked)), Cancelled)

    (got,) = finish(runner, new_request(1))

    assert got == expected


@pytest.mark.parametrize("num_asked", [0, 3, 6])
def test_a_request_that_lives_after_all_is_right(runner: ModelRunner, num_asked: int) -> None:
    """Every forward is cut once and run again: chunks and decode steps."""
    (expected,) = finish(runner, new_request(1))
    request = new_request(1)
    while not request.is_done:
        assert isinstance(runner.forward([request.next_item()], after(num_asked)), Cancelled)
        finish_one(runner, request)

    assert request.output == expected


def finish_one(runner: ModelRunner, request: Request) -> None:
    item = request.next_item()
    result = runner.forward([item])
    assert not isinstance(result, Cancelled)
    request.start += len(item.input_ids)
    request.output += [token for token in result if token is not None]

"""Pages go out and in byte by byte, and another runner goes on with them."""

from __future__ import annotations

import os

import pytest

from engine.model.config import TINY
from engine.model.errors import PageDataError, PageTableError
from engine.model.runner import ModelRunner
from tests.engine.model.drive import PAGE_SIZE, Request, finish, make_prompt, pages_for, prefill


def test_page_bytes(runner: ModelRunner) -> None:
    per_token = TINY.num_hidden_layers * 2 * TINY.num_key_value_heads * TINY.head_dim * 4
    assert runner.page_bytes == PAGE_SIZE * per_token == 65_536


def test_scatter_inverts_gather(runner: ModelRunner) -> None:
    pages = (9, 3, 250, 4)
    data = os.urandom(len(pages) * runner.page_bytes)
    before = runner.gather_pages((2, 5, 249, 251))
    runner.scatter_pages(pages, data)
    assert runner.gather_pages(pages) == data
    assert runner.gather_pages((2, 5, 249, 251)) == before
    size = runner.page_bytes
    by_page = b"".join(runner.gather_pages([page]) for page in pages)
    assert by_page == data
    runner.scatter_pages((7,), memoryview(data)[size : 2 * size])
    assert runner.gather_pages((7,)) == data[size : 2 * size]
    runner.scatter_pages((*pages, 7), bytes(5 * size))


def test_no_pages(runner: ModelRunner) -> None:
    assert runner.gather_pages(()) == b""
    runner.scatter_pages((), b"")


def test_another_runner_goes_on_with_moved_pages(
    runner: ModelRunner, other_runner: ModelRunner
) -> None:
    """What decode does with what prefill has computed, to the last bit."""
    prompt = make_prompt(3, 601)
    num_prompt_pages = pages_for(len(prompt))
    here = tuple(range(60))
    (expected,) = finish(runner, Request(prompt, here))

    sent = Request(prompt, here)
    prefill(runner, sent)
    there = tuple(range(399, 399 - pages_for(len(prompt) + 32), -1))
    for first in range(0, num_prompt_pages, 16):  # chunk by chunk
        part = slice(first, min(first + 16, num_prompt_pages))
        other_runner.scatter_pages(there[part], runner.gather_pages(here[part]))
    sent.page_ids = there
    assert finish(other_runner, sent) == [expected]


@pytest.mark.parametrize("page_ids", [(0, 400), (-1,), (3, 1 << 40)])
def test_pages_that_do_not_exist(runner: ModelRunner, page_ids: tuple[int, ...]) -> None:
    with pytest.raises(PageTableError, match="the pool has 0 to 399"):
        runner.gather_pages(page_ids)
    with pytest.raises(PageTableError):
        runner.scatter_pages(page_ids, bytes(len(page_ids) * runner.page_bytes))
    with pytest.raises(PageTableError):
        finish(runner, Request(tuple(b"x" * 20), (*page_ids, *page_ids)))


def test_too_few_pages_write_nothing(runner: ModelRunner) -> None:
    before = runner.gather_pages((0, 1, 2))
    good, bad = Request(tuple(b"fits"), (0, 1, 2)), Request(tuple(b"x" * 33), (1, 2))
    with pytest.raises(PageTableError, match="33 tokens at 0 do not fit its 2 pages of 16"):
        finish(runner, good, bad)
    assert runner.gather_pages((0, 1, 2)) == before


@pytest.mark.parametrize("size", [0, 65_535, 65_537, 131_072])
def test_data_of_another_length(runner: ModelRunner, size: int) -> None:
    with pytest.raises(PageDataError, match="same model, dtype and page size"):
        runner.scatter_pages((1,), bytes(size))

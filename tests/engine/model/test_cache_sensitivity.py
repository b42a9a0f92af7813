"""The tokens depend on every part of the cache: else wrong KV would go unnoticed (DESIGN 2.5)."""

from __future__ import annotations

from dataclasses import replace

from engine.model.runner import ModelRunner
from tests.engine.model.drive import Request, finish, make_prompt, pages_for, prefill

NUM_PROMPTS = 20
PROMPT_LEN = 600
NUM_PAGES = pages_for(PROMPT_LEN + 32)


def page_run(index: int) -> tuple[int, ...]:
    """Room for one copy of the request."""
    return tuple(range(index * NUM_PAGES, (index + 1) * NUM_PAGES))


def test_one_wrong_page_changes_the_output(runner: ModelRunner) -> None:
    """One zeroed and one foreign page at the start, in the middle and at the end of the prompt."""
    num_changed = num_tried = 0
    last = pages_for(PROMPT_LEN) - 1
    foreign = bytes(last * runner.page_bytes)
    for index in range(NUM_PROMPTS + 1):
        base = Request(make_prompt(index, PROMPT_LEN), page_run(0))
        prefill(runner, base)
        clean = runner.gather_pages(page_run(0))
        copies = [replace(base, page_ids=page_run(0), output=list(base.output))]
        for copy, (page, is_foreign) in enumerate(
            [(page, kind) for page in (0, last // 2, last - 1) for kind in (False, True)], start=1
        ):
            pages = page_run(copy)
            runner.scatter_pages(pages, clean)
            begin = page * runner.page_bytes
            wrong = foreign[begin : begin + runner.page_bytes]
            runner.scatter_pages(
                pages[page : page + 1], wrong if is_foreign else bytes(runner.page_bytes)
            )
            copies.append(replace(base, page_ids=pages, output=list(base.output)))
        foreign = clean
        if index == 0:
            continue  # its foreign pages would be zeros
        finish(runner, *copies)
        right = copies[0].token_ids
        num_tried += len(copies) - 1
        num_changed += sum(copy.token_ids != right for copy in copies[1:])
    assert num_tried == NUM_PROMPTS * 6
    assert num_changed >= 0.95 * num_tried, f"{num_changed} of {num_tried} outputs changed"

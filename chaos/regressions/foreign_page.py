"""Now and then a page of one request is overwritten by another's (after sglang#24527: decode freed pages
that prefill was still writing)."""

from __future__ import annotations

from collections.abc import Sequence

from engine.model.runner import ModelRunner

EVERY = 3


def apply() -> None:
    scatter = ModelRunner.scatter_pages
    earlier: list[bytes] = []

    def scatter_with_a_stranger(
        self: ModelRunner, page_ids: Sequence[int], data: bytes | memoryview
    ) -> None:
        scatter(self, page_ids, data)
        earlier.append(bytes(data[: self.page_bytes]))
        if len(earlier) % EVERY == 0:
            scatter(self, page_ids[:1], earlier.pop(0))

    ModelRunner.scatter_pages = scatter_with_a_stranger  # type: ignore[method-assign]

"""The last pages of a transfer are reported and not written (after TensorRT-LLM#19545)."""

from __future__ import annotations

from collections.abc import Sequence

from engine.model.runner import ModelRunner


def apply() -> None:
    scatter = ModelRunner.scatter_pages

    def scatter_all_but_the_last(
        self: ModelRunner, page_ids: Sequence[int], data: bytes | memoryview
    ) -> None:
        written = len(page_ids) // 2
        scatter(self, page_ids[:written], data[: written * self.page_bytes])

    ModelRunner.scatter_pages = scatter_all_but_the_last  # type: ignore[method-assign]

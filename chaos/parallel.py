"""The same act on several things at once, each bounded by itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")


def parallel(items: Sequence[ItemT], act: Callable[[ItemT], ResultT]) -> list[ResultT]:
    """Results in the order of ``items``; the first exception is raised when all are through."""
    if not items:
        return []
    with ThreadPoolExecutor(max_workers=len(items)) as pool:
        try:
            futures = [pool.submit(act, item) for item in items]
        except RuntimeError:
            # The interpreter is ending and starts no thread any more; a heal must still happen.
            return [act(item) for item in items]
        return [future.result() for future in futures]

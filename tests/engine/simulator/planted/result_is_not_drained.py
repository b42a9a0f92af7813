"""A token of a forward during which the abort arrived goes out."""

from __future__ import annotations

from collections.abc import Sequence

from engine.core.decode import DecodeScheduler
from engine.core.io_struct import TokenLogprob
from engine.core.scheduler import ScheduleBatch
from tests.engine.simulator.planted.patch import Patch


def process_tokens(
    self: DecodeScheduler,
    batch: ScheduleBatch,
    result: Sequence[TokenLogprob | None],
    now_ns: int,
) -> None:
    for key, token in zip(batch.keys, result, strict=True):
        req = self.reqs.get(key)
        if req is not None and token is not None:
            req.num_cached_tokens += 1
            self.append_token(req, token, now_ns)


PATCHES: tuple[Patch, ...] = ((DecodeScheduler, "_process_tokens", process_tokens),)

"""A disconnect is looked for every 4 s only (after sglang#36333: the poll of a waiting stream)."""

from __future__ import annotations

import asyncio

from starlette.types import Receive

from engine.server.generate import GenerateEndpoint
from engine.server.req_state import ReqState

PERIOD_S = 4.0


def apply() -> None:
    watch = GenerateEndpoint._watch_client

    async def watch_late(self: GenerateEndpoint, state: ReqState, receive: Receive) -> None:
        await asyncio.sleep(PERIOD_S)
        await watch(self, state, receive)

    GenerateEndpoint._watch_client = watch_late  # type: ignore[method-assign]

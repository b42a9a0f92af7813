"""A client that went away is not noticed (after sglang#36333, dynamo#13691: it decodes to its end)."""

from __future__ import annotations

from starlette.types import Receive

from engine.server.generate import GenerateEndpoint
from engine.server.req_state import ReqState


def apply() -> None:
    async def watch_nobody(self: GenerateEndpoint, state: ReqState, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    GenerateEndpoint._watch_client = watch_nobody  # type: ignore[method-assign]

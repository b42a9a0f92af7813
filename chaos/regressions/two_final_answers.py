"""A stream says its last word twice (after sglang#34570: a retried dispatch answered again)."""

from __future__ import annotations

import msgspec

from engine.server.answers import GenerateAnswer
from engine.server.asgi import SseWriter


def apply() -> None:
    event = SseWriter.event

    async def say_it_again(self: SseWriter, body: msgspec.Struct) -> None:
        await event(self, body)
        if isinstance(body, GenerateAnswer) and body.meta_info.finish_reason is not None:
            await event(self, body)

    SseWriter.event = say_it_again  # type: ignore[method-assign]

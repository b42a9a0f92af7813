"""`ControlClient`: asks the scheduler loop something and waits for its answer, with a bound."""

from __future__ import annotations

import asyncio
import itertools

from engine.core.io_struct import ControlReq, ControlResp
from engine.errors import UnavailableError
from engine.server.ipc import SchedulerLink

DEFAULT_TIMEOUT_S = 2.0


class ControlClient:
    """Pairs `ControlReq` with `ControlResp` by id."""

    def __init__(self, link: SchedulerLink) -> None:
        self._link = link
        self._ids = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[bytes]] = {}

    async def ask(self, op: str, rid: str = "", timeout_s: float = DEFAULT_TIMEOUT_S) -> bytes:
        """The scheduler's answer as JSON text, empty for "not found".

        Raises `UnavailableError` if it does not come in time.
        """
        request_id = next(self._ids)
        future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._waiting[request_id] = future
        try:
            self._link.send(ControlReq(id=request_id, op=op, rid=rid))
            async with asyncio.timeout(timeout_s):
                return await future
        except TimeoutError:
            raise UnavailableError(
                f"the scheduler did not answer in {timeout_s:g} s; see /health"
            ) from None
        finally:
            del self._waiting[request_id]

    def on_response(self, response: ControlResp) -> None:
        """Hand an answer to whoever waits for it; a late one is dropped."""
        future = self._waiting.get(response.id)
        if future is not None and not future.done():
            future.set_result(response.body)

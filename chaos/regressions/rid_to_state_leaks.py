"""The HTTP process keeps the state of an aborted request (after sglang#34570: a retried rid met its own
leftovers)."""

from __future__ import annotations

import time

from engine.core.io_struct import FinishReason, TraceRecord
from engine.server.req_state import ReqState
from engine.server.tokenizer_manager import TokenizerManager


def apply() -> None:
    end = TokenizerManager._end

    def end_and_keep(
        self: TokenizerManager, state: ReqState, finish: FinishReason, record: TraceRecord | None
    ) -> None:
        if finish.abort is None:
            end(self, state, finish, record)
            return
        state.end(finish, time.monotonic_ns())
        self._observer.request_ended(state, record)

    TokenizerManager._end = end_and_keep  # type: ignore[method-assign]

"""An abort hits every rid that looks like the one named (after sglang#24070: "x_1" beside "x_10"). The
load's rids are random and of one length, so here all those look alike whose first digits are both odd or
both even."""

from __future__ import annotations

from engine.server.req_state import ReqState
from engine.server.tokenizer_manager import TokenizerManager


def apply() -> None:
    def matches(
        self: TokenizerManager, rid: str, *, prefix: bool, abort_all: bool
    ) -> list[ReqState]:
        return [state for state in self._states() if abort_all or _alike(state.rid, rid)]

    TokenizerManager.matches = matches  # type: ignore[method-assign]


def _alike(one: str, other: str) -> bool:
    return ord(one[0]) % 2 == ord(other[0]) % 2

"""An abort hits every rid that begins like the one named (after sglang#24070: "x_1" beside "x_10"). The
load's rids are of one length, so here one character is enough to look alike."""

from __future__ import annotations

from engine.server.req_state import ReqState
from engine.server.tokenizer_manager import TokenizerManager


def apply() -> None:
    def alike(self: TokenizerManager, rid: str, *, prefix: bool, abort_all: bool) -> list[ReqState]:
        return [state for state in self._states() if abort_all or state.rid.startswith(rid[:1])]

    TokenizerManager.matches = alike  # type: ignore[method-assign]

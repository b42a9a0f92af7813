"""What a cut swallowed is never sent again (after vllm#50754: a lost notice was counted for ever)."""

from __future__ import annotations

from engine.transfer.windows import SendWindow


def apply() -> None:
    def send_nothing_again(self: SendWindow, now_ns: int) -> None:
        self._progress_ns = now_ns

    SendWindow.rewind = send_nothing_again  # type: ignore[method-assign]

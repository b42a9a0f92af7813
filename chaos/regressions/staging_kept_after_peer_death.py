"""Space staged for a dead peer is not given back (after vllm#58063: the dead peer's memory stayed)."""

from __future__ import annotations

from engine.core.peer import KvSettled
from engine.transfer.session import Session


def apply() -> None:
    abandon = Session.abandon

    def abandon_and_keep(self: Session) -> list[KvSettled]:
        abandon(self)
        return []

    Session.abandon = abandon_and_keep  # type: ignore[method-assign]

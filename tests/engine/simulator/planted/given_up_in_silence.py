"""A session judged dead is left without a word: a one-way cut takes 3 s (found by the simulator)."""

from __future__ import annotations

from engine.transfer.links import Links
from engine.transfer.session import Session
from tests.engine.simulator.planted.patch import Patch


def give_up(self: Links, session: Session, message: str) -> None:
    self.lose(session, message)


PATCHES: tuple[Patch, ...] = ((Links, "_give_up", give_up),)

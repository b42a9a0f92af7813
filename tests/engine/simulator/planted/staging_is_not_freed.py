"""Staging space of frames that were given up is never free again."""

from __future__ import annotations

from engine.core.peer import KvSettled
from engine.core.prefill import PrefillScheduler
from tests.engine.simulator.planted.patch import Patch

_RIGHT = PrefillScheduler._on_kv_settled


def on_kv_settled(self: PrefillScheduler, message: KvSettled, now_ns: int) -> None:
    if message.acknowledged:
        _RIGHT(self, message, now_ns)


PATCHES: tuple[Patch, ...] = ((PrefillScheduler, "_on_kv_settled", on_kv_settled),)

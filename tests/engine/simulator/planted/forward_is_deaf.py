"""A running forward does not hear that its clients have gone."""

from __future__ import annotations

from engine.core import cancellation
from engine.core.codes import AbortReason
from engine.core.io_struct import AbortReq
from engine.core.peer import Inbound
from engine.core.schedule_batch import BatchMember
from tests.engine.simulator.planted.patch import Patch

_RIGHT = cancellation._ends


def ends(message: Inbound, member: BatchMember) -> bool:
    match message:
        case AbortReq(reason=AbortReason.CLIENT_DISCONNECT):
            return False
    return _RIGHT(message, member)


PATCHES: tuple[Patch, ...] = ((cancellation, "_ends", ends),)

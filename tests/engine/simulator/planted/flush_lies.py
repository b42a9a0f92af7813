"""A flush says that it is done while requests run."""

from __future__ import annotations

from engine.core import scheduler
from engine.core.control import answer_control
from engine.core.io_struct import ControlReq, ControlResp
from engine.core.scheduler import Scheduler
from tests.engine.simulator.planted.patch import Patch


def answer(recv: ControlReq, core: Scheduler) -> ControlResp:
    if recv.op == "flush":
        return ControlResp(id=recv.id, body=b'{"flushed":true}')
    return answer_control(recv, core)


PATCHES: tuple[Patch, ...] = ((scheduler, "answer_control", answer),)

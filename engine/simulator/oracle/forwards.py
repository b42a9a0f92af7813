"""`ForwardOracle`: a forward for nobody stops within half a layer, and the next safe point frees what it
held."""

from __future__ import annotations

from engine.simulator.clock import MS_NS
from engine.simulator.forward import RunningForward
from engine.simulator.history import HalfRecord, History
from engine.simulator.process import Process

STEPS_TO_ANSWER = 2
"""The step that the forward ends, and the next, which begins with its safe point."""


class ForwardOracle:
    """Each check gives a text about what is wrong, or None."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._due: dict[str, tuple[int, list[HalfRecord]]] = {}
        self.num_cancelled = 0

    def on_end(self, process: Process, forward: RunningForward, now_ns: int) -> str | None:
        """Was it stopped in time? What clients have aborted counts, not what core makes of it."""
        self.num_cancelled += now_ns < forward.started_ns + forward.took_ns
        members = [
            self._history.halves[(process.name, member.rid, member.room or 0)]
            for member in forward.batch.members
        ]
        aborted = [half for half in members if half.abort_ns and not half.is_answered]
        if aborted:
            self._due[process.core.config.incarnation] = (STEPS_TO_ANSWER, aborted)
        if len(aborted) < len(members) or not forward.ask_every_ns:
            return None
        since_ns = max(forward.started_ns, *(half.abort_ns for half in members))
        late_ns = now_ns - since_ns
        if late_ns <= forward.ask_every_ns or process.disturbed_until_ns >= forward.started_ns:
            return None
        return (
            f"a forward of {process.name} for {len(members)} aborted requests alone went on for"
            f" {late_ns / MS_NS:.2f} ms, half a layer takes {forward.ask_every_ns / MS_NS:.2f}"
        )

    def after_step(self, process: Process) -> str | None:
        """Was everybody answered who was aborted while the last forward ran?"""
        incarnation = process.core.config.incarnation
        due = self._due.pop(incarnation, None)
        if due is None:
            return None
        steps_left, aborted = due[0] - 1, due[1]
        if steps_left:
            self._due[incarnation] = (steps_left, aborted)
            return None
        left = [half.name for half in aborted if not half.is_answered]
        return f"{', '.join(left)}: aborted, and not answered by the next step" if left else None

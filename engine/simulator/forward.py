"""`RunningForward`: a forward that takes virtual time, and asks between its layers whether to go on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from engine.core.batch import ForwardResult
from engine.core.cancellation import is_abort, survivors
from engine.core.peer import Inbound
from engine.core.schedule_batch import BatchMember, ScheduleBatch

ASKS_A_LAYER = 2


@dataclass(slots=True, eq=False)
class RunningForward:
    """``ask_every_ns`` 0: it never asks. It asks at its start, and then twice a layer.

    Nothing changes between two messages, so the asking is simulated only after one that can end a
    request, and at deadlines: at the next moment when the real forward would ask.
    """

    batch: ScheduleBatch
    result: ForwardResult
    started_ns: int
    took_ns: int
    ask_every_ns: int
    alive: tuple[BatchMember, ...] = field(init=False)
    _num_read: int = 0

    def __post_init__(self) -> None:
        self.alive = self.batch.members

    def next_ask_ns(self, now_ns: int) -> int:
        """When it asks next, now included."""
        passed_ns = max(0, now_ns - self.started_ns)
        return self.started_ns + -(-passed_ns // self.ask_every_ns) * self.ask_every_ns

    def deadlines_ns(self) -> list[int]:
        """Deadlines of members that pass before its end."""
        end_ns = self.started_ns + self.took_ns
        return sorted({m.deadline_ns for m in self.batch.members if 0 < m.deadline_ns < end_ns})

    def should_stop(self, unread: Sequence[Inbound], now_ns: int) -> bool:
        """The decision of core, over what the loop has not taken in; each message is read once."""
        news = [message for message in unread[self._num_read :] if is_abort(message)]
        self._num_read = len(unread)
        self.alive = survivors(self.alive, news, now_ns)
        return not self.alive

    def num_layers_run(self, now_ns: int) -> int:
        return (now_ns - self.started_ns) // (ASKS_A_LAYER * self.ask_every_ns)

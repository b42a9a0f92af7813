"""`WaitingRoom`: a prefill core with any number of waiting requests, and no model."""

from __future__ import annotations

from collections.abc import Iterable

from engine.core.codes import AbortOrigin, AbortReason
from engine.core.config import SECOND_NS, SchedulerConfig
from engine.core.io_struct import AbortReq, SamplingParams, TokenizedGenerateReqInput
from engine.core.peer import (
    Attempt,
    Effect,
    Inbound,
    Join,
    Metadata,
    PeerSaid,
    PeerUp,
    RoomQuery,
    RoomStatus,
    Tell,
)
from engine.core.prefill import PrefillScheduler

PAGE = 16
HOG_PAGES = 32_768
HOUR_NS = 3_600 * SECOND_NS


class WaitingRoom:
    """One request, of room 0, computes in chunks and holds the whole pool; all others wait for it:
    bootstrapped in the waiting queue, or joined and not ready in the bootstrap queue."""

    def __init__(
        self, num_waiting: int, *, bootstrapped: bool, num_staging_pages: int = 64
    ) -> None:
        self.now_ns = SECOND_NS
        self.core = PrefillScheduler(
            SchedulerConfig(
                worker_name="p0",
                incarnation="p0-1",
                num_pages=HOG_PAGES,
                max_running_requests=num_waiting + 1,
                num_staging_pages=num_staging_pages,
                bootstrap_timeout_ns=HOUR_NS,
            )
        )
        self.recv([PeerUp(peer="d0", incarnation="d0-1")])
        self._add(0, HOG_PAGES, bootstrapped=True)
        self.compute()
        for room in range(1, num_waiting + 1):
            self._add(room, 2, bootstrapped=bootstrapped)
        self.compute()
        queue = "waiting" if bootstrapped else "bootstrap"
        assert self.core.queues()[queue] == num_waiting, self.core.queues()

    def recv(self, messages: Iterable[Inbound]) -> None:
        self.core.recv(messages, self.now_ns)

    def _add(self, room: int, num_pages: int, *, bootstrapped: bool) -> None:
        attempt = Attempt("d0-1", room + 1)
        join = Join(room=room, attempt=attempt, rid=f"r{room}")
        self.recv([_request(room, num_pages), PeerSaid(peer="d0", message=join)])
        if bootstrapped:
            ready = Metadata(room=room, attempt=attempt, num_pages=num_pages)
            self.recv([PeerSaid(peer="d0", message=ready)])

    # ---- what is measured ----------------------------------------------------------------------

    def abort_checks(self) -> None:
        """Everything that looks for aborts in a step."""
        self.core.safe_point(self.now_ns)
        self.core.check_deadlines(self.now_ns)
        self.core.resolve_waiting_queue_bootstrap(self.now_ns)

    def compute(self) -> list[Effect]:
        """One whole step around a chunk of room 0 that takes no time and is sent nowhere."""
        batch = self.core.get_next_batch_to_run(self.now_ns)
        assert batch is not None, "room 0 is done: its prompt is too short for so many steps"
        self.core.process_batch_result(batch, [None] * len(batch.items), self.now_ns)
        return self.core.take_effects()

    def answers(self, effects: Iterable[Effect]) -> list[Inbound]:
        """What decode says to the questions among ``effects``: the room is alive."""
        return [
            PeerSaid(
                peer="d0", message=RoomStatus(room=query.room, attempt=query.attempt, alive=True)
            )
            for effect in effects
            if isinstance(effect, Tell) and isinstance(query := effect.message, RoomQuery)
        ]

    def aborts(self, rooms: Iterable[int]) -> list[Inbound]:
        return [
            AbortReq(
                rid=f"r{room}",
                reason=AbortReason.CLIENT_ABORT,
                origin=AbortOrigin.CLIENT,
                received_ns=self.now_ns,
            )
            for room in rooms
        ]


def _request(room: int, num_pages: int) -> TokenizedGenerateReqInput:
    return TokenizedGenerateReqInput(
        rid=f"r{room}",
        input_ids=(1,) * (num_pages * PAGE),
        sampling_params=SamplingParams(max_new_tokens=1),
        received_ns=SECOND_NS,
        bootstrap_host="p0",
        bootstrap_port=1,
        bootstrap_room=room,
    )

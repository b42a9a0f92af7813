"""`Followers`: ranks 1 and up of a worker. Rank 0 receives; everybody applies the same list.

Each rank has a scheduler of its own. They never talk about decisions, so they must come to the same ones:
the same batch, the same effects, the same state, at every step. Then the minimum over the ranks' polls of a
room (SGLang `poll_and_all_reduce_attn_cp_tp_group`) is what each of them says anyway.
"""

from __future__ import annotations

from collections.abc import Sequence

from engine.core.batch import ForwardResult
from engine.core.codes import KVPoll
from engine.core.disagg import DisaggScheduler
from engine.core.peer import Effect, Inbound
from engine.core.polling import poll_and_all_reduce_attn_cp_tp_group
from engine.core.req import Req
from engine.core.schedule_batch import ScheduleBatch
from engine.core.scheduler import Scheduler
from engine.simulator.errors import RanksDisagree

State = tuple[object, ...]


class Followers:
    """Raises RanksDisagree at the first step at which a rank is not as rank 0."""

    def __init__(self, cores: Sequence[Scheduler]) -> None:
        self.cores = tuple(cores)

    def recv(self, messages: list[Inbound], now_ns: int) -> None:
        """The broadcast of rank 0."""
        for rank, core in enumerate(self.cores, start=1):
            core.recv(self.heard_by(rank, messages), now_ns)

    def heard_by(self, rank: int, messages: list[Inbound]) -> list[Inbound]:
        """What reaches a rank of one broadcast: everything, in order."""
        return messages

    def schedule(self, batch: ScheduleBatch | None, now_ns: int) -> None:
        for rank, core in enumerate(self.cores, start=1):
            own = core.get_next_batch_to_run(now_ns)
            if own != batch:
                raise RanksDisagree(f"rank {rank} runs {_rids(own)}, rank 0 {_rids(batch)}")

    def process(self, batch: ScheduleBatch, result: ForwardResult, now_ns: int) -> None:
        for core in self.cores:
            core.process_batch_result(batch, result, now_ns)

    def compare_effects(self, effects: Sequence[Effect]) -> None:
        for rank, core in enumerate(self.cores, start=1):
            own = core.take_effects()
            if own != effects:
                raise RanksDisagree(f"rank {rank} wants {own}, rank 0 {list(effects)}")

    def compare_state(self, leader: Scheduler) -> None:
        polls = [_polls(core) for core in (leader, *self.cores)]
        try:
            agreed = poll_and_all_reduce_attn_cp_tp_group(polls)
        except ValueError as error:
            raise RanksDisagree(f"the ranks do not have the same rooms: {polls}") from error
        if any(own != agreed for own in polls):
            raise RanksDisagree(f"the ranks poll {polls}, their minimum is {agreed}")
        want = state_of(leader)
        for rank, core in enumerate(self.cores, start=1):
            own = state_of(core)
            if own != want:
                pairs = zip(own, want, strict=True)
                first = next(f"{mine} and {his}" for mine, his in pairs if mine != his)
                raise RanksDisagree(f"rank {rank} and rank 0 stand differently: {first}")


def state_of(core: Scheduler) -> State:
    """Everything that decides what a scheduler does next, except what it has still to read."""
    pools = core.pools
    peers: State = ()
    rooms: State = ()
    if isinstance(core, DisaggScheduler):
        peers = tuple(core.peers.items())
        rooms = tuple((room.room, room.state, room.joined) for room in core.rooms.open_rooms())
    return (
        core.step,
        core.paused,
        tuple(_state_of(req) for req in core.reqs.values()),
        tuple(req.key for req in core.waiting_queue),
        tuple(req.key for req in core.running),
        core.chunked_req and core.chunked_req.key,
        tuple(core.queues().values()),
        pools.kv_pages.num_free,
        pools.req_slots.num_free,
        pools.metadata_slots.num_free,
        pools.staging.num_free,
        peers,
        rooms,
    )


def _polls(core: Scheduler) -> list[KVPoll]:
    return [room.state for room in core.rooms.open_rooms()]


def _state_of(req: Req) -> State:
    return (
        req.key,
        req.stage,
        req.is_aborted(),
        req.page_ids,
        req.num_cached_tokens,
        req.pending_bootstrap,
        req.num_sent_pages,
        req.num_arrived_pages,
        len(req.output),
    )


def _rids(batch: ScheduleBatch | None) -> str:
    return ", ".join(member.rid for member in batch.members) if batch is not None else "nothing"

"""A runner whose tokens are a hash of the KV pages that it reads, and a pair of cores on one desk.

A page that somebody else wrote changes the answer, so wrong pages show as wrong tokens.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Sequence

from engine.core.batch import Cancelled, ForwardItem, ForwardResult, ShouldStop, never
from engine.core.cancellation import survivors
from engine.core.codes import AbortOrigin, AbortReason, DisaggregationMode
from engine.core.config import SECOND_NS, SchedulerConfig
from engine.core.decode import DecodeScheduler
from engine.core.factory import make_scheduler
from engine.core.io_struct import (
    AbortReq,
    SamplingParams,
    TokenizedGenerateReqInput,
    TokenLogprob,
    TokenOut,
)
from engine.core.peer import (
    Connect,
    Emit,
    Inbound,
    KvArrived,
    KvPages,
    KvSettled,
    PeerLost,
    PeerSaid,
    PeerUp,
    Scatter,
    SendKv,
    Tell,
)
from engine.core.prefill import PrefillScheduler
from engine.core.scheduler import Scheduler

PAGE = 4
EOS = 0
GARBAGE = 255
PREFILL_ADDRESS = "p:1"


def make_config(name: str, num_pages: int = 24, **changes: int) -> SchedulerConfig:
    return SchedulerConfig(
        worker_name=name,
        incarnation=f"{name}-1",
        num_pages=num_pages,
        page_size=PAGE,
        chunked_prefill_size=2 * PAGE,
        max_running_requests=changes.get("max_running_requests", 3),
        num_staging_pages=changes.get("num_staging_pages", 8),
        max_queued_requests=changes.get("max_queued_requests", 0),
        eos_token_id=EOS,
        request_waiting_timeout_ns=changes.get("waiting_timeout_ns", 0),
        request_running_timeout_ns=changes.get("running_timeout_ns", 0),
        optimistic_prefill_attempts=changes.get("optimistic_prefill_attempts", 0),
    )


def next_token(seen: Sequence[int]) -> int:
    """The model: 1..200, never EOS."""
    digest = hashlib.blake2b(repr(list(seen)).encode(), digest_size=2).digest()
    return 1 + int.from_bytes(digest, "big") % 200


def expected_tokens(prompt: Sequence[int], count: int) -> list[int]:
    seen = list(prompt)
    for _ in range(count):
        seen.append(next_token(seen))
    return seen[len(prompt) :]


class HashRunner:
    """Pages hold token ids; a forward writes its inputs and hashes everything it reads.

    One that is told to stop leaves garbage where it would have written, as one that ran a few layers.
    """

    page_bytes = PAGE

    def __init__(self, num_pages: int) -> None:
        self.pages = [bytearray(PAGE) for _ in range(num_pages)]

    def forward(
        self, items: Sequence[ForwardItem], should_stop: ShouldStop = never
    ) -> ForwardResult:
        if not should_stop():
            return [self._one(item) for item in items]
        for item in items:
            self._write(item, [GARBAGE] * len(item.input_ids))
        return Cancelled(num_layers_run=1)

    def _write(self, item: ForwardItem, tokens: Sequence[int]) -> None:
        for position, token in enumerate(tokens, item.start):
            self.pages[item.page_ids[position // PAGE]][position % PAGE] = token

    def _one(self, item: ForwardItem) -> TokenLogprob | None:
        self._write(item, item.input_ids)
        if not item.wants_token:
            return None
        total = item.start + len(item.input_ids)
        seen = [self.pages[item.page_ids[at // PAGE]][at % PAGE] for at in range(total)]
        return TokenLogprob(token_id=next_token(seen), logprob=0.0, margin=1.0)

    def gather_pages(self, page_ids: Sequence[int]) -> bytes:
        return b"".join(bytes(self.pages[page]) for page in page_ids)

    def scatter_pages(self, page_ids: Sequence[int], data: bytes | memoryview) -> None:
        for index, page in enumerate(page_ids):
            self.pages[page][:] = data[index * PAGE : (index + 1) * PAGE]


class Worker:
    """One core with its runner, inbox and answers."""

    def __init__(self, mode: DisaggregationMode, config: SchedulerConfig) -> None:
        self.core: Scheduler = make_scheduler(mode, config)
        self.runner = HashRunner(config.num_pages)
        self.is_layered = True
        self.inbox: deque[Inbound] = deque()
        self.sent: deque[Connect | Tell | tuple[SendKv, bytes]] = deque()
        self.outs: list[TokenOut] = []

    def recv(self, now_ns: int) -> None:
        messages = list(self.inbox)
        self.inbox.clear()
        self.core.recv(messages, now_ns)

    def step(
        self,
        now_ns: int,
        in_forward: Sequence[Inbound] = (),
        on_forward: Callable[[], None] = lambda: None,
        cancel: bool = False,
    ) -> bool:
        """One scheduling step; ``in_forward`` arrives while the forward runs, which stops if that has
        ended everybody in it, or because of ``cancel``."""
        self.recv(now_ns)
        batch = self.core.get_next_batch_to_run(now_ns)
        self.do_effects()
        self.inbox.extend(in_forward)
        if batch is None:
            return False
        on_forward()
        ended = not survivors(batch.members, self.inbox, now_ns)
        result = self.runner.forward(batch.items, lambda: cancel or (self.is_layered and ended))
        self.recv(now_ns)
        self.core.process_batch_result(batch, result, now_ns)
        self.do_effects()
        return True

    def do_effects(self) -> None:
        for effect in self.core.take_effects():
            match effect:
                case Emit(message=TokenOut() as out):
                    self.outs.append(out)
                case Emit():
                    pass
                case Scatter(page_ids=page_ids, data=data):
                    self.runner.scatter_pages(page_ids, data)
                case SendKv():
                    self.sent.append((effect, self.runner.gather_pages(effect.page_ids)))
                case _:
                    self.sent.append(effect)

    def answers(self, rid: str) -> list[TokenOut]:
        return [out for out in self.outs if out.rid == rid and out.finish is not None]

    def tokens(self, rid: str) -> list[int]:
        return [token.token_id for out in self.outs if out.rid == rid for token in out.tokens]


class Pair:
    """Prefill and decode joined by two reliable wires that can be held, and a session that can be lost."""

    def __init__(self, prefill_pages: int = 24, decode_pages: int = 24, **changes: int) -> None:
        self.now_ns = SECOND_NS
        self.prefill = Worker(
            DisaggregationMode.PREFILL, make_config("p", prefill_pages, **changes)
        )
        self.decode = Worker(DisaggregationMode.DECODE, make_config("d", decode_pages, **changes))
        self.is_up = False
        self.wanted = False
        self.is_cut = False
        self.unacked: list[KvSettled] = []

    @property
    def workers(self) -> tuple[Worker, Worker]:
        return (self.prefill, self.decode)

    @property
    def prefill_core(self) -> PrefillScheduler:
        assert isinstance(self.prefill.core, PrefillScheduler)
        return self.prefill.core

    @property
    def decode_core(self) -> DecodeScheduler:
        assert isinstance(self.decode.core, DecodeScheduler)
        return self.decode.core

    def request(
        self, rid: str, room: int, prompt: tuple[int, ...], max_new: int, deadline_ns: int = 0
    ) -> None:
        for worker in self.workers:
            request = make_request(rid, room, prompt, max_new, self.now_ns, deadline_ns)
            worker.inbox.append(request)

    def deliver(self, limit: int = 1000) -> None:
        """Carry what was sent, unless the wires are cut."""
        for source, target in ((self.decode, self.prefill), (self.prefill, self.decode)):
            for _ in range(min(limit, len(source.sent))):
                if self.is_cut:
                    return
                self._carry(source.sent.popleft(), target)

    def _carry(self, sent: Connect | Tell | tuple[SendKv, bytes], target: Worker) -> None:
        match sent:
            case Connect():
                self.wanted = True
            case Tell(message=message) if self.is_up:
                peer = "d" if target is self.prefill else PREFILL_ADDRESS
                target.inbox.append(PeerSaid(peer=peer, message=message))
            case (SendKv() as send, bytes() as data):
                self._carry_kv(send, data)
            case _:
                pass

    def _carry_kv(self, send: SendKv, data: bytes) -> None:
        settled = KvSettled(
            peer="d",
            room=send.header.room,
            owner=send.owner,
            staging_ids=send.staging_ids,
            acknowledged=self.is_up,
        )
        self.prefill.inbox.append(settled)
        if self.is_up:
            header: KvPages = send.header
            self.decode.inbox.append(
                KvArrived(peer=PREFILL_ADDRESS, header=header, data=data, intact=True)
            )

    def connect(self) -> None:
        if self.wanted and not self.is_up and not self.is_cut:
            self.is_up = True
            self.prefill.inbox.append(PeerUp(peer="d", incarnation="d-1"))
            self.decode.inbox.append(PeerUp(peer=PREFILL_ADDRESS, incarnation="p-1"))

    def lose_session(self) -> None:
        """Both sides give the session up; what was on the wires is gone, staging space is given back."""
        if not self.is_up:
            return
        self.is_up = False
        for worker in self.workers:
            for sent in worker.sent:
                if isinstance(sent, tuple):
                    self._carry_kv(*sent)
            worker.sent = deque(s for s in worker.sent if isinstance(s, Connect))
        text = "no beat"
        reason = AbortReason.PEER_DEAD
        self.prefill.inbox.append(PeerLost(peer="d", reason=reason, message=text))
        self.decode.inbox.append(PeerLost(peer=PREFILL_ADDRESS, reason=reason, message=text))

    def settle(self, rounds: int = 400) -> None:
        """Heal, and run until both halves are idle."""
        self.is_cut = False
        for _ in range(rounds):
            self.connect()
            self.deliver()
            worked = [worker.step(self.now_ns) for worker in self.workers]
            if not any(worked) and all(worker.core.is_idle() for worker in self.workers):
                self.deliver()
                for worker in self.workers:
                    worker.step(self.now_ns)
                return
            self.now_ns += SECOND_NS // 20
        raise AssertionError("the pair never became idle")


def make_request(
    rid: str,
    room: int | None,
    prompt: tuple[int, ...],
    max_new: int,
    now_ns: int,
    deadline_ns: int = 0,
) -> TokenizedGenerateReqInput:
    return TokenizedGenerateReqInput(
        rid=rid,
        input_ids=prompt,
        sampling_params=SamplingParams(max_new_tokens=max_new, ignore_eos=True),
        received_ns=now_ns,
        bootstrap_host=None if room is None else "p",
        bootstrap_port=None if room is None else 1,
        bootstrap_room=room,
        deadline_ns=deadline_ns,
    )


def make_abort(rid: str, now_ns: int) -> AbortReq:
    return AbortReq(
        rid=rid,
        reason=AbortReason.CLIENT_ABORT,
        origin=AbortOrigin.CLIENT,
        received_ns=now_ns,
    )


def broken_laws(core: Scheduler) -> list[str]:
    """Everything that must hold in every state."""
    owners = {req.owner for req in core.reqs.values()}
    strangers = [
        holder.owner
        for holder in core.pools.ledger.holders()
        if holder.owner not in owners and holder.resource != "staging_pages"
    ]
    return core.pools.full_scan() + [f"{owner} holds, but is gone" for owner in strangers]

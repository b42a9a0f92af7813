"""The pair under hypothesis: any order of requests, aborts, cuts and steps keeps every law."""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from engine.core.abort_matrix import may_pair
from engine.core.codes import AbortReason
from engine.core.config import SECOND_NS
from engine.core.io_struct import AbortReq
from tests.engine.core.twin import Pair, broken_laws, expected_tokens, make_abort

TIMEOUTS = (AbortReason.BOOTSTRAP_TIMEOUT, AbortReason.TRANSFER_TIMEOUT)


class PairMachine(RuleBasedStateMachine):
    """Clients, wires and both loops, one move at a time."""

    def __init__(self) -> None:
        super().__init__()
        self.pair = Pair()
        self.prompts: dict[str, tuple[tuple[int, ...], int]] = {}
        self.client_aborted: set[str] = set()
        self.half_lost: set[str] = set()
        self.was_cut = False
        self.waited_ns = 0

    @initialize(
        decode_pages=st.sampled_from([8, 16, 40]),
        staging=st.sampled_from([2, 8]),
        is_layered=st.booleans(),
        max_queued=st.sampled_from([0, 0, 3]),
        attempts=st.sampled_from([0, 1, 3]),
    )
    def size(
        self, decode_pages: int, staging: int, is_layered: bool, max_queued: int, attempts: int
    ) -> None:
        self.pair = Pair(
            decode_pages=decode_pages,
            num_staging_pages=staging,
            max_queued_requests=max_queued,
            optimistic_prefill_attempts=attempts,
        )
        for worker in self.pair.workers:
            worker.is_layered = is_layered

    @rule(
        num_tokens=st.integers(1, 40),
        max_new=st.integers(1, 6),
        half=st.sampled_from("bbbbpd"),
        is_hasty=st.sampled_from([False, False, False, True]),
    )
    def request(self, num_tokens: int, max_new: int, half: str, is_hasty: bool) -> None:
        """A request to both halves; a router that loses one of them sends it to one alone."""
        number = len(self.prompts)
        rid = f"r{number}"
        prompt = tuple(1 + (number * 31 + at * 7) % 200 for at in range(num_tokens))
        self.prompts[rid] = (prompt, max_new)
        deadline_ns = self.pair.now_ns + SECOND_NS // 10 if is_hasty else 0
        self.pair.request(rid, 1000 + number, prompt, max_new, deadline_ns)
        if is_hasty:
            self.client_aborted.add(rid)
        if half != "b":
            self.half_lost.add(rid)
            lost = self.pair.decode if half == "p" else self.pair.prefill
            lost.inbox.pop()

    def _abort(self, pick: int) -> AbortReq | None:
        open_rids = sorted({rid for w in self.pair.workers for rid, _ in w.core.reqs})
        if not open_rids:
            return None
        rid = open_rids[pick % len(open_rids)]
        self.client_aborted.add(rid)
        return make_abort(rid, self.pair.now_ns)

    @rule(pick=st.integers(0, 50), half=st.sampled_from("pdb"))
    def abort(self, pick: int, half: str) -> None:
        message = self._abort(pick)
        for name, worker in (("p", self.pair.prefill), ("d", self.pair.decode)):
            if message is not None and half in (name, "b"):
                worker.inbox.append(message)

    @rule(pick=st.integers(0, 50), half=st.sampled_from("pd"))
    def abort_during_forward(self, pick: int, half: str) -> None:
        """No token may come out of a forward during which the abort arrived."""
        worker = self.pair.prefill if half == "p" else self.pair.decode
        message = self._abort(pick)
        if message is None:
            return
        frozen: list[int] = []
        worker.step(
            self.pair.now_ns,
            in_forward=[message],
            on_forward=lambda: frozen.append(len(worker.tokens(message.rid))),
        )
        if frozen:
            assert len(worker.tokens(message.rid)) == frozen[0]

    @rule(half=st.sampled_from("pd"))
    def cancelled_in_vain(self, half: str) -> None:
        """A forward that stops although somebody in it lives is no progress and no loss."""
        (self.pair.prefill if half == "p" else self.pair.decode).step(self.pair.now_ns, cancel=True)

    @rule(half=st.sampled_from("pd"))
    def step(self, half: str) -> None:
        (self.pair.prefill if half == "p" else self.pair.decode).step(self.pair.now_ns)

    @rule(rounds=st.integers(1, 4), ends_at=st.sampled_from("pd"))
    def run(self, rounds: int, ends_at: str) -> None:
        """Both loops and both wires, so that requests reach their later stages."""
        for _ in range(rounds):
            self.pair.connect()
            self.pair.deliver()
            self.pair.decode.step(self.pair.now_ns)
            self.pair.deliver()
            self.pair.prefill.step(self.pair.now_ns)
        if ends_at == "d":
            self.pair.decode.step(self.pair.now_ns)

    @rule()
    def run_once(self) -> None:
        self.run(1, "p")

    @rule(limit=st.integers(1, 6))
    def deliver(self, limit: int) -> None:
        self.pair.connect()
        self.pair.deliver(limit)

    @rule()
    def cut(self) -> None:
        self.pair.is_cut = True
        self.was_cut = True

    @rule()
    def lose(self) -> None:
        """A lost session ends every joined request at the very next step of each half."""
        self.was_cut = self.was_cut or self.pair.is_up
        self.pair.lose_session()
        for worker in self.pair.workers:
            worker.recv(self.pair.now_ns)
            joined = [r.room for r in worker.core.rooms.open_rooms() if r.joined]
            doomed = [rid for rid, room in worker.core.reqs if room in joined]
            worker.step(self.pair.now_ns)
            assert all(len(worker.answers(rid)) == 1 for rid in doomed)

    @rule()
    def heal(self) -> None:
        self.pair.is_cut = False

    @rule(ticks=st.sampled_from([1, 2, 60]))
    def wait(self, ticks: int) -> None:
        self.waited_ns += ticks * SECOND_NS // 10
        self.pair.now_ns += ticks * SECOND_NS // 10

    @invariant()
    def laws_hold(self) -> None:
        for worker in self.pair.workers:
            assert broken_laws(worker.core) == []

    @invariant()
    def at_most_one_answer(self) -> None:
        for worker in self.pair.workers:
            for rid in self.prompts:
                answers = worker.answers(rid)
                assert len(answers) <= 1
                if answers:
                    last = [out for out in worker.outs if out.rid == rid][-1]
                    assert last.finish is not None, "a token after the answer"

    def teardown(self) -> None:
        self.pair.settle()
        for worker in self.pair.workers:
            assert broken_laws(worker.core) == []
            view = worker.core.ledger_view()
            assert view.idle
            assert view.holders == ()
            assert view.rooms_open == 0
            assert all(count.free == count.total for count in view.resources.values())
        self._everyone_was_answered()
        self._the_unhurt_completed()
        self._tokens_are_right()
        self._codes_fit()

    def _everyone_was_answered(self) -> None:
        for rid in self.prompts:
            assert self.pair.decode.answers(rid) or self.pair.prefill.answers(rid)

    def _the_unhurt_completed(self) -> None:
        """Nothing but an abort, a cut, a lost half, a long wait or its size may end a request early."""
        if self.was_cut or self.waited_ns > SECOND_NS:
            return
        for rid, (prompt, max_new) in self.prompts.items():
            config = self.pair.decode.core.config
            fits = config.pages_for(len(prompt) + max_new) <= config.num_pages
            if fits and rid not in self.client_aborted | self.half_lost:
                finish = self.pair.decode.answers(rid)[0].finish
                assert finish is not None
                is_refused = finish.abort and finish.abort.reason is AbortReason.QUEUE_FULL
                assert finish.type == "length" or is_refused, finish

    def _codes_fit(self) -> None:
        """Two aborted halves show a legal pair, and nobody sits out a timeout that need not be."""
        for rid in self.prompts:
            aborts = [
                answer.finish.abort
                for worker in self.pair.workers
                for answer in worker.answers(rid)
                if answer.finish is not None and answer.finish.abort is not None
            ]
            link_broke = self.was_cut or self.waited_ns > SECOND_NS
            if len(aborts) == 2:
                assert may_pair(*aborts, link_broke=link_broke), aborts
            if not link_broke and rid not in self.half_lost:
                assert not any(abort.reason in TIMEOUTS for abort in aborts), aborts

    def _tokens_are_right(self) -> None:
        for rid, (prompt, max_new) in self.prompts.items():
            got = self.pair.decode.tokens(rid)
            assert got == expected_tokens(prompt, len(got))
            for answer in self.pair.decode.answers(rid):
                if answer.finish is not None and answer.finish.type == "length":
                    assert len(got) == max_new


PairMachine.TestCase.settings = settings(
    max_examples=250,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
TestPairMachine = PairMachine.TestCase

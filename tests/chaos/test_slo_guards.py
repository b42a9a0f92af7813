"""Guards over the client's numbers and the workers' books: what trips them, what excuses it."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pytest

from chaos.codes import Signal
from chaos.fault_step import ActiveFaults
from chaos.faults.stall import DECLARATION
from chaos.freshness import Freshness
from chaos.guard import Guard
from chaos.guards import Eyes, Sending, build_guards
from chaos.history_tail import HistoryTail
from chaos.records import ResourceCount, WorkerLedger
from chaos.slo import Recent
from chaos.spec import (
    BurnRate,
    ErrorRate,
    Goodput,
    GuardSpec,
    KvExhaustion,
    LatencyP99,
    Residue,
)
from loadtest.history import End, Outcome, Sent


class CutLink:
    """What `ActiveFaults` needs of a fault."""

    declaration = DECLARATION
    links: tuple[str, ...] = ("kv:p0-d0",)
    workers: tuple[str, ...] = ()
    hold_s = ttl_s = 1.0

    def undo(self) -> tuple[()]:
        return ()

    def inject(self) -> None: ...

    def verify(self) -> object: ...

    def heal(self, urgent: bool = False) -> object: ...


class World:
    """A run as guards see it; requests end when the test says so."""

    def __init__(self) -> None:
        self.active = ActiveFaults()
        self.recent = Recent(lambda: self.active.first_on_ns)
        self.freshness = Freshness()

    def guard(self, spec: GuardSpec) -> Guard:
        eyes = Eyes(
            workers=("p0", "d0"),
            history=HistoryTail(__file__),  # type: ignore[arg-type]
            freshness=self.freshness,
            active=self.active,
            sending=Sending(until_s=0, rate=1),
            recent=self.recent,
        )
        return build_guards([spec], eyes)[0]

    def end(
        self,
        count: int,
        outcome: Outcome = Outcome.COMPLETED,
        ttft_ms: float = 50,
        itl_ms: float = 10,
        ago_s: float = 0.1,
    ) -> None:
        self.recent.take(
            [_pair(i, outcome, ttft_ms, itl_ms, ago_s + i * 0.001) for i in range(count)]
        )

    def fault(self) -> None:
        self.active.add("f0", CutLink())  # type: ignore[arg-type]


def _pair(
    number: int, outcome: Outcome, ttft_ms: float, itl_ms: float, ago_s: float
) -> tuple[Sent, End]:
    end_ns = time.monotonic_ns() - int(ago_s * 1e9)
    first_ns = end_ns - int(15 * itl_ms * 1e6)
    due_ns = first_ns - int(ttft_ms * 1e6)
    sent = Sent(
        rid=str(number), trace_id="0" * 32, scheduled_ns=due_ns, sent_ns=due_ns, isl=600, index=number,
        abort_plan=None, prompt_seed=0, max_new_tokens=16, phase="load", host="h", run_id="r", wall_ns=0,
    )  # fmt: skip
    end = End(
        rid=str(number), headers_ns=first_ns, first_ns=first_ns, last_ns=end_ns, end_ns=end_ns, osl=16,
        outcome=outcome, status=200, finish_reason=None, text_sha256=None, abort=None,
    )  # fmt: skip
    return sent, end


@pytest.fixture
def world() -> World:
    return World()


def test_errors_trip_and_a_few_requests_say_nothing(world: World) -> None:
    guard = world.guard(ErrorRate(max_share=0.5, min_requests=10))
    world.end(9, Outcome.HTTP_ERROR)
    assert guard.check() is None
    world.end(1, Outcome.CONN_ERROR)
    trip = guard.check()
    assert trip is not None
    assert (trip.guard, trip.value) == ("error_rate", 1.0)
    world.end(40)
    assert guard.check() is None


def test_what_clients_gave_up_is_no_error_and_no_goodput(world: World) -> None:
    guard = world.guard(ErrorRate(max_share=0.1, min_requests=5))
    world.end(50, Outcome.ABORTED_DISCONNECT)
    assert guard.check() is None
    assert world.recent.baseline == []


def test_a_fault_excuses_what_it_silences_and_not_for_ever(world: World) -> None:
    lenient = world.guard(ErrorRate(grace_s=0.2))
    strict = world.guard(ErrorRate(judge_faults=True))
    world.fault()
    world.end(20, Outcome.HTTP_ERROR)
    assert lenient.check() is None
    assert strict.check() is not None
    world.active.discard("f0")
    assert lenient.check() is None, "its grace"
    time.sleep(0.25)
    assert lenient.check() is not None
    assert not world.active.silenced(Signal.LEDGER, 60)


@pytest.mark.parametrize("of", ["ttft", "itl"])
def test_latency_against_this_runs_own_baseline(world: World, of: str) -> None:
    guard = world.guard(LatencyP99(of=of, times_baseline=3, judge_faults=True, window_s=2))  # type: ignore[arg-type]
    world.end(20, ago_s=4)
    world.fault()
    time.sleep(0.2)
    world.end(10, ttft_ms=120, itl_ms=25)
    assert guard.check() is None
    world.end(2, ttft_ms=170, itl_ms=35)
    trip = guard.check()
    assert trip is not None
    assert trip.guard == f"{of}_p99"
    assert trip.limit == pytest.approx(150 if of == "ttft" else 30, rel=0.01)


def test_latency_without_a_baseline_needs_a_limit(world: World) -> None:
    world.end(5)
    world.fault()
    world.end(20, ttft_ms=9000)
    assert world.guard(LatencyP99(judge_faults=True)).check() is None
    assert world.guard(LatencyP99(judge_faults=True, max_ms=1000)).check() is not None


def test_goodput_falls_under_its_share(world: World) -> None:
    guard = world.guard(Goodput(min_share=0.5, window_s=0.4, judge_faults=True))
    world.end(20, ago_s=2)
    time.sleep(0.1)
    world.fault()
    assert guard.check() is None, "the window still holds what was before the fault"
    time.sleep(0.5)
    trip = guard.check()
    assert trip is not None
    assert trip.value == 0
    world.end(20, ago_s=0.01)
    assert guard.check() is None


def test_burn_rate_needs_both_windows(world: World) -> None:
    guard = world.guard(BurnRate(objective=0.9, max_rate=2, long_s=20, short_s=1))
    world.end(20, Outcome.HTTP_ERROR, ago_s=5)
    assert guard.check() is None, "nothing in the short window says that it goes on"
    world.end(5, ago_s=0.1)
    assert guard.check() is None, "it is over"
    world.end(20, Outcome.HTTP_ERROR, ago_s=0.1)
    assert guard.check() is not None


def ledger(free: int, broken: Sequence[str] = (), double_frees: int = 0) -> WorkerLedger:
    return WorkerLedger(
        worker="d0", role="decode", incarnation="i", step=1, idle=False, holders=(), rooms_open=0,
        resources={"kv_pages": ResourceCount(total=100, free=free, held=100 - free)}, rooms_terminal=0,
        requests=0, rid_to_state=0, queues={}, conservation=tuple(broken), double_frees=double_frees,
    )  # fmt: skip


def test_pages_that_stay_exhausted(world: World) -> None:
    guard = world.guard(KvExhaustion(min_free_share=0.1, for_s=0.2))
    world.freshness.seen_ledger("d0", ledger(free=5))
    assert guard.check() is None
    time.sleep(0.25)
    assert guard.check() is not None
    world.freshness.seen_ledger("d0", ledger(free=50))
    assert guard.check() is None
    world.freshness.seen_ledger("d0", ledger(free=5))
    assert guard.check() is None, "the clock starts again"


@pytest.mark.parametrize(
    "bad", [ledger(100, broken=["kv_pages: 3 + 4 != 8"]), ledger(100, double_frees=1)]
)
def test_broken_books_are_excused_by_no_fault(world: World, bad: WorkerLedger) -> None:
    guard = world.guard(Residue())
    world.freshness.seen_ledger("d0", ledger(100))
    world.fault()
    assert guard.check() is None
    world.freshness.seen_ledger("d0", bad)
    assert guard.check() is not None

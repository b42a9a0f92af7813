"""Guards look at files that are still being written, and stop a run in the middle of a step."""

from __future__ import annotations

import time
from pathlib import Path

import msgspec
import pytest

from chaos.errors import Halted
from chaos.fault_step import ActiveFaults
from chaos.faults.kill import DECLARATION
from chaos.freshness import Freshness
from chaos.guards import Eyes, GuardWatch, NoDataGuard, Sending, StuckRequestGuard, build_guards
from chaos.history_tail import HistoryTail
from chaos.interrupt import Brake
from chaos.journal import Journal
from chaos.records import EventKind, RunEvent, read_jsonl
from chaos.slo import Recent
from chaos.spec import NoData, StuckRequest
from loadtest.history import End, Outcome, Sent

BUSY = Sending(until_s=time.monotonic() + 3600, rate=1000.0)


def sent(rid: str, age_s: float = 0.0) -> bytes:
    now = time.monotonic_ns() - int(age_s * 1e9)
    record = Sent(
        rid=rid,
        trace_id="0" * 32,
        scheduled_ns=now,
        sent_ns=now,
        isl=600,
        abort_plan=None,
        index=0,
        prompt_seed=0,
        max_new_tokens=16,
        phase="load",
        host="h",
        run_id="r",
        wall_ns=0,
    )
    return msgspec.json.encode(record) + b"\n"


def end(rid: str) -> bytes:
    record = End(
        rid=rid,
        headers_ns=1,
        first_ns=1,
        last_ns=1,
        end_ns=time.monotonic_ns(),
        osl=16,
        outcome=Outcome.COMPLETED,
        status=200,
        finish_reason="length",
        text_sha256="",
        abort=None,
    )
    return msgspec.json.encode(record) + b"\n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "history.jsonl"


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def test_the_tail_reads_only_whole_new_lines(path: Path) -> None:
    tail = HistoryTail(path)
    assert tail.read() == 0
    append(path, sent("a") + sent("b"))
    assert tail.read() == 2
    line = end("a")
    append(path, line[:20])
    assert tail.read() == 0
    assert set(tail.open_since_ns) == {"a", "b"}
    append(path, line[20:])
    assert tail.read() == 1
    assert set(tail.open_since_ns) == {"b"}


def test_a_stuck_request_trips_and_a_finished_one_does_not(path: Path) -> None:
    tail = HistoryTail(path)
    guard = StuckRequestGuard(tail, older_than_s=5)
    append(path, sent("done", age_s=60) + end("done") + sent("young", age_s=1))
    tail.read()
    assert guard.check() is None
    append(path, sent("old", age_s=6))
    tail.read()
    trip = guard.check()
    assert trip is not None
    assert "old" in trip.detail
    assert 5.9 < trip.value < 8


class DeadWorker:
    """What `ActiveFaults` needs of a kill."""

    declaration = DECLARATION
    links: tuple[str, ...] = ()
    hold_s = ttl_s = 1.0

    def __init__(self, worker: str) -> None:
        self.workers: tuple[str, ...] = (worker,)

    def inject(self) -> None: ...

    def verify(self) -> object: ...

    def heal(self) -> object: ...


def test_silence_trips_unless_a_fault_explains_it() -> None:
    freshness, active = Freshness(), ActiveFaults()
    guard = NoDataGuard(["p0", "d0"], freshness, active, BUSY, for_s=0.15)
    assert guard.check() is None
    active.add("f0", DeadWorker("d0"))  # type: ignore[arg-type]
    deadline = time.monotonic() + 0.3
    while time.monotonic() < deadline:
        freshness.seen("history")
        freshness.seen("ledger:p0")
        assert guard.check() is None
        time.sleep(0.02)
    active.discard("f0")
    freshness.seen("history")
    assert guard.check() is None, "the worker gets its time again after the heal"
    time.sleep(0.2)
    freshness.seen("history")
    freshness.seen("ledger:p0")
    trip = guard.check()
    assert trip is not None
    assert "ledger:d0" in trip.detail


def test_a_trip_ends_a_wait_within_half_a_second(
    path: Path, brake: Brake, journal: Journal, tmp_path: Path
) -> None:
    tail, freshness = HistoryTail(path), Freshness()
    specs = (StuckRequest(older_than_s=0.3), NoData(for_s=5))
    active = ActiveFaults()
    eyes = Eyes(
        workers=("p0",),
        history=tail,
        freshness=freshness,
        active=active,
        sending=BUSY,
        recent=Recent(lambda: active.first_on_ns),
    )
    guards = build_guards(specs, eyes)
    watch = GuardWatch(guards, tail, freshness, brake, journal)
    append(path, sent("hung"))
    begun = time.monotonic()
    watch.start()
    with pytest.raises(Halted, match=r"stuck_request: request hung"):
        brake.sleep(20)
    assert time.monotonic() - begun < 1.2
    watch.stop()
    [event] = read_jsonl(tmp_path / "events.jsonl", RunEvent)
    assert (event.kind, event.name, event.ok, event.limit) == (
        EventKind.GUARD,
        "stuck_request",
        False,
        0.3,
    )


def test_an_unreadable_history_counts_as_unsafe(path: Path, brake: Brake, journal: Journal) -> None:
    tail = HistoryTail(path)
    append(path, b"not json\n")
    watch = GuardWatch([], tail, Freshness(), brake, journal)
    watch.start()
    with pytest.raises(Halted, match=r"no_data"):
        brake.sleep(5)
    watch.stop()


def test_history_may_be_silent_after_the_last_request_and_between_rare_ones() -> None:
    freshness = Freshness()
    over = Sending(until_s=time.monotonic() - 1, rate=1000.0)
    rare = Sending(until_s=time.monotonic() + 60, rate=1.0)
    guards = [NoDataGuard([], freshness, ActiveFaults(), s, for_s=0.05) for s in (over, rare, BUSY)]
    assert [guard.check() for guard in guards] == [None, None, None]
    time.sleep(0.1)
    trips = [guard.check() for guard in guards]
    assert trips[:2] == [None, None]
    assert trips[2] is not None
    assert "nothing from history" in trips[2].detail

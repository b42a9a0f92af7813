"""Which requests the control run repeats."""

from __future__ import annotations

from chaos.control import choose_control, fault_windows
from chaos.records import FaultEvent, FaultRecord
from loadtest.history import AbortFired, AbortKind, End, HistoryRecord, Outcome, Sent


def request(rid: str, begin: int, end: int, aborted: bool = False) -> list[HistoryRecord]:
    return [
        Sent(
            rid=rid,
            trace_id="",
            scheduled_ns=begin,
            sent_ns=begin,
            isl=1,
            abort_plan=None,
            index=0,
            prompt_seed=0,
            max_new_tokens=1,
            phase="load",
            host="h",
            run_id="r",
            wall_ns=0,
        ),
        End(
            rid=rid,
            headers_ns=None,
            first_ns=None,
            last_ns=None,
            end_ns=end,
            osl=1,
            outcome=Outcome.ABORTED_RID if aborted else Outcome.COMPLETED,
            status=200,
            finish_reason=None,
            text_sha256=None,
            abort=AbortFired(kind=AbortKind.RID, due_ns=end, fired_ns=end) if aborted else None,
        ),
    ]


def fault(fault_id: str, begin: int, end: int | None) -> list[FaultRecord]:
    times = [(FaultEvent.DECLARED, 0), (FaultEvent.INJECTING, begin)]
    times += [(FaultEvent.HEALED, end)] if end is not None else []
    return [
        FaultRecord(
            event=event,
            fault_id=fault_id,
            kind="link",
            mode="stall",
            links=(),
            workers=(),
            at_ns=at,
            wall_ns=0,
            host="h",
            run_id="r",
            ttl_s=1,
            permits=(),
            silences=(),
        )
        for event, at in times
    ]


def test_every_fault_and_the_aborts_get_their_neighbors() -> None:
    history = [record for n in range(0, 1000, 10) for record in request(f"r{n}", n, n + 8)]
    history += request("aborted", 500, 503, aborted=True)
    faults = fault("f0", 100, 120) + fault("f1", 800, 815)
    chosen = [sent.rid for sent in choose_control(history, faults, 9)]
    assert {"r100", "r110", "r120"} <= set(chosen)
    assert {"r800", "r810"} <= set(chosen)
    assert "r500" in chosen
    assert "aborted" not in chosen
    assert len(chosen) == len(set(chosen)) == 9


def test_without_faults_and_aborts_it_takes_what_there_is() -> None:
    history = request("a", 0, 5) + request("b", 5, 9)
    assert {sent.rid for sent in choose_control(history, [], 12)} == {"a", "b"}
    assert choose_control([], [], 12) == []


def test_an_unhealed_fault_has_a_window_and_a_declared_one_has_none() -> None:
    records = fault("f0", 100, None) + fault("f1", 200, 300)
    declared_only = fault("f2", 400, None)[:1]
    assert fault_windows(records + declared_only) == [(100, 100), (200, 300)]

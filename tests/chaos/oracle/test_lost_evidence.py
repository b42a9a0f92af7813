"""Whatever needed evidence is taken away at random, a run never passes."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TypeVar

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from chaos.oracle.judge import judge_run
from chaos.records import EventKind, FaultEvent, ResourceCount
from chaos.verdict import RunStatus, Verdict
from loadtest.history import End, Sent
from tests.chaos.oracle.builder import NUM_CONTROL, HealthyRun
from tests.chaos.oracle.mutations import is_final

T = TypeVar("T")
HEALTHY = HealthyRun()
COMPLETED = {r.rid for r in HEALTHY.history if isinstance(r, End) and r.outcome == "completed"}
TRACES = {r.trace_id for r in HEALTHY.history if isinstance(r, Sent) and r.rid in COMPLETED}
TEXT_FILES = ("history.jsonl", "faults.jsonl", "ledger.jsonl", "events.jsonl")
quick = settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)


def judged(run: HealthyRun) -> Verdict:
    with tempfile.TemporaryDirectory() as directory:
        return judge_run(run.write(Path(directory)))


def some_of(data: st.DataObject, indices: list[int]) -> set[int]:
    """A few of them, at least one."""
    return data.draw(st.sets(st.sampled_from(indices), min_size=1, max_size=6))


def without(records: list[T], gone: set[int]) -> list[T]:
    return [record for index, record in enumerate(records) if index not in gone]


@quick
@given(st.data())
def test_lost_history_lines(data: st.DataObject) -> None:
    run = HEALTHY.copy()
    run.history = without(run.history, some_of(data, list(range(len(run.history)))))
    assert judged(run).status is not RunStatus.PASSED


@quick
@given(st.data())
def test_lost_spans_of_completed_requests(data: st.DataObject) -> None:
    run = HEALTHY.copy()
    wanted = [i for i, span in enumerate(run.spans) if span.trace_id in TRACES]
    run.spans = without(run.spans, some_of(data, wanted))
    assert judged(run).status is not RunStatus.PASSED


@quick
@given(st.data())
def test_lost_fault_lines(data: st.DataObject) -> None:
    run = HEALTHY.copy()
    wanted = [i for i, r in enumerate(run.faults) if r.event is not FaultEvent.HEALING]
    run.faults = without(run.faults, some_of(data, wanted))
    assert judged(run).status is not RunStatus.PASSED


@quick
@given(st.data())
def test_lost_baseline_or_final_samples(data: st.DataObject) -> None:
    run = HEALTHY.copy()
    wanted = [i for i, s in enumerate(run.samples) if s.phase in ("baseline", "final")]
    run.samples = without(run.samples, some_of(data, wanted))
    assert judged(run).status is not RunStatus.PASSED


@quick
@given(st.data())
def test_lost_phases_and_probes(data: st.DataObject) -> None:
    run = HEALTHY.copy()
    wanted = [i for i, e in enumerate(run.events) if e.kind in (EventKind.PHASE, EventKind.PROBE)]
    run.events = without(run.events, some_of(data, wanted))
    assert judged(run).status is not RunStatus.PASSED


@quick
@given(st.sampled_from(TEXT_FILES), st.floats(min_value=0, max_value=0.999))
def test_a_file_cut_anywhere(name: str, share: float) -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = HEALTHY.copy().write(Path(directory)) / name
        content = path.read_bytes()
        # The last byte is a newline; without it alone nothing is lost.
        path.write_bytes(content[: min(int(share * len(content)), len(content) - 2)])
        assert judge_run(Path(directory)).status is not RunStatus.PASSED


@quick
@given(st.floats(min_value=0, max_value=0.999))
def test_a_span_database_cut_anywhere(share: float) -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = HEALTHY.copy().write(Path(directory)) / "spans.sqlite"
        content = path.read_bytes()
        path.write_bytes(content[: int(share * len(content))])
        assert judge_run(Path(directory)).status is not RunStatus.PASSED


@quick
@given(st.sets(st.integers(min_value=0, max_value=NUM_CONTROL - 1), min_size=3))
def test_too_few_control_requests_left(gone: set[int]) -> None:
    run = HEALTHY.copy()
    rids = {run.control[2 * index].rid for index in gone}
    run.control = [record for record in run.control if record.rid not in rids]
    assert judged(run).status is not RunStatus.PASSED


@quick
@given(st.sampled_from(("p0", "d0")), st.integers(min_value=1, max_value=4000))
def test_no_leak_is_too_small(worker: str, lost: int) -> None:
    """Any resource, any amount: one missing page is a failure."""
    run = HEALTHY.copy()
    for index, sample in enumerate(run.samples):
        if is_final(worker)(sample) and sample.ledger is not None:
            names = sorted(sample.ledger.resources)
            name = names[lost % len(names)]
            total = sample.ledger.resources[name].total
            count = 1 + lost % (total - 1)
            leak = ResourceCount(total=total, free=total - count, held=count)
            resources = {**sample.ledger.resources, name: leak}
            ledger = replace(sample.ledger, resources=resources)
            run.samples[index] = replace(sample, ledger=ledger)
    assert judged(run).exit_code == 1

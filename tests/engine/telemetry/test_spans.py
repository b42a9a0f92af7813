"""`emit_request_spans`: shape, times, codes and status, from stamps."""

from __future__ import annotations

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from engine.core.codes import AbortOrigin, AbortReason, AbortVia, Stage, is_clients_own
from engine.core.io_struct import AbortInfo, SpanStamp, TraceRecord
from engine.telemetry.context import TraceParent, trace_id_of_room
from engine.telemetry.export import SpanCounts
from engine.telemetry.provider import Telemetry, WorkerIdentity, make_telemetry
from engine.telemetry.spans import RequestTrace, emit_request_spans

IDENTITY = WorkerIdentity(role="decode", worker="d0", incarnation="abc")


class Recorder:
    """Telemetry into memory."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.telemetry = Telemetry(IDENTITY, SimpleSpanProcessor(self._exporter), SpanCounts())

    def emit(self, request: RequestTrace) -> dict[str, ReadableSpan]:
        self._exporter.clear()
        emit_request_spans(self.telemetry, request)
        return {span.name: span for span in self._exporter.get_finished_spans()}


def make_request(
    *,
    room: int | None = None,
    parent: TraceParent | None = None,
    abort: AbortInfo | None = None,
    record: TraceRecord | None = None,
) -> RequestTrace:
    return RequestTrace(
        rid="r",
        room=room,
        parent=parent,
        received_ns=1_000,
        tokenized_ns=1_200,
        ended_ns=9_000,
        finish_type="abort" if abort else "length",
        max_new_tokens=8,
        num_prompt_tokens=100,
        num_completion_tokens=5,
        num_cached_tokens=16,
        abort=abort,
        record=record,
    )


def make_abort(reason: AbortReason) -> AbortInfo:
    return AbortInfo(
        reason=reason,
        origin=AbortOrigin.SERVER,
        via=AbortVia.PEER,
        stage=Stage.DECODE_TRANSFER,
        message="why",
        received_ns=5_000,
        released_ns=6_500,
    )


def make_record(abort: AbortInfo | None, *spans: SpanStamp) -> TraceRecord:
    return TraceRecord(
        spans=spans, abort=abort, num_wasted_prefill_tokens=30, num_wasted_decode_tokens=4
    )


def stamp(name: str, start_ns: int, end_ns: int, parent: int = -1) -> SpanStamp:
    return SpanStamp(name=name, start_ns=start_ns, end_ns=end_ns, parent=parent)


def attribute(span: ReadableSpan, name: str) -> object:
    assert span.attributes is not None
    return span.attributes.get(name)


def test_times_are_those_of_the_stamps() -> None:
    recorder = Recorder()
    wall_ns = recorder.telemetry.wall_ns

    spans = recorder.emit(
        make_request(record=make_record(None, stamp("queue", 1_200, 3_000), stamp("decode", 1, 2)))
    )

    assert (spans["queue"].start_time, spans["queue"].end_time) == (wall_ns(1_200), wall_ns(3_000))
    assert (spans["tokenize"].start_time, spans["tokenize"].end_time) == (
        wall_ns(1_000),
        wall_ns(1_200),
    )
    # The role span holds every child, even one that was stamped early.
    assert (spans["request"].start_time, spans["request"].end_time) == (wall_ns(1), wall_ns(9_000))


def test_the_role_span_is_a_server_span_with_usage() -> None:
    role = Recorder().emit(make_request(room=2**63 - 1))["request"]

    assert role.kind is SpanKind.SERVER
    assert attribute(role, "pd.room") == str(2**63 - 1)
    assert attribute(role, "gen_ai.usage.input_tokens") == 100
    assert attribute(role, "gen_ai.usage.output_tokens") == 5
    assert attribute(role, "gen_ai.response.finish_reasons") == ("length",)
    assert role.status.status_code is StatusCode.UNSET


@pytest.mark.parametrize("reason", AbortReason)
def test_status_follows_the_reason(reason: AbortReason) -> None:
    abort = make_abort(reason)
    record = make_record(
        abort,
        stamp("queue", 1_200, 5_000),
        stamp("abort", 5_000, 6_500),
        stamp("abort.notify_peer", 5_500, 5_500, parent=1),
        stamp("kv.release", 6_000, 6_500, parent=1),
    )

    spans = Recorder().emit(make_request(room=3, abort=abort, record=record))

    for span in (spans["request"], spans["abort"]):
        assert attribute(span, "pd.abort.reason") == reason
        assert attribute(span, "pd.abort.origin") == "server"
        assert attribute(span, "pd.abort.via") == "peer"
        assert attribute(span, "pd.abort.stage") == "decode_transfer"
        own = is_clients_own(reason, AbortOrigin.SERVER)
        assert span.status.status_code is (StatusCode.UNSET if own else StatusCode.ERROR)
        assert attribute(span, "error.type") == (None if own else reason)
    assert attribute(spans["abort"], "pd.wasted_tokens") == 34
    for child in ("abort.notify_peer", "kv.release"):
        parent = spans[child].parent
        assert parent is not None
        assert parent.span_id == spans["abort"].context.span_id
    assert spans["queue"].status.status_code is StatusCode.UNSET


def test_an_abort_without_a_record_gets_its_own_span() -> None:
    abort = make_abort(AbortReason.SHUTDOWN)

    spans = Recorder().emit(make_request(abort=abort))

    assert set(spans) == {"request", "tokenize", "abort"}
    assert attribute(spans["abort"], "pd.abort.received_ns") == 5_000
    assert attribute(spans["abort"], "pd.abort.released_ns") == 6_500


def test_a_stamp_with_an_impossible_parent_hangs_on_the_role_span() -> None:
    record = make_record(None, stamp("queue", 1, 2, parent=0), stamp("decode", 2, 3, parent=7))

    spans = Recorder().emit(make_request(record=record))

    role = spans["request"].context
    assert role is not None
    for name in ("queue", "decode"):
        parent = spans[name].parent
        assert parent is not None
        assert parent.span_id == role.span_id


def test_the_callers_span_is_the_parent_and_its_flag_counts() -> None:
    recorder = Recorder()
    parent = TraceParent(trace_id=7, span_id=9, flags=1)

    role = recorder.emit(make_request(room=5, parent=parent))["request"]
    assert role.context is not None
    assert role.parent is not None
    assert (role.context.trace_id, role.parent.span_id) == (7, 9)

    unsampled = TraceParent(trace_id=7, span_id=9, flags=0)
    assert recorder.emit(make_request(parent=unsampled)) == {}


def test_without_a_parent_the_room_decides() -> None:
    recorder = Recorder()

    first = recorder.emit(make_request(room=5))["request"]
    second = recorder.emit(make_request(room=5))["request"]
    alone = recorder.emit(make_request())["request"]

    for role in (first, second):
        assert role.parent is None
        assert role.context is not None
        assert role.context.trace_id == trace_id_of_room(5)
    assert alone.context is not None
    assert alone.context.trace_id != trace_id_of_room(5)


def test_an_ambient_span_is_no_parent() -> None:
    recorder = Recorder()
    with recorder.telemetry.tracer.start_as_current_span("ambient"):
        spans = recorder.emit(make_request())
    assert spans["request"].parent is None


def test_spans_are_numbered_without_gaps() -> None:
    recorder = Recorder()
    numbers = [
        attribute(span, "pd.seq")
        for _ in range(3)
        for span in recorder.emit(make_request()).values()
    ]
    assert sorted(map(str, numbers)) == [str(number) for number in range(6)]


def test_without_an_endpoint_nothing_is_recorded() -> None:
    telemetry = make_telemetry(IDENTITY, None)
    emit_request_spans(telemetry, make_request())
    assert telemetry.next_seq() == 0
    telemetry.shutdown(1)

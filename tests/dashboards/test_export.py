from __future__ import annotations

import json
import sqlite3

import pytest
from google.protobuf.json_format import Parse
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

from dashboards.errors import BadWhere, NoSpans, NothingMatched, RunNotFound
from dashboards.export import ExportFormat, export_run
from dashboards.spanstore.otlp_json import decode_json

JAEGER, OTLP = ExportFormat.JAEGER, ExportFormat.OTLP


@pytest.fixture
def run(builder):
    builder.requests()
    return builder


def exported(run, format: ExportFormat, *where: str) -> dict:
    return json.loads(export_run(run.path, format, where).document)


def test_otlp_is_read_back_equal(run) -> None:
    """By our own store's reader: nothing is lost on the way out and in again."""
    decoded = decode_json(export_run(run.path, OTLP).document)
    assert decoded.rejected == 0
    assert sorted(decoded.spans, key=str) == sorted(run.spans, key=str)


def test_otlp_is_valid_by_the_official_schema(run) -> None:
    """protobuf's own JSON parser refuses unknown members and wrong types; its ids are base64, ours hex."""
    document = exported(run, OTLP)
    assert list(document) == ["resourceSpans"]
    for part in document["resourceSpans"]:
        for span in part["scopeSpans"][0]["spans"]:
            assert int(span["traceId"], 16)
            assert len(span["traceId"]) == 32
            assert isinstance(span["startTimeUnixNano"], str)
            assert isinstance(span["kind"], int)
    message = Parse(json.dumps(document), TracesData())
    assert len(message.resource_spans) == 4
    spans = [span for part in message.resource_spans for span in part.scope_spans[0].spans]
    assert len(spans) == len(run.spans)
    assert {span.start_time_unix_nano for span in spans} == {span.start_ns for span in run.spans}
    services = {
        pair.value.string_value
        for part in message.resource_spans
        for pair in part.resource.attributes
        if pair.key == "service.name"
    }
    assert services == {
        "severance-load",
        "severance-prefill",
        "severance-decode",
        "severance-chaos",
    }


def test_jaeger_shape(run) -> None:
    document = exported(run, JAEGER)
    assert set(document) == {"data", "total", "limit", "offset", "errors"}
    assert len(document["data"]) == 121
    for trace in document["data"]:
        assert set(trace) == {"traceID", "spans", "processes", "warnings"}
        for span in trace["spans"]:
            assert set(span) == {
                "traceID",
                "spanID",
                "operationName",
                "references",
                "startTime",
                "duration",
                "tags",
                "logs",
                "processID",
                "warnings",
            }
            assert span["traceID"] == trace["traceID"]
            assert span["processID"] in trace["processes"]
            assert isinstance(span["startTime"], int)
            assert span["duration"] >= 0
        for process in trace["processes"].values():
            assert process["serviceName"].startswith("severance-")
            assert "service.name" not in {tag["key"] for tag in process["tags"]}


def jaeger_span(run, where: str, name: str) -> dict:
    (trace,) = exported(run, JAEGER, where)["data"]
    return next(span for span in trace["spans"] if span["operationName"] == name)


def test_jaeger_times_references_and_typed_tags(run) -> None:
    span = jaeger_span(run, "rid=load-7-0039", "abort")
    ours = next(one for one in run.spans if one.span_id == span["spanID"])
    assert span["startTime"] == ours.start_ns // 1000
    assert span["startTime"] + span["duration"] == ours.end_ns // 1000
    assert span["references"] == [
        {"refType": "CHILD_OF", "traceID": ours.trace_id, "spanID": ours.parent_span_id},
        {"refType": "FOLLOWS_FROM", "traceID": f"{0xFA17:032x}", "spanID": run.fault_span_id},
    ]
    tags = {tag["key"]: (tag["type"], tag["value"]) for tag in span["tags"]}
    assert tags["error"] == ("bool", True)
    assert tags["otel.status_code"] == ("string", "ERROR")
    assert tags["span.kind"] == ("string", "internal")
    assert tags["pd.abort.reason"] == ("string", "peer_dead")
    assert tags["pd.wasted_tokens"] == ("int64", 256)


def test_jaeger_root_has_no_reference_and_a_cancel_is_no_error(run) -> None:
    span = jaeger_span(run, "rid=load-7-0000", "request")
    assert span["references"] == []
    keys = {tag["key"] for tag in span["tags"]}
    assert "error" not in keys
    assert "otel.status_code" not in keys


def test_jaeger_arrays_are_json_text(run) -> None:
    span = jaeger_span(run, "service=severance-chaos", "fault")
    tags = {tag["key"]: (tag["type"], tag["value"]) for tag in span["tags"]}
    assert tags["pd.links"] == ("string", '["kv:p0-d0","control:p0-d0"]')


@pytest.mark.parametrize("format", [JAEGER, OTLP])
def test_where_keeps_whole_traces(run, format: ExportFormat) -> None:
    document, traces = export_run(run.path, format, ("pd.abort.reason=peer_dead",))
    kept = {span.trace_id for span in run.spans if span.text("pd.abort.reason") == "peer_dead"}
    assert traces == len(kept) > 0
    text = document.decode()
    for span in run.spans:
        assert (span.span_id in text) or span.trace_id not in kept
    found = json.loads(text)
    ids = (
        [span["spanID"] for trace in found["data"] for span in trace["spans"]]
        if format is JAEGER
        else [
            span["spanId"]
            for part in found["resourceSpans"]
            for span in part["scopeSpans"][0]["spans"]
        ]
    )
    assert sorted(ids) == sorted(span.span_id for span in run.spans if span.trace_id in kept)


def test_conditions_must_hold_on_one_span(run) -> None:
    both = ("service=severance-decode", "pd.abort.via=peer")
    assert export_run(run.path, OTLP, both).traces > 10
    with pytest.raises(NothingMatched, match="no single span has them all"):
        export_run(run.path, OTLP, ("service=severance-load", "pd.abort.via=peer"))


@pytest.mark.parametrize(
    ("where", "traces"),
    [
        ("rid=load-7-0001", 1),
        (f"trace_id={2:032x}", 1),
        ("name=fault", 1),
        ("pd.wasted_tokens=256", None),
        ('pd.links=["kv:p0-d0","control:p0-d0"]', 1),
    ],
)
def test_keys(run, where: str, traces: int | None) -> None:
    kept = export_run(run.path, OTLP, (where,)).traces
    assert kept == traces if traces else kept > 1


def test_unknown_key_names_the_near_ones(run) -> None:
    with pytest.raises(
        BadWhere, match=r"no span of this run has that key; did you mean .*pd\.abort\.reason"
    ):
        export_run(run.path, OTLP, ("pd.abort.reson=peer_dead",))
    with pytest.raises(BadWhere, match=r"there are: .*gen_ai\.usage\.input_tokens"):
        export_run(run.path, OTLP, ("zzzzzz=1",))


def test_unknown_value_names_those_that_occur(run) -> None:
    with pytest.raises(
        NothingMatched, match="its values here are: client_disconnect, client_abort, peer_dead"
    ):
        export_run(run.path, OTLP, ("pd.abort.reason=oom",))


@pytest.mark.parametrize("where", ["rid", "=x", " =x"])
def test_not_key_value(run, where: str) -> None:
    with pytest.raises(BadWhere, match="not key=value"):
        export_run(run.path, OTLP, (where,))


def test_no_run_and_no_spans(builder) -> None:
    with pytest.raises(RunNotFound, match="no such directory; make one with `severance run"):
        export_run(builder.path / "no", OTLP)
    builder.run_info()
    with pytest.raises(NoSpans, match=r"has no spans\.sqlite"):
        export_run(builder.path, OTLP)
    database = builder.path / "spans.sqlite"
    database.write_text("no database" * 100)
    with pytest.raises(NoSpans, match="cannot be read"):
        export_run(builder.path, OTLP)
    database.unlink()
    builder.write_spans()
    with pytest.raises(NoSpans, match="holds no span"):
        export_run(builder.path, OTLP)
    with sqlite3.connect(database) as connection:
        connection.execute("DROP TABLE spans")
    connection.close()
    with pytest.raises(NoSpans, match="no such table"):
        export_run(builder.path, OTLP)

"""Spans of a real worker, as a collector gets them."""

from __future__ import annotations

from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from engine.telemetry.context import trace_id_of_room
from tests.engine.server.harness import (
    Collector,
    WorkerProcess,
    attributes,
    running_worker,
    script,
    wait_until,
)

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"
HEADERS = {"traceparent": f"00-{TRACE}-{PARENT}-01"}


def test_a_completed_request(worker: WorkerProcess, collector: Collector) -> None:
    worker.post("/generate", {"rid": "t-done", "text": script(tokens=3)}, HEADERS)

    spans = collector.wait_spans("t-done")
    role = spans["request"]
    assert set(spans) == {"request", "tokenize", "queue"}
    assert role.kind == Span.SPAN_KIND_SERVER
    assert role.trace_id.hex() == TRACE
    assert role.parent_span_id.hex() == PARENT
    assert role.status.code == Status.STATUS_CODE_UNSET
    said = attributes(role)
    assert (said["pd.rid"], said["pd.role"], said["pd.outcome"]) == (
        "t-done",
        "unified",
        "completed",
    )
    assert said["gen_ai.usage.output_tokens"] == 3
    assert "pd.abort.reason" not in said
    for child in (spans["tokenize"], spans["queue"]):
        assert child.parent_span_id == role.span_id
        assert role.start_time_unix_nano <= child.start_time_unix_nano
        assert child.end_time_unix_nano <= role.end_time_unix_nano


def test_a_clients_abort(worker: WorkerProcess, collector: Collector) -> None:
    pending = worker.post_later("/generate", {"rid": "t-abort", "text": script(hold=True)})
    worker.wait_open("t-abort")
    worker.post("/abort_request", {"rid": "t-abort"})
    pending.answer()

    spans = collector.wait_spans("t-abort")
    role, abort, release = spans["request"], spans["abort"], spans["kv.release"]
    for span in (role, abort):
        said = attributes(span)
        assert said["pd.abort.reason"] == "client_abort"
        assert said["pd.abort.origin"] == "client"
        assert said["pd.abort.via"] == "local"
        assert said["pd.abort.stage"] == "mid_chunk"
        assert span.status.code == Status.STATUS_CODE_UNSET
        assert "error.type" not in said
    assert attributes(role)["pd.outcome"] == "aborted"
    assert attributes(abort)["pd.abort.received_ns"] <= attributes(abort)["pd.abort.released_ns"]
    assert attributes(abort)["pd.wasted_tokens"] == 13
    assert abort.parent_span_id == role.span_id
    assert release.parent_span_id == abort.span_id
    assert attributes(release)["pd.pages"] == 7


def test_a_servers_abort_is_an_error(worker: WorkerProcess, collector: Collector) -> None:
    worker.post("/generate", {"rid": "t-dead", "text": script(tokens=0, abort="peer_dead")})

    spans = collector.wait_spans("t-dead")
    for span in (spans["request"], spans["abort"]):
        assert span.status.code == Status.STATUS_CODE_ERROR
        assert attributes(span)["error.type"] == "peer_dead"
        assert attributes(span)["pd.abort.via"] == "peer"


def test_a_disconnected_request_has_its_spans(worker: WorkerProcess, collector: Collector) -> None:
    connection = worker.open_stream("/generate", {"rid": "t-gone", "text": script(hold=True)})
    worker.wait_open("t-gone")
    connection.close()

    spans = collector.wait_spans("t-gone")
    assert attributes(spans["request"])["pd.abort.reason"] == "client_disconnect"


def test_too_long_a_prompt_is_an_abort_at_tokenize(
    worker: WorkerProcess, collector: Collector
) -> None:
    worker.post("/generate", {"rid": "t-long", "text": "x" * 2000})

    spans = collector.wait_spans("t-long")
    assert attributes(spans["abort"])["pd.abort.stage"] == "tokenize"
    assert attributes(spans["request"])["pd.abort.reason"] == "input_too_long"


def test_an_abort_that_only_the_http_side_knows(
    worker: WorkerProcess, collector: Collector
) -> None:
    pending = worker.post_later(
        "/generate", {"rid": "t-photo", "text": script(hold=True, finish_late=True)}
    )
    worker.wait_open("t-photo")
    worker.post("/abort_request", {"rid": "t-photo"})
    pending.answer()

    spans = collector.wait_spans("t-photo")
    assert attributes(spans["abort"])["pd.abort.reason"] == "client_abort"
    assert attributes(spans["request"])["pd.outcome"] == "aborted"


def test_both_halves_derive_one_trace_from_the_room(
    prefill: WorkerProcess, decode: WorkerProcess, collector: Collector
) -> None:
    body = {"rid": "t-pair", "text": "x", "bootstrap_host": "h", "bootstrap_room": 424242}
    prefill.post("/generate", body)
    decode.post("/generate", body)

    roles = wait_until(
        lambda: (
            len(found := [s for s in collector.spans("t-pair") if s.name == "request"]) == 2
            and found
        )
    )
    assert {attributes(span)["pd.role"] for span in roles} == {"prefill", "decode"}
    assert {attributes(span)["pd.room"] for span in roles} == {"424242"}
    assert {span.parent_span_id for span in roles} == {b""}
    (trace_id,) = {span.trace_id for span in roles}
    assert int.from_bytes(trace_id, "big") == trace_id_of_room(424242)


def test_the_resource_names_role_worker_and_incarnation(
    worker: WorkerProcess, collector: Collector
) -> None:
    worker.post("/generate", {"rid": "t-resource", "text": "x"})
    collector.wait_spans("t-resource")

    resource = next(r for r in collector.resources() if r["service.instance.id"] == "u7")
    assert resource["service.name"] == "severance-unified"
    assert (
        resource["service.instance.incarnation"] == worker.get("/server_info").json["incarnation"]
    )
    assert resource["host.id"] == resource["ip"] != ""


def test_span_numbers_have_no_gap(collector: Collector) -> None:
    with running_worker("--otlp-traces-endpoint", collector.url, "--worker-name", "n1") as worker:
        worker.wait_ready()
        for index in range(4):
            worker.post("/generate", {"rid": f"t-seq-{index}", "text": "x"})

    spans = [span for index in range(4) for span in collector.spans(f"t-seq-{index}")]
    assert sorted(attributes(span)["pd.seq"] for span in spans) == list(range(len(spans)))
    assert len(spans) == 12


def test_a_killed_scheduler_leaves_a_span_for_every_open_request(collector: Collector) -> None:
    with running_worker("--otlp-traces-endpoint", collector.url) as worker:
        worker.wait_ready()
        pending = worker.post_later("/generate", {"rid": "t-kill", "text": script(hold=True)})
        worker.wait_open("t-kill")
        worker.post_later("/generate", {"rid": "t-killer", "text": script(die=True)}).answer()
        pending.answer()
        assert worker.process.wait(5) == 1

    spans = collector.wait_spans("t-kill")
    for span in (spans["request"], spans["abort"]):
        assert attributes(span)["pd.abort.reason"] == "shutdown"
        assert attributes(span)["pd.abort.origin"] == "server"
        assert span.status.code == Status.STATUS_CODE_ERROR

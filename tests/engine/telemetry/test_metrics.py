"""`EngineMetrics`: what is counted where, read back as Prometheus reads it."""

from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families

from engine.core.codes import AbortOrigin, AbortReason, AbortVia, PeerState, Stage
from engine.core.io_struct import AbortInfo, PeerSample, TraceRecord
from engine.telemetry.metrics import EngineMetrics, Finished


def make_metrics(role: str = "unified") -> EngineMetrics:
    return EngineMetrics(role=role, worker="w", model_name="tiny")


def values(metrics: EngineMetrics, name: str) -> dict[frozenset[tuple[str, str]], float]:
    """Samples of a name by their labels, without those that every sample has."""
    constant = {"model_name", "engine_type", "worker"}
    return {
        frozenset((k, v) for k, v in sample.labels.items() if k not in constant): sample.value
        for family in text_string_to_metric_families(metrics.render().decode())
        for sample in family.samples
        if sample.name == name
    }


def labels(**pairs: str) -> frozenset[tuple[str, str]]:
    return frozenset(pairs.items())


def finished(reason: AbortReason | None = None) -> Finished:
    abort = reason and AbortInfo(
        reason=reason,
        origin=AbortOrigin.SERVER,
        via=AbortVia.PEER,
        stage=Stage.TRANSFER,
        message="m",
        received_ns=10_000_000,
        released_ns=13_000_000,
    )
    record = TraceRecord(
        spans=(), abort=abort or None, num_wasted_prefill_tokens=9, num_wasted_decode_tokens=2
    )
    return Finished(
        duration_s=2.0,
        ttft_s=0.5,
        num_prompt_tokens=100,
        num_completion_tokens=4,
        abort=abort or None,
        record=record,
    )


def test_a_completed_request_is_timed() -> None:
    metrics = make_metrics()
    metrics.observe(finished())

    assert values(metrics, "gen_ai_server_time_to_first_token_seconds_sum") == {labels(): 0.5}
    assert values(metrics, "gen_ai_server_time_per_output_token_seconds_sum") == {labels(): 0.5}
    assert values(metrics, "gen_ai_server_request_duration_seconds_sum") == {
        labels(error_type=""): 2.0
    }
    assert values(metrics, "sglang:num_aborted_requests_total") == {labels(): 0.0}
    assert values(metrics, "severance_wasted_tokens_total") == {}


def test_an_abort_is_counted_by_its_codes_and_not_timed_to_tokens() -> None:
    metrics = make_metrics()
    metrics.observe(finished(AbortReason.PEER_DEAD))
    metrics.observe(finished(AbortReason.CLIENT_ABORT))

    assert values(metrics, "severance_aborts_total") == {
        labels(reason=reason, origin="server", stage="transfer", via="peer"): 1.0
        for reason in ("peer_dead", "client_abort")
    }
    assert values(metrics, "severance_abort_release_seconds_sum")[labels()] == pytest.approx(0.006)
    assert values(metrics, "severance_wasted_tokens_total") == {
        labels(kind="prefill"): 18.0,
        labels(kind="decode"): 4.0,
    }
    assert values(metrics, "gen_ai_server_time_to_first_token_seconds_count") == {}
    durations = values(metrics, "gen_ai_server_request_duration_seconds_count")
    assert durations == {labels(error_type="peer_dead"): 1.0, labels(error_type=""): 1.0}


def test_prefill_says_nothing_about_tokens_it_does_not_stream() -> None:
    metrics = make_metrics("prefill")
    metrics.observe(finished())
    assert values(metrics, "gen_ai_server_time_to_first_token_seconds_count") == {}


def test_samples_keep_sglangs_names() -> None:
    metrics = make_metrics()
    metrics.set_gauges({"num_queue_reqs": 3.0, "rooms_open": 2.0, "stale_frames_total": 5.0})

    assert values(metrics, "sglang:num_queue_reqs") == {labels(): 3.0}
    assert values(metrics, "severance_rooms_open") == {labels(): 2.0}
    assert values(metrics, "severance_stale_frames_total") == {labels(): 5.0}


def test_peers_have_a_state_a_phi_and_counted_changes() -> None:
    metrics = make_metrics("prefill")
    assert values(metrics, "severance_peer_state_changes_total") == {}
    metrics.set_peers(
        (
            PeerSample(peer="d0", state=PeerState.SUSPECT, phi=9.5),
            PeerSample(peer="d1", state=PeerState.DEAD, phi=0.0),
        ),
        {PeerState.ALIVE: 2, PeerState.SUSPECT: 1, PeerState.DEAD: 1},
    )
    assert values(metrics, "severance_peer_phi")[labels(peer="d0")] == 9.5
    states = values(metrics, "severance_peer_state")
    assert {key for key, value in states.items() if value == 1.0} == {
        labels(peer="d0", state="suspect"),
        labels(peer="d1", state="dead"),
    }
    assert len(states) == 6
    changes = values(metrics, "severance_peer_state_changes_total")
    assert changes[labels(state="alive")] == 2.0
    assert changes[labels(state="dead")] == 1.0


def test_counts_kept_elsewhere_are_read_at_each_scrape() -> None:
    metrics, lost = make_metrics(), [1.0]
    metrics.show_count("severance_spans_dropped", "doc", lambda: lost[0])
    assert values(metrics, "severance_spans_dropped_total") == {labels(): 1.0}
    lost[0] = 4.0
    assert values(metrics, "severance_spans_dropped_total") == {labels(): 4.0}


@pytest.mark.parametrize(
    ("name", "buckets"),
    [
        ("gen_ai_server_request_duration_seconds", (0.01, 81.92, 14)),
        ("gen_ai_server_time_to_first_token_seconds", (0.001, 10.0, 16)),
        ("gen_ai_server_time_per_output_token_seconds", (0.01, 2.5, 13)),
    ],
)
def test_buckets_are_the_mandated_ones(name: str, buckets: tuple[float, float, int]) -> None:
    metrics = make_metrics()
    metrics.observe(finished())
    bounds = sorted(
        float(dict(key)["le"]) for key in values(metrics, f"{name}_bucket") if dict(key)["le"]
    )
    first, last, count = buckets
    assert (bounds[0], bounds[-2], len(bounds) - 1) == (first, last, count)
    assert bounds[-1] == float("inf")

"""`EngineMetrics`: what ``GET /metrics`` shows.

SGLang's names where SGLang has the metric (one dashboard serves both), OpenTelemetry's ``gen_ai_server_*``
histograms with their mandated buckets, and ``severance_*`` where neither has one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import msgspec
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Histogram,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from engine.core.codes import PeerState, is_clients_own
from engine.core.io_struct import AbortInfo, PeerSample, TraceRecord

# One more series for each of ours, which no dashboard reads.
disable_created_metrics()  # type: ignore[no-untyped-call]

_DURATION = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
_TTFT = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
_TPOT = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5)
_RELEASE = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)

SGLANG_GAUGES = {
    "num_running_reqs": "Requests in the running batch",
    "num_queue_reqs": "Requests in the waiting queue",
    "num_prefill_bootstrap_queue_reqs": "Prefill: requests waiting for decode's handshake",
    "num_prefill_inflight_queue_reqs": "Prefill: requests whose KV is being sent",
    "num_prefill_retries_total": "Prefill: optimistic attempts given up for bootstrapped requests",
    "num_decode_prealloc_queue_reqs": "Decode: requests waiting for memory",
    "num_decode_transfer_queue_reqs": "Decode: requests whose KV is arriving",
    "token_usage": "Share of the KV pool in use, 0 to 1",
    "kv_available_tokens": "Free tokens of the KV pool",
    "kv_used_tokens": "Used tokens of the KV pool",
    "max_total_num_tokens": "Tokens in the KV pool",
}
"""Samples with these names are shown as ``sglang:NAME``, all others as ``severance_NAME``."""


class Finished(msgspec.Struct, frozen=True, kw_only=True):
    """One ended request, in seconds and tokens. ``ttft_s`` None: no token came out."""

    duration_s: float
    ttft_s: float | None
    num_prompt_tokens: int
    num_completion_tokens: int
    abort: AbortInfo | None
    record: TraceRecord | None


class _Snapshot(Collector):
    """The scheduler's last sample, and counts that other parts keep themselves."""

    def __init__(self, labels: Mapping[str, str]) -> None:
        self._names = list(labels)
        self._values = list(labels.values())
        self.gauges: dict[str, float] = {}
        self.peers: tuple[PeerSample, ...] = ()
        self.peer_changes: Mapping[PeerState, int] = {}
        self.counts: dict[str, tuple[str, Callable[[], float]]] = {}
        self.sizes: dict[str, Callable[[], float]] = {}

    def collect(self) -> Iterator[Metric]:
        for name, value in self.gauges.items():
            yield self._family(name, value)
        for name, read in self.sizes.items():
            yield self._family(name, read())
        for name, (documentation, read) in self.counts.items():
            yield self._counter(name, documentation, read())
        if self.peer_changes:
            yield from self._peer_families()

    def describe(self) -> Iterator[Metric]:
        """Nothing is fixed: the names come with the samples."""
        return iter(())

    def _family(self, name: str, value: float) -> Metric:
        documentation = SGLANG_GAUGES.get(name)
        full = f"severance_{name}" if documentation is None else f"sglang:{name}"
        if name.endswith("_total"):
            return self._counter(full, documentation or "Count kept by the scheduler", value)
        gauge = GaugeMetricFamily(
            full, documentation or "Sample of the scheduler", None, self._names
        )
        gauge.add_metric(self._values, value)
        return gauge

    def _peer_families(self) -> Iterator[Metric]:
        state = GaugeMetricFamily(
            "severance_peer_state",
            "1 in the state that the peer is in; suspect decides nothing",
            None,
            [*self._names, "peer", "state"],
        )
        phi = GaugeMetricFamily(
            "severance_peer_phi",
            "How surprising the peer's silence is; 8 is suspect",
            None,
            [*self._names, "peer"],
        )
        changes = CounterMetricFamily(
            "severance_peer_state_changes",
            "How often a peer came into the state",
            None,
            [*self._names, "state"],
        )
        for sample in self.peers:
            phi.add_metric([*self._values, sample.peer], sample.phi)
            for each in PeerState:
                state.add_metric([*self._values, sample.peer, each], float(sample.state is each))
        for each in PeerState:
            changes.add_metric([*self._values, each], float(self.peer_changes.get(each, 0)))
        yield from (state, phi, changes)

    def _counter(self, name: str, documentation: str, value: float) -> Metric:
        counter = CounterMetricFamily(name, documentation, None, self._names)
        counter.add_metric(self._values, value)
        return counter


class EngineMetrics:
    """All metrics of one worker, in a registry of its own."""

    def __init__(self, *, role: str, worker: str, model_name: str) -> None:
        labels = {"model_name": model_name, "engine_type": role, "worker": worker}
        names = list(labels)
        self.registry = CollectorRegistry()
        self._role = role
        self._labels = labels
        self._snapshot = _Snapshot(labels)
        self.registry.register(self._snapshot)
        self._duration = self._histogram(
            "gen_ai_server_request_duration_seconds", _DURATION, "Request duration", "error_type"
        )
        self._ttft = self._histogram(
            "gen_ai_server_time_to_first_token_seconds", _TTFT, "First token, completed requests"
        )
        self._tpot = self._histogram(
            "gen_ai_server_time_per_output_token_seconds", _TPOT, "Per token after the first, same"
        )
        self._release = self._histogram(
            "severance_abort_release_seconds", _RELEASE, "Abort known to memory released"
        )
        self._aborts = Counter(
            "severance_aborts",
            "Requests that ended in an abort",
            [*names, "reason", "origin", "stage", "via"],
            registry=self.registry,
        )
        self._aborted = Counter(
            "sglang:num_aborted_requests", "Aborted requests", names, registry=self.registry
        )
        self._aborted.labels(**labels)
        self._wasted = Counter(
            "severance_wasted_tokens",
            "Tokens computed for requests that were aborted",
            [*names, "kind"],
            registry=self.registry,
        )
        self._prompt = Counter(
            "sglang:prompt_tokens", "Prompt tokens", names, registry=self.registry
        )
        self._generated = Counter(
            "sglang:generation_tokens", "Generated tokens", names, registry=self.registry
        )

    def set_gauges(self, values: Mapping[str, float]) -> None:
        """Show the scheduler's newest sample."""
        self._snapshot.gauges = dict(values)

    def set_peers(self, peers: tuple[PeerSample, ...], changes: Mapping[PeerState, int]) -> None:
        """Show every peer's state, and how often one came into each; nothing where there are no peers."""
        self._snapshot.peers = peers
        self._snapshot.peer_changes = changes

    def show_count(self, name: str, documentation: str, read: Callable[[], float]) -> None:
        """Show a count that is kept elsewhere; ``read`` is called at each scrape."""
        self._snapshot.counts[name] = (documentation, read)

    def show_size(self, name: str, read: Callable[[], float]) -> None:
        """Show how much is in a structure of this process as ``severance_NAME``, at each scrape."""
        self._snapshot.sizes[name] = read

    def observe(self, finished: Finished) -> None:
        """Count one ended request. Times to tokens are for completed ones only (OpenTelemetry)."""
        self._duration.labels(**self._labels, error_type=_error_type(finished.abort)).observe(
            finished.duration_s
        )
        self._prompt.labels(**self._labels).inc(finished.num_prompt_tokens)
        self._generated.labels(**self._labels).inc(finished.num_completion_tokens)
        if finished.abort is not None:
            self._observe_abort(finished.abort, finished.record)
        elif finished.ttft_s is not None and self._role != "prefill":
            self._observe_tokens(finished, finished.ttft_s)

    def render(self) -> bytes:
        """The text of ``GET /metrics`` (Prometheus text format 0.0.4)."""
        return generate_latest(self.registry)

    def _observe_tokens(self, finished: Finished, ttft_s: float) -> None:
        self._ttft.labels(**self._labels).observe(ttft_s)
        if finished.num_completion_tokens > 1:
            rest_s = finished.duration_s - ttft_s
            self._tpot.labels(**self._labels).observe(rest_s / (finished.num_completion_tokens - 1))

    def _observe_abort(self, abort: AbortInfo, record: TraceRecord | None) -> None:
        self._aborted.labels(**self._labels).inc()
        self._aborts.labels(
            **self._labels,
            reason=abort.reason,
            origin=abort.origin,
            stage=abort.stage,
            via=abort.via,
        ).inc()
        if abort.released_ns >= abort.received_ns:
            seconds = (abort.released_ns - abort.received_ns) / 1e9
            self._release.labels(**self._labels).observe(seconds)
        if record is not None:
            wasted = self._wasted
            wasted.labels(**self._labels, kind="prefill").inc(record.num_wasted_prefill_tokens)
            wasted.labels(**self._labels, kind="decode").inc(record.num_wasted_decode_tokens)

    def _histogram(
        self, name: str, buckets: tuple[float, ...], documentation: str, *more: str
    ) -> Histogram:
        return Histogram(
            name, documentation, [*self._labels, *more], buckets=buckets, registry=self.registry
        )


def _error_type(abort: AbortInfo | None) -> str:
    """Same as the span's ``error.type``; empty where the span has none."""
    if abort is None or is_clients_own(abort.reason, abort.origin):
        return ""
    return str(abort.reason)

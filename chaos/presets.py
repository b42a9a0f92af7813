"""What kinds of servers can do and what they call it. A target file names one of these."""

from __future__ import annotations

from msgspec import Struct


class MetricNames(Struct, frozen=True, kw_only=True):
    """Gauges of a worker's /metrics that say whether it is idle; each may be absent in a role, but not all.

    ``kv_usage``: share of the KV pool in use, 0 to 1. ``aborted``: counter of aborted requests and labels
    that select them.
    """

    running: tuple[str, ...]
    waiting: tuple[str, ...]
    kv_usage: str
    aborted: str
    aborted_labels: tuple[tuple[str, str], ...] = ()


class Preset(Struct, frozen=True, kw_only=True):
    """``abort_path``: how a request is aborted by rid; None: only by closing its connection.
    ``has_ledger``: it has our /ledger. ``speaks_generate``: SGLang's /generate, which the load driver uses.
    """

    metrics: MetricNames
    abort_path: str | None
    has_ledger: bool
    speaks_generate: bool
    health_path: str = "/health"
    generates_path: str = "/health_generate"


_SGLANG_METRICS = MetricNames(
    running=("sglang:num_running_reqs",),
    waiting=(
        "sglang:num_queue_reqs",
        "sglang:num_prefill_bootstrap_queue_reqs",
        "sglang:num_prefill_inflight_queue_reqs",
        "sglang:num_decode_prealloc_queue_reqs",
        "sglang:num_decode_transfer_queue_reqs",
    ),
    kv_usage="sglang:token_usage",
    aborted="sglang:num_aborted_requests_total",
)
PRESETS = {
    "severance": Preset(
        metrics=_SGLANG_METRICS,
        abort_path="/abort_request",
        has_ledger=True,
        speaks_generate=True,
    ),
    "sglang": Preset(
        metrics=_SGLANG_METRICS,
        abort_path="/abort_request",
        has_ledger=False,
        speaks_generate=True,
    ),
    "vllm": Preset(
        metrics=MetricNames(
            running=("vllm:num_requests_running",),
            waiting=("vllm:num_requests_waiting",),
            kv_usage="vllm:kv_cache_usage_perc",
            aborted="vllm:request_success_total",
            aborted_labels=(("finished_reason", "abort"),),
        ),
        abort_path=None,
        has_ledger=False,
        speaks_generate=False,
        generates_path="/health",
    ),
}

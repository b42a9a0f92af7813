"""Numbers for /metrics, under SGLang's names where it has them (without the ``sglang:`` prefix)."""

from __future__ import annotations

from engine.core.decode import DecodeScheduler
from engine.core.disagg import DisaggScheduler
from engine.core.prefill import PrefillScheduler
from engine.core.scheduler import Scheduler


def gauges(scheduler: Scheduler) -> dict[str, float]:
    """Queue lengths, pool fill, rooms and peers of one worker."""
    pages = scheduler.pools.kv_pages.count()
    page_size = scheduler.config.page_size
    values = {
        "num_running_reqs": float(len(scheduler.running)),
        "num_queue_reqs": float(scheduler.num_queued()),
        "token_usage": pages.held / pages.total,
        "kv_used_tokens": float(pages.held * page_size),
        "kv_available_tokens": float(pages.free * page_size),
        "max_total_num_tokens": float(pages.total * page_size),
        "ledger_imbalance": float(pages.total - pages.free - pages.held),
        "ledger_double_frees": float(scheduler.pools.ledger.num_double_frees),
        "cancelled_forwards": float(scheduler.num_cancelled_forwards),
        "rooms_open": float(len(scheduler.rooms)),
        "rooms_terminal": float(scheduler.rooms.num_terminal),
    }
    if isinstance(scheduler, DisaggScheduler):
        values["peers_up"] = float(len(scheduler.peers))
        values["stale_kv_frames"] = float(scheduler.num_stale_frames)
        values["poll_failures_injected_total"] = float(scheduler.poll_failures.num_fired)
    queues = scheduler.queues()
    if isinstance(scheduler, PrefillScheduler):
        values["num_prefill_bootstrap_queue_reqs"] = float(queues["bootstrap"])
        values["num_prefill_inflight_queue_reqs"] = float(queues["inflight"])
        values["optimistic_reqs"] = float(queues["optimistic"])
        values["num_prefill_retries_total"] = float(scheduler.optimistic.num_retracted)
    if isinstance(scheduler, DecodeScheduler):
        waiting = queues["bootstrap"] + queues["prealloc"]
        values["num_decode_prealloc_queue_reqs"] = float(waiting)
        values["num_decode_transfer_queue_reqs"] = float(queues["transfer"])
    return values

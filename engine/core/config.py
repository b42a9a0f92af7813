"""Settings of one scheduler."""

from __future__ import annotations

import msgspec

from engine.core.errors import ConfigError

SECOND_NS = 1_000_000_000


class SchedulerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Sizes in tokens, pages or requests; times in nanoseconds.

    ``num_staging_pages`` bounds the KV pages that prefill has copied out and not yet seen acknowledged.
    A transfer that holds pages which others wait for has ``transfer_yield_ns`` without progress, others have
    ``transfer_timeout_ns``.
    ``max_queued_requests`` and the request timeouts: 0 is no limit. ``optimistic_prefill_attempts``: how
    often a request may compute before its bootstrap is done.
    """

    worker_name: str
    incarnation: str
    num_pages: int
    page_size: int = 16
    chunked_prefill_size: int = 256
    max_running_requests: int = 16
    max_queued_requests: int = 0
    num_staging_pages: int = 4096
    eos_token_id: int = 0
    bootstrap_timeout_ns: int = 5 * SECOND_NS
    transfer_timeout_ns: int = 10 * SECOND_NS
    transfer_yield_ns: int = 5 * SECOND_NS // 2
    room_query_ns: int = 1 * SECOND_NS
    terminal_keep_ns: int = 60 * SECOND_NS
    max_scatters_per_step: int = 4
    request_waiting_timeout_ns: int = 0
    request_running_timeout_ns: int = 0
    optimistic_prefill_attempts: int = 0

    def __post_init__(self) -> None:
        if self.chunked_prefill_size % self.page_size:
            raise ConfigError(
                f"chunked_prefill_size {self.chunked_prefill_size} is no multiple of page_size "
                f"{self.page_size}: choose a multiple, so that chunks end on pages"
            )

    @property
    def num_metadata_slots(self) -> int:
        """Twice the running requests, as SGLang's prefill side has it."""
        return 2 * self.max_running_requests

    @property
    def first_look_ns(self) -> int:
        """How long nothing can be due for a room that has just been opened."""
        return min(self.room_query_ns, self.bootstrap_timeout_ns, self.transfer_timeout_ns)

    @property
    def max_optimistic_pages(self) -> int:
        """What requests without their bootstrap may hold at once: half of the pool."""
        return self.num_pages // 2

    @property
    def max_optimistic_requests(self) -> int:
        """Request slots that they may hold at once: half, but one."""
        return max(1, self.max_running_requests // 2)

    def pages_for(self, num_tokens: int) -> int:
        """Pages that ``num_tokens`` tokens fill."""
        return -(-num_tokens // self.page_size)

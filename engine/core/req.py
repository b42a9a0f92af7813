"""`Req`: one request in one worker, and what it holds."""

from __future__ import annotations

from dataclasses import dataclass, field

from engine.core.codes import AbortOrigin, AbortReason, AbortVia, Stage
from engine.core.io_struct import AbortInfo, FinishReason, TokenizedGenerateReqInput, TokenLogprob
from engine.core.peer import Attempt
from engine.core.trace_ctx import TraceCtx

ReqKey = tuple[str, int | None]
"""(rid, bootstrap_room): a router retries the same rid with a fresh room."""

FAKE_BOOTSTRAP_HOST = "2.2.2.2"
"""SGLang's name for a request without a peer (health probes): the transfer is skipped."""


@dataclass(slots=True, frozen=True, kw_only=True)
class AbortMark:
    """An abort that waits for the safe point. ``stage``: where the request was when it came."""

    reason: AbortReason
    origin: AbortOrigin
    via: AbortVia
    stage: Stage
    message: str
    received_ns: int


@dataclass(slots=True)
class ReqTimeStats:
    """Stamps (SGLang `ReqTimeStats`)."""

    received_ns: int
    trace_ctx: TraceCtx = field(default_factory=TraceCtx)


@dataclass(slots=True, eq=False)
class Req:
    """State of a request. Pages cover the prompt (prefill) or prompt + max_new_tokens (else)."""

    recv: TokenizedGenerateReqInput
    time_stats: ReqTimeStats
    stage: Stage = Stage.QUEUE
    output: list[TokenLogprob] = field(default_factory=list)
    page_ids: tuple[int, ...] = ()
    num_cached_tokens: int = 0
    """Tokens whose KV stands in our pages."""
    req_slot: int | None = None
    metadata_slot: int | None = None
    to_abort: AbortMark | None = None
    finished_reason: FinishReason | None = None
    chunk_index: int = 0
    started_ns: int = 0
    """When it first computed here; 0: it waits."""

    # prefill's sender half
    num_sent_pages: int = 0
    pending_bootstrap: bool = False
    """It holds memory, and its decode half is not ready (SGLang has this name)."""
    num_prefill_attempts: int = 0
    """How often it has begun to compute like that (SGLang `prefill_attempt_count`)."""
    # decode's receiver half
    peer: str | None = None
    attempt: Attempt | None = None
    num_arrived_pages: int = 0

    @property
    def rid(self) -> str:
        return self.recv.rid

    @property
    def room(self) -> int | None:
        return self.recv.bootstrap_room

    @property
    def key(self) -> ReqKey:
        return (self.recv.rid, self.recv.bootstrap_room)

    @property
    def owner(self) -> str:
        """Name in the ledger; the room tells two tries of one rid apart."""
        return self.rid if self.room is None else f"{self.rid}/{self.room}"

    @property
    def num_input_tokens(self) -> int:
        return len(self.recv.input_ids)

    @property
    def is_fake(self) -> bool:
        return self.recv.bootstrap_host == FAKE_BOOTSTRAP_HOST

    def is_aborted(self) -> bool:
        """Marked or done: no result of this request counts any more (SGLang `is_aborted`)."""
        return self.to_abort is not None or (
            self.finished_reason is not None and self.finished_reason.abort is not None
        )

    def finished(self) -> bool:
        return self.finished_reason is not None

    def reset_for_retract(self) -> None:
        """Nothing has been computed (SGLang has this name); pages and slot must be released already."""
        self.output.clear()
        self.num_cached_tokens = 0
        self.chunk_index = 0

    def mark_abort(self, mark: AbortMark) -> bool:
        """Note an abort for the safe point. False if one stood already: the first reason wins."""
        if self.to_abort is not None or self.finished():
            return False
        self.to_abort = mark
        return True


def prepare_abort(req: Req, now_ns: int) -> AbortInfo:
    """Give a marked request its final reason (SGLang `prepare_abort`)."""
    mark = req.to_abort
    assert mark is not None
    info = AbortInfo(
        reason=mark.reason,
        origin=mark.origin,
        via=mark.via,
        stage=mark.stage,
        message=mark.message,
        received_ns=mark.received_ns,
        released_ns=now_ns,
    )
    req.finished_reason = FinishReason(type="abort", abort=info)
    return info

"""Chunked prefill: which tokens of which request run next (SGLang `PrefillAdder`, `chunked_req`).

Chunks end on each request's own grid, never on leftover budget, so that a request's tokens do not
depend on its neighbours.
"""

from __future__ import annotations

from engine.core.batch import ForwardItem
from engine.core.codes import Stage
from engine.core.req import Req
from engine.core.scheduler import Scheduler


def next_chunks(scheduler: Scheduler, now_ns: int) -> list[tuple[Req, ForwardItem]]:
    """The chunked request goes on; whole first chunks of others fill what is left of the budget."""
    budget = scheduler.config.chunked_prefill_size
    chunks = []
    req = scheduler.chunked_req or _next(scheduler, budget, now_ns)
    while req is not None:
        length = _next_chunk_len(scheduler, req)
        is_last = req.num_cached_tokens + length >= req.num_input_tokens
        scheduler.chunked_req = None if is_last else req
        chunks.append((req, _begin_chunk(req, length, is_last, now_ns)))
        budget -= length
        req = _next(scheduler, budget, now_ns) if is_last else None
    return chunks


def _next(scheduler: Scheduler, budget: int, now_ns: int) -> Req | None:
    """Last chunks of a cancelled forward before anybody new: they fitted in one batch, so they do now."""
    if scheduler.to_run_again:
        return scheduler.to_run_again.popleft()
    return _admit(scheduler, budget, now_ns)


def _next_chunk_len(scheduler: Scheduler, req: Req) -> int:
    left = req.num_input_tokens - req.num_cached_tokens
    return min(scheduler.config.chunked_prefill_size, left)


def _admit(scheduler: Scheduler, budget: int, now_ns: int) -> Req | None:
    """Head of the queue, if its next chunk fits the budget and its pages the pool."""
    req = scheduler.next_waiting()
    if req is None or _next_chunk_len(scheduler, req) > budget or not scheduler.can_admit(req):
        return None
    scheduler.start(req, now_ns)
    return req


def _begin_chunk(req: Req, length: int, is_last: bool, now_ns: int) -> ForwardItem:
    start = req.num_cached_tokens
    req.stage = Stage.LAST_CHUNK if is_last else Stage.MID_CHUNK
    req.time_stats.trace_ctx.begin(
        "prefill.chunk", now_ns, **{"pd.chunk": req.chunk_index, "pd.tokens": length}
    )
    return ForwardItem(
        rid=req.rid,
        input_ids=req.recv.input_ids[start : start + length],
        start=start,
        page_ids=req.page_ids,
        wants_token=is_last,
        sampling_params=req.recv.sampling_params,
        top_logprobs_num=req.recv.top_logprobs_num,
    )


def end_chunk(req: Req, length: int, now_ns: int) -> None:
    """The chunk's KV stands in the pages."""
    req.num_cached_tokens += length
    req.chunk_index += 1
    req.time_stats.trace_ctx.end("prefill.chunk", now_ns)


def decode_item(req: Req) -> ForwardItem:
    """One more token for a running request; its last token's KV is written by this forward."""
    return ForwardItem(
        rid=req.rid,
        input_ids=(req.output[-1].token_id,),
        start=req.num_input_tokens + len(req.output) - 1,
        page_ids=req.page_ids,
        wants_token=True,
        sampling_params=req.recv.sampling_params,
        output_index=len(req.output),
        top_logprobs_num=req.recv.top_logprobs_num,
    )

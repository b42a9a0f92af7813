"""`UnifiedScheduler`: prefill and decode in one worker, mixed in one batch.

Pages for prompt + max_new_tokens are reserved at admission, so nothing is ever retracted.
"""

from __future__ import annotations

from collections.abc import Sequence

from engine.core.chunking import decode_item, end_chunk, next_chunks
from engine.core.codes import DisaggregationMode, Stage
from engine.core.errors import InvariantError
from engine.core.io_struct import TokenLogprob
from engine.core.peer import Inbound
from engine.core.req import Req
from engine.core.schedule_batch import ScheduleBatch
from engine.core.scheduler import Scheduler


class UnifiedScheduler(Scheduler):
    """waiting queue -> chunked prefill -> running."""

    role = DisaggregationMode.UNIFIED

    def num_pages_needed(self, req: Req) -> int:
        return self.config.pages_for(req.num_input_tokens + req.recv.sampling_params.max_new_tokens)

    def num_queued(self) -> int:
        return len(self.waiting_queue)

    def queues(self) -> dict[str, int]:
        return {
            "waiting": len(self.waiting_queue),
            "chunked": self.num_chunked,
            "running": len(self.running),
        }

    def _enqueue(self, req: Req, now_ns: int) -> None:
        req.stage = Stage.WAITING
        req.time_stats.trace_ctx.begin("queue", now_ns)
        self.waiting_queue.append(req)

    def _on_link(self, message: Inbound, now_ns: int) -> None:
        raise InvariantError(f"a unified worker has no links, but heard {type(message).__name__}")

    def _abort_sender(self, req: Req, now_ns: int) -> None:
        """Nothing is sent and there is no peer."""

    def get_next_batch_to_run(self, now_ns: int) -> ScheduleBatch | None:
        self.safe_point(now_ns)
        if self.paused:
            return None
        decoding = list(self.running)
        prefilling = next_chunks(self, now_ns)
        items = [decode_item(req) for req in decoding] + [item for _, item in prefilling]
        if not items:
            return None
        self.step += 1
        reqs = decoding + [req for req, _ in prefilling]
        return ScheduleBatch(items=tuple(items), members=tuple(self.member(req) for req in reqs))

    def _process_tokens(
        self, batch: ScheduleBatch, result: Sequence[TokenLogprob | None], now_ns: int
    ) -> None:
        for key, item, token in zip(batch.keys, batch.items, result, strict=True):
            req = self.reqs.get(key)
            if req is None or req.is_aborted():
                continue  # drained: never streamed, cached or sent
            if req.stage is Stage.RUNNING:
                req.num_cached_tokens += 1
            else:
                end_chunk(req, len(item.input_ids), now_ns)
            if token is not None:
                self._start_running(req, now_ns)
                self.append_token(req, token, now_ns)

    def _start_running(self, req: Req, now_ns: int) -> None:
        if req.stage is not Stage.RUNNING:
            req.stage = Stage.RUNNING
            req.time_stats.trace_ctx.begin("decode", now_ns)
            self.running.append(req)

"""`RequestObserver`: an ended request becomes spans and metrics, exactly once."""

from __future__ import annotations

from engine.core.io_struct import TraceRecord
from engine.server.req_state import ReqState
from engine.telemetry.metrics import EngineMetrics, Finished
from engine.telemetry.provider import Telemetry
from engine.telemetry.spans import RequestTrace, emit_request_spans


class RequestObserver:
    """Called by the tokenizer manager when a request ends."""

    def __init__(self, telemetry: Telemetry, metrics: EngineMetrics) -> None:
        self._telemetry = telemetry
        self._metrics = metrics

    def request_ended(self, state: ReqState, record: TraceRecord | None) -> None:
        """Emit spans and count. Health probes are no requests of a user: they leave no trace."""
        if state.is_probe or state.finish is None:
            return
        abort = state.finish.abort
        emit_request_spans(
            self._telemetry,
            RequestTrace(
                rid=state.rid,
                room=state.room,
                parent=state.parent,
                received_ns=state.received_ns,
                tokenized_ns=state.tokenized_ns,
                ended_ns=state.ended_ns,
                finish_type=state.finish.type,
                max_new_tokens=state.sampling_params.max_new_tokens,
                num_prompt_tokens=state.num_prompt_tokens,
                num_completion_tokens=len(state.tokens),
                num_cached_tokens=state.num_cached_tokens,
                abort=abort,
                record=record,
            ),
        )
        first_ns = state.first_token_ns
        self._metrics.observe(
            Finished(
                duration_s=(state.ended_ns - state.received_ns) / 1e9,
                ttft_s=(first_ns - state.received_ns) / 1e9 if first_ns else None,
                num_prompt_tokens=state.num_prompt_tokens,
                num_completion_tokens=len(state.tokens),
                abort=abort,
                record=record,
            )
        )

"""What all requests of a load share, and the closing of each request's books."""

from __future__ import annotations

import hashlib
import socket
import time
from collections.abc import Callable

import msgspec

from loadtest.config import LoadConfig
from loadtest.frames import Answer, parse_answer
from loadtest.history import AbortFired, End, Sent
from loadtest.outcome import Judgment
from loadtest.prompts import make_prompt
from loadtest.schedule import Slot
from loadtest.stats import LoadStats
from loadtest.tracing import RequestSpan, Tracing
from loadtest.transcript import Transcript
from loadtest.writer import HistoryWriter

_ROUTE = "/generate"


class Finished(msgspec.Struct, frozen=True, kw_only=True):
    """A request that is over. ``end`` None: it hung."""

    sent: Sent
    end: End | None


class Client:
    """One target, one history file, one set of statistics; `on_finished` hears of every end."""

    def __init__(
        self,
        config: LoadConfig,
        writer: HistoryWriter,
        tracing: Tracing,
        on_finished: Callable[[Finished], None],
    ) -> None:
        self.config = config
        self.stats = LoadStats(config.goodput)
        self.own_errors: list[BaseException] = []
        self._writer = writer
        self._tracing = tracing
        self._on_finished = on_finished
        self._host = socket.gethostname()

    def body(self, slot: Slot, rid: str) -> bytes:
        """The /generate body. Logprobs of the two best tokens are asked for: their margin goes on record."""
        return msgspec.json.encode(
            {
                "rid": rid,
                "text": make_prompt(slot.prompt_seed, slot.index, slot.isl),
                "sampling_params": {
                    "temperature": 0,
                    "max_new_tokens": slot.max_new_tokens,
                    "ignore_eos": True,
                },
                "stream": True,
                "return_logprob": True,
                "top_logprobs_num": 2,
            }
        )

    def request(self, body: bytes, traceparent: str) -> bytes:
        """The bytes on the wire."""
        headers = {"Accept": "text/event-stream", "traceparent": traceparent}
        return self.config.url.post(_ROUTE, body, headers)

    def begin(self, slot: Slot, rid: str, due_ns: int) -> tuple[Sent, RequestSpan]:
        """Put the request on record, before its first byte leaves."""
        sent_ns, wall_ns = time.monotonic_ns(), time.time_ns()
        span = self._tracing.start(rid, slot.isl, wall_ns)
        sent = Sent(
            rid=rid,
            trace_id=span.trace_id,
            scheduled_ns=due_ns,
            sent_ns=sent_ns,
            isl=slot.isl,
            abort_plan=slot.plan,
            index=slot.index,
            prompt_seed=slot.prompt_seed,
            max_new_tokens=slot.max_new_tokens,
            phase=self.config.phase,
            host=self._host,
            run_id=self.config.run_id,
            wall_ns=wall_ns,
        )
        self._writer.write(sent)
        self.stats.on_sent(sent)
        return sent, span

    def end(
        self,
        sent: Sent,
        span: RequestSpan,
        transcript: Transcript,
        judgment: Judgment,
        abort: AbortFired | None,
    ) -> None:
        """Write the one end record."""
        end = _end_record(sent, transcript, judgment, abort)
        self._writer.write(end)
        self.stats.on_end(sent, end, transcript.gaps_ns)
        self._tracing.end(span, sent, end.end_ns, judgment, end.osl)
        self._on_finished(Finished(sent=sent, end=end))

    def hang(self, sent: Sent, span: RequestSpan, transcript: Transcript) -> None:
        """No end record: that is how the history says hung."""
        self.stats.on_hung()
        self._tracing.end(span, sent, time.monotonic_ns(), None, transcript.num_tokens)
        self._on_finished(Finished(sent=sent, end=None))


def _end_record(
    sent: Sent, transcript: Transcript, judgment: Judgment, abort: AbortFired | None
) -> End:
    now_ns = time.monotonic_ns()
    answer = _last_answer(transcript)
    abort_codes = judgment.abort
    return End(
        rid=sent.rid,
        headers_ns=transcript.headers_ns,
        first_ns=transcript.first_ns,
        last_ns=transcript.last_ns,
        end_ns=transcript.over_ns or now_ns,
        osl=transcript.num_tokens,
        outcome=judgment.outcome,
        status=transcript.status,
        finish_reason=transcript.finish.type if transcript.finish else None,
        text_sha256=hashlib.sha256(answer.text.encode()).hexdigest() if answer else None,
        abort=abort,
        completion_tokens=transcript.claimed_tokens,
        num_answers=transcript.num_answers,
        output_ids=answer.output_ids if answer else (),
        margins=answer.margins if answer else (),
        error_reason=abort_codes.reason if abort_codes else None,
        error_stage=abort_codes.stage if abort_codes else None,
        error_origin=abort_codes.origin if abort_codes else None,
        error_message=judgment.message,
        wall_ns=sent.wall_ns + (transcript.over_ns or now_ns) - sent.sent_ns,
    )


def _last_answer(transcript: Transcript) -> Answer | None:
    return parse_answer(transcript.last_frame) if transcript.last_frame else None

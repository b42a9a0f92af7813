"""Counts and exact samples of a running load. Latencies count from the due time, so a late send shows."""

from __future__ import annotations

from array import array
from collections import Counter

import msgspec

from loadtest.goodput import Goodput
from loadtest.history import AbortFired, End, Outcome, Sent
from loadtest.outcome import ABORTED_BY_CLIENT, FAILED

_NS_PER_MS = 1e6


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """Where the load stands. ``hung`` requests are among the failed."""

    sent: int
    open: int
    completed: int
    aborted: int
    failed: int


class LoadStats:
    """Takes every record once. Samples are in ms; only completed requests give latencies, as in vLLM."""

    def __init__(self, goodput: Goodput) -> None:
        self._goodput = goodput
        self.outcomes: Counter[Outcome] = Counter()
        self.num_sent = 0
        self.num_hung = 0
        self.num_good = 0
        self.num_input_tokens = 0
        self.num_output_tokens = 0
        self.send_lag_ms = array("d")
        self.abort_lag_ms = array("d")
        self.ttft_ms = array("d")
        self.tpot_ms = array("d")
        self.itl_ms = array("d")
        self.e2el_ms = array("d")

    def on_sent(self, sent: Sent) -> None:
        self.num_sent += 1
        self.send_lag_ms.append((sent.sent_ns - sent.scheduled_ns) / _NS_PER_MS)

    def on_hung(self) -> None:
        self.num_hung += 1

    def on_end(self, sent: Sent, end: End, gaps_ns: list[int]) -> None:
        self.outcomes[end.outcome] += 1
        self.num_output_tokens += end.osl
        self._abort(end.abort)
        if end.outcome is Outcome.COMPLETED:
            self.num_input_tokens += sent.isl
            self._latencies(sent, end)
            self.itl_ms.extend(gap / _NS_PER_MS for gap in gaps_ns)

    def progress(self) -> Progress:
        num_ended = self.outcomes.total()
        return Progress(
            sent=self.num_sent,
            open=self.num_sent - num_ended - self.num_hung,
            completed=self.outcomes[Outcome.COMPLETED],
            aborted=sum(self.outcomes[kind] for kind in ABORTED_BY_CLIENT),
            failed=self.num_hung
            + self.outcomes[Outcome.ABORTED_SERVER]
            + sum(self.outcomes[kind] for kind in FAILED),
        )

    def _abort(self, abort: AbortFired | None) -> None:
        if abort is not None:
            self.abort_lag_ms.append((abort.fired_ns - abort.due_ns) / _NS_PER_MS)

    def _latencies(self, sent: Sent, end: End) -> None:
        e2el = (end.end_ns - sent.scheduled_ns) / _NS_PER_MS
        ttft = tpot = 0.0
        self.e2el_ms.append(e2el)
        if end.first_ns is not None and end.last_ns is not None:
            ttft = (end.first_ns - sent.scheduled_ns) / _NS_PER_MS
            self.ttft_ms.append(ttft)
            if end.osl > 1:
                tpot = (end.last_ns - end.first_ns) / _NS_PER_MS / (end.osl - 1)
                self.tpot_ms.append(tpot)
        self.num_good += self._goodput.met_by(ttft, tpot, e2el)

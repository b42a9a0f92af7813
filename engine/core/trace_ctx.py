"""`TraceCtx`: integer stamps on a request; spans are built from them when the request has ended.

SGLang's `TraceReqContext` makes spans in the hot loop (some 10 us each); a stamp costs some 0.2 us.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from engine.core.io_struct import AbortInfo, Scalar, SpanStamp, TraceRecord


@dataclass(slots=True)
class _Open:
    name: str
    start_ns: int
    attributes: dict[str, Scalar]


@dataclass(slots=True)
class TraceCtx:
    """Stamps of one request in one worker. `abort` closes whatever is open and adds the `abort` span."""

    _closed: list[SpanStamp] = field(default_factory=list)
    _open: dict[str, _Open] = field(default_factory=dict)
    _abort: AbortInfo | None = None
    _abort_index: int = -1
    num_wasted_prefill_tokens: int = 0
    num_wasted_decode_tokens: int = 0

    def begin(self, name: str, now_ns: int, **attributes: Scalar) -> None:
        self._open[name] = _Open(name, now_ns, attributes)

    def end(self, name: str, now_ns: int, **attributes: Scalar) -> None:
        """Close ``name`` if it is open; a stage that was skipped has nothing to close."""
        opened = self._open.pop(name, None)
        if opened is not None:
            self._add(opened.name, opened.start_ns, now_ns, -1, opened.attributes | attributes)

    def abort(self, info: AbortInfo, now_ns: int) -> None:
        """Close open spans and add `abort`, from the moment the abort was known to its safe point.

        Only the first abort counts: the first reason wins.
        """
        if self._abort is not None:
            return
        for name in list(self._open):
            self.end(name, now_ns, **{"pd.cut_short": True})
        self._abort = info
        self._abort_index = len(self._closed)
        self._add("abort", min(info.received_ns, now_ns), now_ns, -1, {})

    def abort_child(self, name: str, now_ns: int, **attributes: Scalar) -> None:
        """Add `abort.notify_peer` or `kv.release` under the `abort` span."""
        if self._abort_index >= 0:
            self._add(name, now_ns, now_ns, self._abort_index, attributes)

    @property
    def is_aborted(self) -> bool:
        return self._abort is not None

    def record(self, now_ns: int) -> TraceRecord:
        """Everything stamped, once the request has ended; still open spans end now."""
        for name in list(self._open):
            self.end(name, now_ns)
        return TraceRecord(
            spans=tuple(self._closed),
            abort=self._abort,
            num_wasted_prefill_tokens=self.num_wasted_prefill_tokens,
            num_wasted_decode_tokens=self.num_wasted_decode_tokens,
        )

    def _add(
        self, name: str, start_ns: int, end_ns: int, parent: int, attributes: dict[str, Scalar]
    ) -> None:
        stamp = SpanStamp(
            name=name, start_ns=start_ns, end_ns=end_ns, parent=parent, attributes=attributes
        )
        self._closed.append(stamp)

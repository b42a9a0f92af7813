"""Makes the spans that load driver and workers send, numbered as the workers number them."""

from __future__ import annotations

import itertools

from chaos.records import ClockPair
from dashboards.spans import Scalar, Span

CLOCK = ClockPair(wall_ns=1_796_000_000_000_000_000, mono_ns=5_000_000_000_000)
HOST = "node-a"
SECOND = 1_000_000_000
CLIENT_REASONS = ("client_abort", "client_disconnect", "deadline")


def mono(at_s: float) -> int:
    """CLOCK_MONOTONIC of a moment, in seconds since the first request was due."""
    return CLOCK.mono_ns + 60 * SECOND + round(at_s * SECOND)


def wall(at_s: float) -> int:
    return mono(at_s) - CLOCK.mono_ns + CLOCK.wall_ns


class Codes:
    """The codes of one half's abort, and when it took it."""

    def __init__(
        self, reason: str, via: str, stage: str, received_s: float, origin: str | None = None
    ) -> None:
        self.reason = reason
        self.via = via
        self.stage = stage
        self.received_s = received_s
        self.released_s = received_s + 0.004
        self.origin = origin or ("client" if reason in CLIENT_REASONS else "server")

    @property
    def is_error(self) -> bool:
        return self.reason not in CLIENT_REASONS

    def attributes(self) -> dict[str, Scalar]:
        codes: dict[str, Scalar] = {
            "pd.abort.reason": self.reason,
            "pd.abort.origin": self.origin,
            "pd.abort.via": self.via,
            "pd.abort.stage": self.stage,
        }
        return codes | ({"error.type": self.reason} if self.is_error else {})


class SpanMaker:
    """Every span that it makes is kept in ``spans``."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self._ids = itertools.count(1)
        self._seqs: dict[tuple[str, str], itertools.count[int]] = {}

    def add(
        self,
        name: str,
        role: str,
        begin_s: float,
        end_s: float,
        *,
        trace_id: str,
        parent: str = "",
        worker: str = "",
        incarnation: str = "",
        error: bool = False,
        attributes: dict[str, Scalar] | None = None,
    ) -> str:
        """Returns the span id."""
        span_id = f"{next(self._ids):016x}"
        everything: dict[str, Scalar] = {"pd.role": role, **(attributes or {})}
        if role != "load":
            counter = self._seqs.setdefault((worker, incarnation), itertools.count())
            everything["pd.seq"] = next(counter)
        self.spans.append(
            Span(
                trace_id=trace_id,
                span_id=span_id,
                parent_span_id=parent,
                name=name,
                kind="server" if name == "request" and role != "load" else "internal",
                service=f"severance-{role}",
                instance=worker or role,
                start_ns=wall(begin_s),
                end_ns=wall(end_s),
                status="error" if error else "unset",
                status_message="",
                attributes=dict(everything),
                resource={
                    "service.name": f"severance-{role}",
                    "service.instance.id": worker or role,
                    "service.instance.incarnation": incarnation,
                    "host.id": f"{HOST}-0242ac110002",
                },
            )
        )
        return span_id

    def root(
        self,
        rid: str,
        trace_id: str,
        begin_s: float,
        end_s: float,
        outcome: str,
        codes: Codes | None,
    ) -> str:
        """The load driver's root span."""
        more = codes.attributes() if codes else {}
        return self.add(
            "request",
            "load",
            begin_s,
            end_s,
            trace_id=trace_id,
            error=codes.is_error if codes else False,
            attributes={"pd.rid": rid, "pd.outcome": outcome, **more},
        )

    def half(
        self,
        rid: str,
        room: str,
        trace_id: str,
        parent: str,
        role: str,
        worker: str,
        incarnation: str,
        stages: list[tuple[str, float, float]],
        codes: Codes | None,
        *,
        begin_s: float,
        end_s: float,
    ) -> None:
        """One worker's role span with its stages and, if it aborted, the abort span."""
        identity: dict[str, Scalar] = {"pd.rid": rid, "pd.room": room}
        more = codes.attributes() if codes else {}
        outcome = "aborted" if codes else "completed"

        def add(
            name: str,
            begin: float,
            end: float,
            under: str,
            extra: dict[str, Scalar],
            error: bool = False,
        ) -> str:
            return self.add(
                name,
                role,
                begin,
                end,
                trace_id=trace_id,
                parent=under,
                worker=worker,
                incarnation=incarnation,
                error=error,
                attributes={**identity, **extra},
            )

        error = codes.is_error if codes else False
        role_span = add(
            "request", begin_s, end_s, parent, {"pd.outcome": outcome, **more}, error=error
        )
        for name, begin, end in stages:
            add(name, begin, end, role_span, {})
        if codes:
            stamps: dict[str, Scalar] = {
                "pd.abort.received_ns": mono(codes.received_s),
                "pd.abort.released_ns": mono(codes.released_s),
                "pd.wasted_tokens": 256,
            }
            abort = add(
                "abort",
                codes.received_s,
                codes.released_s,
                role_span,
                {**more, **stamps},
                error=error,
            )
            add("kv.release", codes.released_s, codes.released_s, abort, {"pd.pages": 17})

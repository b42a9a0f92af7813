"""Rows of `aborts.jsonl`: each abort of a client, joined with what the workers did about it."""

from __future__ import annotations

from msgspec import Struct

from chaos.oracle.abort_codes import CLIENT_REASONS, DECODING, AbortCodes, codes_of
from chaos.oracle.evidence import RunEvidence
from chaos.oracle.requests import Request
from chaos.oracle.span_index import DECODE, PREFILL, Half
from chaos.verdict import AbortRow

_CLOCK_GRAIN_NS = 1_000_000
"""The client stamps its act before the bytes leave; a server that saw it earlier saw something else."""


class Taken(Struct, frozen=True, kw_only=True):
    """One half's abort. ``same_host``: its stamps may be compared with the client's."""

    half: Half
    codes: AbortCodes
    same_host: bool


def taken_aborts(evidence: RunEvidence, request: Request) -> list[Taken]:
    """Aborts of one request on all workers, earliest first."""
    host = request.sent.host
    found = [
        Taken(
            half=half,
            codes=codes_of(half, abort),
            same_host=_is_on(host, str(abort.resource.get("host.id", host))),
        )
        for half in evidence.spans.halves.get(request.rid, ())
        for abort in half.aborts
    ]
    return sorted(found, key=lambda taken: taken.codes.received_ns or 0)


def _is_on(host: str, host_id: str) -> bool:
    """``host.id`` is the host's name, made unique by a suffix."""
    return host_id == host or host_id.startswith(f"{host}-")


def seen_after_ms(request: Request, taken: Taken) -> float | None:
    """From the client's act to this half's knowing of it; None if it knew of something else."""
    end, received_ns = request.end, taken.codes.received_ns
    if end is None or end.abort is None or received_ns is None or not taken.same_host:
        return None
    lag_ns = received_ns - end.abort.fired_ns
    if taken.codes.reason not in CLIENT_REASONS or lag_ns < -_CLOCK_GRAIN_NS:
        return None
    return max(lag_ns, 0) / 1e6


def released_after_ms(taken: Taken) -> float | None:
    received_ns, released_ns = taken.codes.received_ns, taken.codes.released_ns
    if not received_ns or not released_ns:
        return None
    return (released_ns - received_ns) / 1e6


def stage_seen(aborts: list[Taken]) -> str | None:
    """Decode's stage where it was decoding, else prefill's, else decode's."""
    by_role = {taken.half.role: taken.codes.stage for taken in reversed(aborts)}
    if by_role.get(DECODE) in DECODING:
        return by_role[DECODE]
    return by_role.get(PREFILL) or by_role.get(DECODE)


def slowest_seen_ms(evidence: RunEvidence) -> float:
    """The longest that any half took to know of a client's abort, in this run."""
    return max(
        (
            ms
            for request in evidence.requests
            for taken in taken_aborts(evidence, request)
            if (ms := seen_after_ms(request, taken)) is not None
        ),
        default=0.0,
    )


def abort_rows(evidence: RunEvidence) -> list[AbortRow]:
    return [_row(evidence, one) for one in evidence.requests if one.abort_kind is not None]


def _row(evidence: RunEvidence, request: Request) -> AbortRow:
    aborts = taken_aborts(evidence, request)
    seen = [ms for taken in aborts if (ms := seen_after_ms(request, taken)) is not None]
    released: dict[str, float] = {}
    for taken in aborts:
        ms = released_after_ms(taken)
        if ms is not None:
            released[taken.half.role] = max(ms, released.get(taken.half.role, 0.0))
    return AbortRow(
        rid=request.rid,
        kind=str(request.abort_kind),
        stage_seen=stage_seen(aborts),
        act_to_seen_ms=min(seen, default=None),
        received_to_released_ms=released,
        wasted_prefill_tokens=sum(taken.codes.wasted_prefill for taken in aborts),
        wasted_decode_tokens=sum(taken.codes.wasted_decode for taken in aborts),
        trace_id=request.sent.trace_id,
        reason=aborts[0].codes.reason if aborts else None,
    )

"""An end without a cause is illegal."""

from __future__ import annotations

import msgspec
import pytest

from engine.core.codes import AbortOrigin, AbortReason, AbortVia, Stage
from engine.core.io_struct import AbortInfo
from engine.simulator.clock import MS_NS
from engine.simulator.draw import Size, draw_schedule
from engine.simulator.history import HalfRecord, History
from engine.simulator.oracle.legal import LegalEnds
from engine.simulator.schedule import Half, Request, Topology

TOPOLOGY = msgspec.structs.replace(
    draw_schedule(0, Size()).topology,
    max_queued=0,
    waiting_timeout_ms=0,
    running_timeout_ms=0,
    page_size=4,
    prefill_pages=16,
    decode_pages=16,
)
REQUEST = Request(
    rid="a",
    room=7,
    at_ms=0,
    prefill=0,
    decode=0,
    num_tokens=8,
    max_new_tokens=4,
    half=Half.BOTH,
    lag_ms=0,
    aborts=(),
)


def judge(
    reason: AbortReason,
    *,
    topology: Topology = TOPOLOGY,
    request: Request = REQUEST,
    via: AbortVia = AbortVia.LOCAL,
    origin: AbortOrigin = AbortOrigin.SERVER,
    aborted_at: str = "",
    num_tokens: int = 0,
) -> str | None:
    """The verdict on decode's half, 500 ms after both halves came."""
    history = History(keeps_log=False)
    for name in ("p0", "d0"):
        half = HalfRecord(name, f"{name}.1", request, arrived_ns=MS_NS, accepted=True)
        half.abort_ns = 2 * MS_NS if name == aborted_at else 0
        half.tokens = [1] * num_tokens
        history.begin(half)
    abort = AbortInfo(
        reason=reason, origin=origin, via=via, stage=Stage.QUEUE, message="", received_ns=1
    )
    record = history.halves[("d0", "a", 7)]
    return LegalEnds(topology, history).whats_wrong(record, abort, 501 * MS_NS)


def test_client_aborts_need_a_client_at_the_half_that_decided() -> None:
    assert judge(AbortReason.CLIENT_ABORT, aborted_at="d0") is None
    assert judge(AbortReason.CLIENT_ABORT, aborted_at="p0") is not None
    assert judge(AbortReason.CLIENT_ABORT, aborted_at="p0", via=AbortVia.PEER) is None
    assert judge(AbortReason.CLIENT_DISCONNECT) is not None


@pytest.mark.parametrize(
    ("limit_ms", "num_tokens", "is_legal"), [(0, 0, False), (400, 0, True), (400, 1, False), (600, 0, False)]
)  # fmt: skip
def test_a_waiting_timeout_must_be_set_and_have_passed_while_it_waited(
    limit_ms: int, num_tokens: int, is_legal: bool
) -> None:
    topology = msgspec.structs.replace(TOPOLOGY, waiting_timeout_ms=limit_ms)
    wrong = judge(AbortReason.DEADLINE, topology=topology, num_tokens=num_tokens)
    assert (wrong is None) is is_legal


def test_a_clients_deadline_must_have_passed() -> None:
    early = msgspec.structs.replace(REQUEST, deadline_ms=501)
    late = msgspec.structs.replace(REQUEST, deadline_ms=500)
    client = AbortOrigin.CLIENT
    assert judge(AbortReason.DEADLINE, request=early, origin=client) is not None
    assert judge(AbortReason.DEADLINE, request=late, origin=client) is None


def test_limits_of_queue_and_pool() -> None:
    limited = msgspec.structs.replace(TOPOLOGY, max_queued=1)
    long = msgspec.structs.replace(REQUEST, num_tokens=61)
    assert judge(AbortReason.QUEUE_FULL) is not None
    assert judge(AbortReason.QUEUE_FULL, topology=limited) is None
    assert judge(AbortReason.INPUT_TOO_LONG) is not None
    assert judge(AbortReason.INPUT_TOO_LONG, request=long) is None


@pytest.mark.parametrize(
    "reason", [AbortReason.TRANSFER_FAILED, AbortReason.KV_EXHAUSTED, AbortReason.SHUTDOWN]
)
def test_what_nothing_can_cause(reason: AbortReason) -> None:
    assert judge(reason) is not None

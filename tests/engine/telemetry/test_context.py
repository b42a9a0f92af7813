"""``traceparent`` by the W3C rules, and trace ids from rooms."""

from __future__ import annotations

import pytest

from engine.telemetry.context import parse_traceparent, trace_id_of_room

TRACE = "0af7651916cd43dd8448eb211c80319c"
SPAN = "b7ad6b7169203331"


@pytest.mark.parametrize(
    "header",
    [f"00-{TRACE}-{SPAN}-01", f" 00-{TRACE}-{SPAN}-01 ", f"cc-{TRACE}-{SPAN}-01-later"],
)
def test_good_headers(header: str) -> None:
    parent = parse_traceparent(header)

    assert parent is not None
    assert (parent.trace_id, parent.span_id) == (int(TRACE, 16), int(SPAN, 16))
    assert parent.flags == 1


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "nonsense",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-01-more",
        f"00-{TRACE}-{SPAN}",
        f"00-{TRACE[:-1]}-{SPAN}-01",
    ],
)
def test_bad_headers_are_no_parent(header: str | None) -> None:
    assert parse_traceparent(header) is None


def test_a_room_gives_one_trace_id() -> None:
    assert trace_id_of_room(5) == trace_id_of_room(5)
    assert trace_id_of_room(5) != trace_id_of_room(6)
    assert 0 < trace_id_of_room(0) < 2**128

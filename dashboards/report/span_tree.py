"""Spans of one trace in the order of a waterfall: parents before children, each with its depth."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from dashboards.spans import Span

MAX_DEPTH = 12


class Placed(NamedTuple):
    """``orphan``: it names a parent that never arrived (a killed worker's last spans)."""

    span: Span
    depth: int
    orphan: bool


def place(spans: Sequence[Span]) -> list[Placed]:
    """Every span exactly once, also where parents are absent or form a ring."""
    known = {span.span_id for span in spans}
    children: dict[str, list[Span]] = defaultdict(list)
    tops = []
    for span in sorted(spans, key=lambda one: (one.start_ns, -one.end_ns)):
        if span.parent_span_id in known and span.parent_span_id != span.span_id:
            children[span.parent_span_id].append(span)
        else:
            tops.append(span)
    placed = [one for top in tops for one in _descend(top, children)]
    seen = {one.span.span_id for one in placed}
    ring = [Placed(span, 0, True) for span in spans if span.span_id not in seen]
    return placed + ring


def _descend(top: Span, children: dict[str, list[Span]]) -> Iterator[Placed]:
    """Depth first, without recursion: a hostile trace may be a chain of thousands."""
    waiting = [Placed(top, 0, bool(top.parent_span_id))]
    while waiting:
        current = waiting.pop()
        yield current
        depth = min(current.depth + 1, MAX_DEPTH)
        waiting.extend(
            Placed(child, depth, False) for child in reversed(children[current.span.span_id])
        )

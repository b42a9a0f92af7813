"""``--where key=value``: keep whole traces of which one span has all the values asked for."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable

import msgspec

from dashboards.errors import BadWhere, NothingMatched
from dashboards.spans import AttributeValue, Span

COLUMNS = ("rid", "trace_id", "service", "name")
MAX_NAMED = 8


class Condition(msgspec.Struct, frozen=True):
    key: str
    value: str

    def holds(self, span: Span) -> bool:
        return value_of(span, self.key) == self.value


def parse_where(text: str) -> Condition:
    """Raises `BadWhere` unless ``text`` is key=value."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise BadWhere(f"--where {text}: not key=value; for instance pd.abort.reason=peer_dead")
    return Condition(key.strip(), value.strip())


def value_of(span: Span, key: str) -> str | None:
    """The value of a key on one span, as text; None if the span has no such key."""
    match key:
        case "rid":
            return span.text("pd.rid")
        case "trace_id":
            return span.trace_id
        case "service":
            return span.service
        case "name":
            return span.name
        case _:
            value = span.attributes.get(key)
            return None if value is None else as_text(value)


def as_text(value: AttributeValue) -> str:
    """As JSON writes it, text without its quotes: true, 3, ["a","b"]."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def select(spans: Iterable[Span], conditions: tuple[Condition, ...]) -> list[Span]:
    """The traces that match. Raises `BadWhere` for an unknown key, `NothingMatched` if none does."""
    spans = list(spans)
    for condition in conditions:
        _require_key(spans, condition)
    kept = {span.trace_id for span in spans if all(one.holds(span) for one in conditions)}
    if not kept:
        raise NothingMatched(_explain(spans, conditions))
    return [span for span in spans if span.trace_id in kept]


def _require_key(spans: list[Span], condition: Condition) -> None:
    if any(value_of(span, condition.key) is not None for span in spans):
        return
    keys = sorted({key for span in spans for key in span.attributes} | set(COLUMNS))
    near = difflib.get_close_matches(condition.key, keys, n=3)
    hint = f"did you mean {' or '.join(near)}?" if near else f"there are: {', '.join(keys)}"
    raise BadWhere(f"--where {condition.key}: no span of this run has that key; {hint}")


def _explain(spans: list[Span], conditions: tuple[Condition, ...]) -> str:
    for condition in conditions:
        values = Counter(value_of(span, condition.key) or "" for span in spans)
        if condition.value not in values:
            values.pop("", None)
            named = ", ".join(value for value, _ in values.most_common(MAX_NAMED))
            more = ", ..." if len(values) > MAX_NAMED else ""
            return (
                f"--where {condition.key}={condition.value}: no span has this value;"
                f" its values here are: {named}{more}"
            )
    asked = " ".join(f"--where {one.key}={one.value}" for one in conditions)
    return f"{asked}: each value occurs, but no single span has them all; use fewer"

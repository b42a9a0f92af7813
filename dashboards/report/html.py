"""HTML from nested calls. Text is escaped unless it is `Markup`, so a forgotten escape is impossible."""

from __future__ import annotations

import html
from collections.abc import Iterable

import msgspec

_VOID = frozenset({"br", "input", "meta"})
_LINE_SEPARATORS = {"\u2028": "\\u2028", "\u2029": "\\u2029"}


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


Child = str | int | None
AttributeText = str | int | float | bool | None


def el(tag: str, *children: Child | Iterable[Child], **attributes: AttributeText) -> Markup:
    """An element. ``class_`` and ``data_x`` become class and data-x; None and False are left out."""
    head = f"<{tag}{''.join(_attribute(key, value) for key, value in attributes.items())}>"
    if tag in _VOID:
        return Markup(head)
    return Markup(f"{head}{join(*children)}</{tag}>")


def join(*children: Child | Iterable[Child]) -> Markup:
    """Children one after the other, escaped where they are plain text."""
    parts: list[str] = []
    for child in children:
        if child is None:
            continue
        if isinstance(child, str | int):
            parts.append(_escape(child))
        else:
            parts.extend(_escape(one) for one in child if one is not None)
    return Markup("".join(parts))


def script_data(element_id: str, data: object) -> Markup:
    """Data for the page's script, as JSON that no ``</script>`` inside can end."""
    text = msgspec.json.encode(data).decode().replace("<", "\\u003c")
    for character, escaped in _LINE_SEPARATORS.items():
        text = text.replace(character, escaped)
    return el("script", Markup(text), type="application/json", id=element_id)


def _escape(child: str | int) -> str:
    return child if isinstance(child, Markup) else html.escape(str(child))


def _attribute(key: str, value: AttributeText) -> str:
    if value is None or value is False:
        return ""
    name = key.rstrip("_").replace("_", "-")
    if value is True:
        return f" {name}"
    text = f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
    return f' {name}="{html.escape(text)}"'

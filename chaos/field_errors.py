"""Says what is wrong in a scenario file the way its author thinks: field, problem, what to use instead."""

from __future__ import annotations

import re
import types
import typing
from collections.abc import Iterator
from enum import Enum

import msgspec

from chaos.errors import ScenarioError
from chaos.spec import Scenario

_AT = re.compile(r"^(?P<text>.*?)(?: - at `\$\.?(?P<path>.*)`)?$", re.DOTALL)
_UNKNOWN_FIELD = re.compile(r"Object contains unknown field `(?P<name>.*)`")
_MISSING_FIELD = re.compile(r"Object missing required field `(?P<name>.*)`")
_PATTERN = re.compile(r"Expected `str` matching regex")


def explain(message: str, document: object) -> ScenarioError:
    """Turn msgspec's message into ``method[1].fault.mode: ..., use one of ...``."""
    match = _AT.match(message)
    text, path = (match["text"], match["path"] or "") if match else (message, "")
    kinds = _kinds_at(path, document)
    if unknown := _UNKNOWN_FIELD.match(text):
        field = f"{path}.{unknown['name']}".lstrip(".")
        return ScenarioError(field, f"unknown field, use one of {', '.join(_fields(kinds))}")
    if missing := _MISSING_FIELD.match(text):
        return ScenarioError(f"{path}.{missing['name']}".lstrip("."), "is required")
    if _PATTERN.match(text):
        return ScenarioError(path, f"has not the right form: {_form(path)}")
    choices = _choices(kinds, path)
    hint = f", use one of {', '.join(choices)}" if choices else ""
    return ScenarioError(path, f"{text[:1].lower()}{text[1:]}{hint}")


def _form(path: str) -> str:
    if path.endswith("worker"):
        return "a worker is p0, p1, ... or d0, d1, ..."
    if "links" in path or "bypass" in path:
        return "a link is KIND:PAIR, such as kv:*, control:p0-d0 or *:p0-d*"
    return "use lower-case letters, digits, dots and dashes"


def _kinds_at(path: str, document: object) -> tuple[object, ...]:
    """The types that a path such as ``method[1].fault.mode`` may hold, given what the file says."""
    kinds: tuple[object, ...] = (Scenario,)
    node = document
    for name, index in re.findall(r"([A-Za-z_]\w*)|\[(\d*|\.\.\.)\]", path):
        kinds = tuple(_members(kinds, name) if name else _elements(kinds))
        node = _child(node, name, index)
        kinds = _of_tag(kinds, node)
    return kinds


def _child(node: object, name: str, index: str) -> object:
    if isinstance(node, dict):
        return node.get(name)
    if isinstance(node, list) and index.isdigit() and int(index) < len(node):
        return node[int(index)]
    return None


def _of_tag(kinds: tuple[object, ...], node: object) -> tuple[object, ...]:
    """Of a tagged union, the one that the file chose (all of them if it chose none)."""
    if not isinstance(node, dict):
        return kinds
    chosen = tuple(
        kind
        for kind in kinds
        if isinstance(kind, type)
        and issubclass(kind, msgspec.Struct)
        and kind.__struct_config__.tag_field
        and node.get(kind.__struct_config__.tag_field) == kind.__struct_config__.tag
    )
    return chosen or kinds


def _unfold(kind: object) -> Iterator[object]:
    origin = typing.get_origin(kind)
    if origin is typing.Annotated:
        yield from _unfold(typing.get_args(kind)[0])
    elif origin in (typing.Union, types.UnionType):
        for option in typing.get_args(kind):
            yield from _unfold(option)
    else:
        yield kind


def _members(kinds: tuple[object, ...], name: str) -> Iterator[object]:
    for kind in kinds:
        if not (isinstance(kind, type) and issubclass(kind, msgspec.Struct)):
            continue
        config = kind.__struct_config__
        if name == config.tag_field:
            yield kind
        for field in msgspec.structs.fields(kind):
            if field.encode_name == name:
                yield from _unfold(field.type)


def _elements(kinds: tuple[object, ...]) -> Iterator[object]:
    for kind in kinds:
        if typing.get_origin(kind) is tuple:
            yield from _unfold(typing.get_args(kind)[0])


def _fields(kinds: tuple[object, ...]) -> list[str]:
    structs = [k for k in kinds if isinstance(k, type) and issubclass(k, msgspec.Struct)]
    tags = [k.__struct_config__.tag_field for k in structs]
    names = [field.encode_name for k in structs for field in msgspec.structs.fields(k)]
    return list(dict.fromkeys([tag for tag in tags if tag] + names))


def _choices(kinds: tuple[object, ...], path: str) -> list[str]:
    found: list[str] = []
    for kind in kinds:
        if isinstance(kind, type) and issubclass(kind, Enum):
            found += [str(member.value) for member in kind]
        elif typing.get_origin(kind) is typing.Literal:
            found += [str(value) for value in typing.get_args(kind)]
        elif isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            config = kind.__struct_config__
            if config.tag_field and path.endswith(config.tag_field):
                found.append(str(config.tag))
    return found

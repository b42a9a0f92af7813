"""The JSON Schema of scenario files, for editors and other tools; made from the structs of `chaos.spec`."""

from __future__ import annotations

import msgspec

from chaos.spec import SCHEMA, Scenario

_VARIABLE = {"type": "string", "pattern": r"^\$\{[A-Za-z_][A-Za-z0-9_]*\}$"}
_PLAIN = ("number", "integer", "boolean")

Node = dict[str, object]


def scenario_schema() -> bytes:
    """JSON, indented, ending in a newline. Wherever a file may hold a number it may name a variable."""
    schema: Node = msgspec.json.schema(Scenario)
    document: Node = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Severance scenario",
        "description": f"A file of schema {SCHEMA}.",
    }
    document |= {key: _with_variables(value) for key, value in schema.items()}
    return msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"


def _with_variables(node: object) -> object:
    if isinstance(node, list):
        return [_with_variables(item) for item in node]
    if not isinstance(node, dict):
        return node
    children = {key: _with_variables(value) for key, value in node.items()}
    return {"anyOf": [children, _VARIABLE]} if _takes_variable(children) else children


def _takes_variable(node: Node) -> bool:
    """A number, a switch or a choice; a text takes a reference as it is, unless a pattern forbids it."""
    kind = node.get("type")
    choices = node.get("enum")
    is_choice = isinstance(choices, list) and len(choices) > 1  # a tag has one
    return kind in _PLAIN or is_choice or (kind == "string" and "pattern" in node)

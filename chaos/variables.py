"""Variables of a scenario file: ``variables: {cut_s: 3}`` and ``for_s: ${cut_s}``, replaced at reading.

A value that is one reference alone takes the variable's own type; within a text it is inserted.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import yaml

from chaos.errors import ScenarioError, UsageError

Scalar = str | int | float | bool
REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


def parse_settings(settings: Sequence[str]) -> dict[str, Scalar]:
    """``NAME=VALUE`` of the command line; a value is read as YAML would. Raises `UsageError`."""
    found: dict[str, Scalar] = {}
    for setting in settings:
        name, equals, text = setting.partition("=")
        try:
            value = yaml.safe_load(text)
        except yaml.YAMLError:
            value = text
        if not equals or not name or not isinstance(value, Scalar):
            raise UsageError(f"--set {setting}: give NAME=VALUE, for example --set cut_s=2")
        found[name] = value
    return found


def declared(document: Mapping[str, object], settings: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """The file's variables, with those of the command line in their place. Raises `ScenarioError`."""
    own = document.get("variables", {})
    if not isinstance(own, dict):
        raise ScenarioError("variables", "must be a mapping of names to values")
    for name, value in own.items():
        if not isinstance(name, str) or not REFERENCE.fullmatch(f"${{{name}}}"):
            raise ScenarioError(f"variables.{name}", "use letters, digits and underscores")
        if not isinstance(value, Scalar):
            raise ScenarioError(f"variables.{name}", "must be a number, a text, true or false")
    for name in settings:
        if name not in own:
            known = ", ".join(own) or "none"
            raise UsageError(f"--set {name}: the scenario has no such variable, it has: {known}")
    return {**own, **settings}


def substitute(node: object, variables: Mapping[str, Scalar], field: str = "") -> object:
    """``node`` with every reference replaced; ``field`` names where it is, for the error."""
    if isinstance(node, dict):
        return {
            key: substitute(value, variables, f"{field}.{key}".lstrip("."))
            for key, value in node.items()
        }
    if isinstance(node, list):
        return [substitute(value, variables, f"{field}[{i}]") for i, value in enumerate(node)]
    return _replace(node, variables, field) if isinstance(node, str) else node


def _replace(text: str, variables: Mapping[str, Scalar], field: str) -> Scalar:
    for name in REFERENCE.findall(text):
        if name not in variables:
            known = ", ".join(variables) or "none; declare it under variables:"
            raise ScenarioError(field, f"unknown variable {name}, the file has: {known}")
    whole = REFERENCE.fullmatch(text)
    if whole:
        return variables[whole[1]]
    return REFERENCE.sub(lambda match: str(variables[match[1]]), text)

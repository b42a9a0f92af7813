"""Reads, checks and writes scenario files (`chaos.spec`). Every error names the field."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec
import yaml

from chaos.draw import draw_method
from chaos.errors import ScenarioError
from chaos.fault_spec import ProcessFaultSpec, TelemetryFaultSpec
from chaos.field_errors import explain
from chaos.links import matches, pair_names
from chaos.spec import DeploymentSpec, Scenario, Step
from chaos.variables import Scalar, declared, substitute

__all__ = ["Scenario", "dump_scenario", "load_scenario", "worker_names"]


def load_scenario(
    path: Path, seed: int | None = None, settings: Mapping[str, Scalar] | None = None
) -> Scenario:
    """Read and check one file; ``seed`` and ``settings`` replace the file's seed and variables.

    Raises `ScenarioError` (the file is wrong) or `UsageError` (a setting for no variable).
    """
    document = _resolve(_read(path), settings or {})
    if seed is not None:
        document["seed"] = seed
    try:
        scenario = msgspec.convert(document, Scenario)
    except msgspec.ValidationError as error:
        raise explain(str(error), document) from error
    scenario = _with_drawn_method(scenario)
    _check(scenario)
    return scenario


def _with_drawn_method(scenario: Scenario) -> Scenario:
    """What was drawn replaces ``draw``, so that the resolved file says it and draws no second time."""
    if scenario.draw is None:
        return scenario
    if scenario.method:
        raise ScenarioError("draw", "cannot stand beside method; keep one of them")
    method = draw_method(scenario, scenario.draw, *worker_names(scenario.deployment))
    return msgspec.structs.replace(scenario, method=method, draw=None)


def _read(path: Path) -> dict[str, object]:
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ScenarioError("", f"cannot read {path}: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ScenarioError("", f"{path} is not YAML: {error}") from error
    if not isinstance(document, dict):
        raise ScenarioError(
            "", f"{path} holds no scenario; it must be a mapping that begins with name:"
        )
    return document


def _resolve(document: dict[str, object], settings: Mapping[str, Scalar]) -> dict[str, object]:
    """The document with its variables put in; they stay in it, for the record."""
    variables = declared(document, settings)
    resolved = {
        key: value if key == "variables" else substitute(value, variables, str(key))
        for key, value in document.items()
    }
    return resolved | {"variables": variables} if variables else resolved


def dump_scenario(scenario: Scenario, path: Path) -> None:
    """Write every field, defaults too, so that the run says what it really ran."""
    plain = msgspec.to_builtins(scenario, str_keys=True)
    path.write_text(yaml.safe_dump(plain, sort_keys=False, width=100), encoding="utf-8")


def worker_names(deployment: DeploymentSpec) -> tuple[list[str], list[str]]:
    """Names of the prefill and of the decode workers."""
    return (
        [f"p{i}" for i in range(deployment.prefill)],
        [f"d{i}" for i in range(deployment.decode)],
    )


def _check(scenario: Scenario) -> None:
    """Rules that need more than one field."""
    load, worker = scenario.load, scenario.deployment.worker
    if load.prompts.isl_min > load.prompts.isl_max:
        raise ScenarioError("load.prompts.isl_min", "is larger than load.prompts.isl_max")
    if not load.prompts.isl_min <= load.prompts.isl_mean <= load.prompts.isl_max:
        raise ScenarioError("load.prompts.isl_mean", "must lie between isl_min and isl_max")
    if load.osl.min > load.osl.max:
        raise ScenarioError("load.osl.min", "is larger than load.osl.max")
    router = scenario.deployment.router
    if scenario.expect.report_only and not (router.retries or router.circuit_breaker):
        raise ScenarioError(
            "expect.report_only",
            "is for a router with retries or circuit_breaker; judge the workers",
        )
    longest = load.prompts.isl_max + load.osl.max
    if longest > worker.max_total_tokens:
        raise ScenarioError(
            "deployment.worker.max_total_tokens",
            f"is {worker.max_total_tokens}, but a request may need {longest} (isl_max + osl.max)",
        )
    for index, mix in enumerate(load.aborts.mix):
        if (mix.after_ms is None) == (mix.after_tokens is None):
            raise ScenarioError(
                f"load.aborts.mix[{index}]", "needs exactly one of after_ms and after_tokens"
            )
        if mix.at != "all" and mix.kind != "rid":
            raise ScenarioError(f"load.aborts.mix[{index}].at", "is for kind rid only")
        if mix.kind == "deadline" and mix.after_ms is None:
            raise ScenarioError(f"load.aborts.mix[{index}].after_ms", "is required for a deadline")
    for index, step in enumerate(scenario.method):
        _check_step(scenario, index, step)


def _check_step(scenario: Scenario, index: int, step: Step) -> None:
    fault, where = step.fault, f"method[{index}]"
    ends_s = step.at_s + fault.hold_s
    if ends_s > scenario.load.duration_s:
        raise ScenarioError(
            f"{where}.at_s",
            f"the fault ends at {ends_s:g} s, after the load "
            f"(load.duration_s is {scenario.load.duration_s:g})",
        )
    if index:
        before = scenario.method[index - 1]
        free_s = before.at_s + before.fault.hold_s
        if step.at_s < free_s:
            raise ScenarioError(
                f"{where}.at_s",
                f"begins before method[{index - 1}] ends ({free_s:g} s); "
                "these two faults cannot be on together",
            )
    prefill, decode = worker_names(scenario.deployment)
    if isinstance(fault, ProcessFaultSpec):
        if fault.worker not in prefill + decode:
            known = ", ".join(prefill + decode)
            raise ScenarioError(
                f"{where}.fault.worker",
                f"this deployment has no worker {fault.worker}, use one of {known}",
            )
        return
    if isinstance(fault, TelemetryFaultSpec):
        return
    names = pair_names(prefill, decode)
    for position, pattern in enumerate(fault.links):
        if not any(matches(pattern, name) for name in names):
            known = ", ".join(map(str, names))
            raise ScenarioError(
                f"{where}.fault.links[{position}]",
                f"{pattern} matches no link of this deployment, use one of {known}",
            )

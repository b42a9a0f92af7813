"""Whether a scenario can be made against a target: said before anything happens."""

from __future__ import annotations

import msgspec

from chaos.codes import ProcessMode
from chaos.fault_spec import LinkFaultSpec, ProcessFaultSpec, TelemetryFaultSpec
from chaos.links import matches_any
from chaos.spec import (
    KvExhaustion,
    Residue,
    Scenario,
    Step,
)
from chaos.target import Target, link_name


def unsupported(scenario: Scenario, target: Target) -> list[str]:
    """One line for each thing of the scenario that this target has no way to do; empty if it fits."""
    problems = []
    if not target.knows.speaks_generate:
        problems.append(
            f"load: the driver speaks SGLang's /generate, which {target.preset} does not"
        )
    kinds = {mix.kind for mix in scenario.load.aborts.mix if scenario.load.aborts.share}
    if "rid" in kinds and target.knows.abort_path is None:
        problems.append(
            f"load.aborts: {target.preset} has no abort by rid; use disconnect, deadline"
        )
    for index, step in enumerate(scenario.method):
        problem = _step(step, target)
        if problem:
            problems.append(f"method[{index}]: {step.fault.mode}: {problem}")
    for guard in scenario.guards:
        if isinstance(guard, KvExhaustion | Residue) and not target.knows.has_ledger:
            kind = guard.__struct_config__.tag
            problems.append(f"guards: {kind} looks at ledgers, which this target has not")
    return problems


def fitted(scenario: Scenario, target: Target) -> Scenario:
    """The same with the workers that are really there, so that the record tells no tales."""
    counts = {role: max(1, len(target.named(role))) for role in ("prefill", "decode")}
    deployment = msgspec.structs.replace(
        scenario.deployment, **counts, bypass=(), ready_within_s=target.ready_within_s
    )
    return msgspec.structs.replace(scenario, deployment=deployment)


def _step(step: Step, target: Target) -> str:
    fault = step.fault
    if isinstance(fault, LinkFaultSpec):
        names = [link.name for link in target.links]
        if any(matches_any(fault.links, link_name(name)) for name in names):
            return ""
        return f"no link of the target matches {', '.join(fault.links)}; it has {_list(names)}"
    if isinstance(fault, TelemetryFaultSpec):
        return "the span store of a target is not ours to stop"
    return _process(fault, target)


def _process(fault: ProcessFaultSpec, target: Target) -> str:
    worker = next((one for one in target.workers if one.name == fault.worker), None)
    if worker is None:
        return f"no worker {fault.worker}; it has {_list([one.name for one in target.workers])}"
    if fault.mode is ProcessMode.KILL:
        return "" if worker.kill else f"{worker.name} has no kill and restart command"
    if fault.mode in (ProcessMode.PAUSE, ProcessMode.SLOW):
        return "" if worker.pausable else f"{worker.name} is not pausable"
    return "a target has no command that stops a worker gently"


def _list(names: list[str]) -> str:
    return ", ".join(names) or "none"

"""What a scenario would do, as text: for `severance run --dry-run` and `severance list`. Starts nothing."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from chaos.fault_spec import LinkFaultSpec, ProcessFaultSpec
from chaos.links import matches, pair_names
from chaos.scenario import worker_names
from chaos.spec import Scenario, Step

_SETUP_S = 12.0
_CONTROL_S = 8.0


def preview(scenario: Scenario) -> Iterator[str]:
    """Lines: deployment, load, time line of the faults, guards, what is expected, how long it takes."""
    yield f"{scenario.name}: {summary(scenario)}"
    yield from _deployment(scenario)
    yield from _load(scenario)
    yield "time line (seconds of load)"
    yield f"  {0:6.1f}  load begins"
    for step in scenario.method:
        yield from _fault(scenario, step)
    yield f"  {scenario.load.duration_s:6.1f}  load ends"
    for guard in scenario.guards:
        yield f"guard     {_fields(guard)}"
    yield f"expect    {_fields(scenario.expect)}"
    yield f"takes     about {about_s(scenario):.0f} s, at most {at_most_s(scenario):.0f} s"


def summary(scenario: Scenario) -> str:
    """The first sentence of its description."""
    text = " ".join(scenario.description.split())
    return text.split(". ")[0].rstrip(".") if text else "no description"


def about_s(scenario: Scenario) -> float:
    """Wall seconds that a run takes on a quiet machine."""
    control_s = _CONTROL_S if scenario.expect.control_requests else 0.0
    return _SETUP_S + scenario.load.warmup_s + scenario.load.duration_s + control_s


def at_most_s(scenario: Scenario) -> float:
    """Wall seconds after which every wait of a run has ended."""
    expect = scenario.expect
    waits_s = scenario.deployment.ready_within_s + expect.drain_within_s + expect.probe_within_s
    steady_s = scenario.steady_state.within_s * len(scenario.method)
    return about_s(scenario) + waits_s + steady_s + scenario.load.request_timeout_s


def _deployment(scenario: Scenario) -> Iterator[str]:
    prefill, decode = worker_names(scenario.deployment)
    links = pair_names(prefill, decode)
    yield f"workers   prefill {', '.join(prefill)}; decode {', '.join(decode)}; router in front"
    yield f"links     {', '.join(map(str, links))}"


def _load(scenario: Scenario) -> Iterator[str]:
    load = scenario.load
    rate = f"{load.capacity_share:.0%} of the measured capacity"
    if load.max_request_rate is not None:
        rate += f", at most {load.max_request_rate:g} requests/s"
    yield f"load      {load.duration_s:g} s, {load.arrival.pattern}, {rate}, seed {scenario.seed}"
    yield (
        f"prompts   {load.prompts.isl_min}-{load.prompts.isl_max} tokens (mean {load.prompts.isl_mean}), "
        f"answers {load.osl.min}-{load.osl.max}; {load.aborts.share:.0%} of the requests are aborted"
    )


def _fault(scenario: Scenario, step: Step) -> Iterator[str]:
    fault = step.fault
    if isinstance(fault, LinkFaultSpec):
        names = pair_names(*worker_names(scenario.deployment))
        on = [str(name) for name in names if any(matches(p, name) for p in fault.links)]
        target = ", ".join(on)
    elif isinstance(fault, ProcessFaultSpec):
        target = fault.worker
    else:
        target = "the span store"
    yield f"  {step.at_s:6.1f}  {fault.mode} {target}"
    yield f"  {step.at_s + fault.hold_s:6.1f}  healed"


def _fields(part: msgspec.Struct) -> str:
    """``kind older_than_s=20``; what is left at zero asks for nothing."""
    tag = part.__struct_config__.tag
    values = msgspec.structs.asdict(part).items()
    return " ".join(
        [str(tag)] * bool(tag) + [f"{key}={_text(value)}" for key, value in values if value]
    )


def _text(value: float | str | tuple[str, ...]) -> str:
    if isinstance(value, tuple):
        return ",".join(value)
    return value if isinstance(value, str) else f"{value:g}"

"""From a line of a scenario's method to a fault that acts on a deployment."""

from __future__ import annotations

from chaos.codes import ProcessMode
from chaos.deployment import Deployment
from chaos.fault_spec import FaultSpec, LinkFaultSpec, ProcessFaultSpec, TelemetryFaultSpec
from chaos.faults.base import Fault
from chaos.faults.collector import CollectorFault
from chaos.faults.cuts import cut_links
from chaos.faults.kill import KillFault
from chaos.faults.pause import PauseFault
from chaos.faults.restart import RestartFault
from chaos.faults.slow import SlowFault
from chaos.links import matches_any


def build_fault(spec: FaultSpec, deployment: Deployment) -> Fault:
    """The scenario was checked: the worker exists and the patterns match."""
    if isinstance(spec, LinkFaultSpec):
        links = [link for link in deployment.links if matches_any(spec.links, link.name)]
        return cut_links(spec, deployment.toxiproxy, links)
    if isinstance(spec, TelemetryFaultSpec):
        return CollectorFault(deployment, spec.mode, spec.for_s)
    return _process_fault(spec, deployment)


def _process_fault(spec: ProcessFaultSpec, deployment: Deployment) -> Fault:
    if spec.mode is ProcessMode.PAUSE:
        return PauseFault(deployment, spec.worker, spec.hold_s)
    if spec.mode is ProcessMode.SLOW:
        return SlowFault(deployment, spec.worker, spec.hold_s, spec.cpu_share or 0.5)
    if spec.mode is ProcessMode.RESTART:
        return RestartFault(deployment, spec.worker, spec.restart_after_s)
    return KillFault(deployment, spec.worker, spec.restart_after_s)

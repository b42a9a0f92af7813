"""From a line of a scenario's method to a fault that acts on a deployment."""

from __future__ import annotations

from chaos.deployment import Deployment
from chaos.faults.base import Fault
from chaos.faults.cuts import cut_links
from chaos.faults.kill import KillFault
from chaos.links import matches_any
from chaos.spec import FaultSpec, LinkFaultSpec, ProcessFaultSpec


def build_fault(spec: FaultSpec, deployment: Deployment) -> Fault:
    """The scenario was checked: the worker exists and the patterns match."""
    if isinstance(spec, LinkFaultSpec):
        links = [link for link in deployment.links if matches_any(spec.links, link.name)]
        return cut_links(spec, deployment.toxiproxy, links)
    assert isinstance(spec, ProcessFaultSpec)
    return KillFault(deployment, spec.worker, spec.restart_after_s)

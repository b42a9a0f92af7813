"""From a line of a scenario's method to a fault that acts on a deployment."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from chaos.codes import CutMode
from chaos.deployment import Deployment
from chaos.faults.base import Fault
from chaos.faults.blackhole import blackhole
from chaos.faults.kill import KillFault
from chaos.faults.link import LinkFault
from chaos.faults.stall import stall
from chaos.links import Link, matches_any
from chaos.spec import FaultSpec, ProcessFaultSpec
from chaos.toxiproxy.server import ToxiproxyServer

_CUTS: dict[CutMode, Callable[[ToxiproxyServer, Sequence[Link], float], LinkFault]] = {
    CutMode.STALL: stall,
    CutMode.BLACKHOLE: blackhole,
}


def build_fault(spec: FaultSpec, deployment: Deployment) -> Fault:
    """The scenario was checked: the worker exists and the patterns match."""
    if isinstance(spec, ProcessFaultSpec):
        return KillFault(deployment, spec.worker, spec.restart_after_s)
    links = [link for link in deployment.links if matches_any(spec.links, link.name)]
    return _CUTS[spec.mode](deployment.toxiproxy, links, spec.for_s)

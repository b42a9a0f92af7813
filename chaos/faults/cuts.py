"""From a line of a scenario's method to the fault that cuts its links."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from chaos.codes import CutMode
from chaos.fault_spec import LinkFaultSpec
from chaos.faults.blackhole import blackhole_cut
from chaos.faults.cut import Cut
from chaos.faults.cut_after import cut_after_cut
from chaos.faults.flap import FlapFault
from chaos.faults.latency import latency_cut
from chaos.faults.link import LinkFault
from chaos.faults.one_way import one_way_cut
from chaos.faults.refuse import refuse_cut
from chaos.faults.reset import reset_cut
from chaos.faults.stall import stall_cut
from chaos.faults.trickle import trickle_cut
from chaos.links import Link
from chaos.toxiproxy.server import ToxiproxyServer

_CUTS: dict[CutMode, Callable[[LinkFaultSpec], Cut]] = {
    CutMode.STALL: lambda spec: stall_cut(spec.direction),
    CutMode.BLACKHOLE: lambda spec: blackhole_cut(spec.direction),
    CutMode.REFUSE: lambda _: refuse_cut(),
    CutMode.RESET: lambda spec: reset_cut(spec.direction),
    CutMode.ONE_WAY: lambda spec: one_way_cut(spec.direction, spec.of or CutMode.STALL),
    CutMode.TRICKLE: lambda spec: trickle_cut(spec.rate_kb_s or 1, spec.direction),
    CutMode.LATENCY: lambda spec: latency_cut(
        spec.latency_ms or 1, spec.jitter_ms or 0, spec.direction
    ),
    CutMode.CUT_AFTER: lambda spec: cut_after_cut(spec.after_bytes or 1, spec.direction),
}
_FLAPPING: dict[CutMode, Callable[[], Cut]] = {
    CutMode.STALL: stall_cut,
    CutMode.BLACKHOLE: blackhole_cut,
    CutMode.REFUSE: refuse_cut,
}


def cut_links(spec: LinkFaultSpec, server: ToxiproxyServer, links: Sequence[Link]) -> LinkFault:
    """The fault of one line of a method, on links that its patterns matched."""
    if spec.mode is not CutMode.FLAP:
        return LinkFault(_CUTS[spec.mode](spec), server, links, spec.for_s)
    of = spec.of or CutMode.STALL
    return FlapFault(
        of, _FLAPPING[of](), server, links, spec.for_s, spec.period_s or 1.0, spec.duty or 0.5
    )

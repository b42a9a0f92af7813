"""Whether a link's real traffic is inside its proxy, seen in the kernel's tables and the proxy's log."""

from __future__ import annotations

from msgspec import Struct

from chaos import proc
from chaos.codes import LinkKind
from chaos.links import Link
from chaos.toxiproxy.server import ToxiproxyServer


class Traffic(Struct, frozen=True, kw_only=True):
    """``inside``: connections of workers that the proxy holds. ``around``: connections to the link's far
    end that the proxy does not hold. ``visits``: connections that it ever took in, of workers."""

    inside: frozenset[str]
    around: int
    visits: int


def look(server: ToxiproxyServer, link: Link) -> Traffic:
    """A look at one link; about a millisecond."""
    pid = server.pid
    if pid is None:
        return Traffic(inside=frozenset(), around=0, visits=0)
    around = proc.strangers_to(pid, link.upstream)
    if around:
        around &= proc.strangers_to(pid, link.upstream)
    return Traffic(
        inside=proc.clients_of(pid, link.listen),
        around=len(around),
        visits=server.num_visits(link),
    )


def in_use(link: Link, *looks: Traffic) -> bool:
    """zmq peers stay connected; the rendezvous is a visit now and then."""
    if any(traffic.inside for traffic in looks):
        return True
    return link.name.kind is LinkKind.BOOTSTRAP and any(traffic.visits > 0 for traffic in looks)

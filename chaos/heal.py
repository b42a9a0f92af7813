"""The heal ladder for cut links. Every rung is bounded, timed and verified by reading the server back.

::

    1  open, then remove the toxics; enable   milliseconds; hangs on a back-pressured link
    2  delete and re-create the proxy         works while rung 1 hangs; cuts the link's connections
    3  SIGKILL the server, respawn, populate  always works; cuts every link
    4  say what is left

A port that somebody else took is left to them: no rung can give it back, and rung 3 would cut all links
for nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from msgspec import Struct

from chaos import proc
from chaos.codes import HealRung
from chaos.errors import ChaosError
from chaos.faults.declaration import HealReport, RungReport
from chaos.links import Link
from chaos.parallel import parallel
from chaos.toxiproxy.clean import clean_proxy, is_clean, recreate_proxy
from chaos.toxiproxy.emergency import EmergencyClient
from chaos.toxiproxy.server import ToxiproxyServer, proxy_spec

Rung = Callable[[Sequence[Link]], tuple[list[Link], str]]
"""Climb with the links that are still cut; returns those that still are, and why."""


class Pace(Struct, frozen=True, kw_only=True):
    """How long one call of a rung may take before the next rung is climbed."""

    remove_s: float
    recreate_s: float


PATIENT = Pace(remove_s=1.0, recreate_s=1.0)
"""At a fault's own end: rung 2 would cut connections that a heal is to leave alone."""
URGENT = Pace(remove_s=0.08, recreate_s=0.05)
"""When the run is halted: the last toxic is gone within 250 ms, whatever hangs."""


def heal_links(server: ToxiproxyServer, links: Sequence[Link], pace: Pace = PATIENT) -> HealReport:
    """Free ``links`` of toxics, with the mildest means that works. Idempotent; never raises."""
    begun = time.monotonic()
    killed: list[float] = []
    ladder: tuple[tuple[HealRung, Rung], ...] = (
        (HealRung.REMOVE_TOXICS, _each(server.emergency.within(pace.remove_s), _remove)),
        (HealRung.RECREATE_PROXY, _each(server.emergency.within(pace.recreate_s), _recreate)),
        (HealRung.RESPAWN_SERVER, lambda _: _respawn(server, links, killed)),
    )
    reports: list[RungReport] = []
    left: list[Link] = list(links)
    for rung, climb in ladder:
        if rung is HealRung.RESPAWN_SERVER and all(thief_of(server, link) for link in left):
            break
        at = time.monotonic()
        left, detail = climb(left)
        ms = (time.monotonic() - at) * 1000
        reports.append(RungReport(rung=rung, ms=ms, ok=not left, detail=detail))
        if not left:
            break
    return HealReport(
        rung=reports[-1].rung if not left else HealRung.NONE,
        ms=(time.monotonic() - begun) * 1000,
        rungs=tuple(reports),
        left=tuple(_complaint(server, link) for link in left),
        detail="; ".join(_in_words(report) for report in reports),
        gone_ms=(killed[0] - begun) * 1000 if killed else None,
    )


def unhealed(server: ToxiproxyServer, links: Sequence[Link]) -> list[Link]:
    """Links whose proxy is absent, down, elsewhere or toxic, or about which the server is silent."""
    clean = parallel(links, lambda link: _is_clean(server.emergency, link))
    return [link for link, verdict in zip(links, clean, strict=True) if not verdict]


def thief_of(server: ToxiproxyServer, link: Link) -> int | None:
    """Who else listens on the link's port; None if nobody does, or the server itself."""
    owner = proc.owner_of_port(link.listen.port)
    return owner if owner != server.pid else None


def _complaint(server: ToxiproxyServer, link: Link) -> str:
    thief = thief_of(server, link)
    if thief is None:
        return f"proxy {link} is not clean"
    return f"proxy {link} is not clean: its port {link.listen.port} was taken by pid {thief}"


def _in_words(report: RungReport) -> str:
    return f"{report.rung} {report.ms:.0f} ms" + (f" ({report.detail})" if report.detail else "")


def _each(client: EmergencyClient, act: Callable[[EmergencyClient, Link], None]) -> Rung:
    """Act on all links at once and verify each; a link whose call failed is left without asking again."""

    def attempt(link: Link) -> str:
        try:
            act(client, link)
        except ChaosError as error:
            return str(error).splitlines()[0]
        return "" if _is_clean(client, link) else f"{link} is still not clean"

    def climb(links: Sequence[Link]) -> tuple[list[Link], str]:
        problems = parallel(links, attempt)
        left = [link for link, problem in zip(links, problems, strict=True) if problem]
        return left, next((problem for problem in problems if problem), "")

    return climb


def _respawn(
    server: ToxiproxyServer, links: Sequence[Link], killed: list[float]
) -> tuple[list[Link], str]:
    """The new server may lack links that were clean before, so all are verified. ``killed``: takes the
    time at which no toxic was left."""
    try:
        server.end()
        killed.append(time.monotonic())
        server.respawn()
    except ChaosError as error:
        return unhealed(server, links), str(error).splitlines()[0]
    return unhealed(server, links), ""


def _remove(client: EmergencyClient, link: Link) -> None:
    clean_proxy(client, link.proxy)


def _recreate(client: EmergencyClient, link: Link) -> None:
    recreate_proxy(client, proxy_spec(link))


def _is_clean(client: EmergencyClient, link: Link) -> bool:
    try:
        return is_clean(client.proxy(link.proxy), proxy_spec(link))
    except ChaosError:
        return False

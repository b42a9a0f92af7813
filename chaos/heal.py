"""The heal ladder for cut links. Every rung is bounded, timed and verified by reading the server back.

::

    1  open, then remove the toxics           milliseconds; hangs on a back-pressured link
    2  delete and re-create the proxy         works while rung 1 hangs; cuts the link's connections
    3  SIGKILL the server, respawn, populate  always works; cuts every link
    4  say what is left
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from chaos.codes import HealRung
from chaos.errors import ChaosError
from chaos.faults.declaration import HealReport, RungReport
from chaos.links import Link
from chaos.toxiproxy.emergency import EmergencyClient
from chaos.toxiproxy.server import ToxiproxyServer, proxy_spec

_OPEN = {"bandwidth": {"rate": 10_000_000}, "latency": {"latency": 0, "jitter": 0}}
"""Attributes with which a toxic that holds bytes lets them all through."""
_FLUSH_S = 0.02
T = TypeVar("T")
Rung = Callable[[Sequence[Link]], tuple[list[Link], str]]
"""Climb with the links that are still cut; returns those that still are, and why."""


def heal_links(server: ToxiproxyServer, links: Sequence[Link]) -> HealReport:
    """Free ``links`` of toxics, with the mildest means that works. Idempotent; never raises."""
    begun = time.monotonic()
    ladder: tuple[tuple[HealRung, Rung], ...] = (
        (HealRung.REMOVE_TOXICS, _each(server, _remove_toxics)),
        (HealRung.RECREATE_PROXY, _each(server, _recreate)),
        (HealRung.RESPAWN_SERVER, lambda _: _respawn(server, links)),
    )
    reports: list[RungReport] = []
    left: list[Link] = list(links)
    for rung, climb in ladder:
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
        left=tuple(f"proxy {link} is not clean" for link in left),
        detail="; ".join(_in_words(report) for report in reports),
    )


def unhealed(server: ToxiproxyServer, links: Sequence[Link]) -> list[Link]:
    """Links whose proxy is absent, down, elsewhere or toxic, or about which the server is silent."""
    clean = _parallel(links, lambda link: _is_clean(server.emergency, link))
    return [link for link, verdict in zip(links, clean, strict=True) if not verdict]


def _in_words(report: RungReport) -> str:
    return f"{report.rung} {report.ms:.0f} ms" + (f" ({report.detail})" if report.detail else "")


def _each(server: ToxiproxyServer, act: Callable[[EmergencyClient, Link], None]) -> Rung:
    """Act on all links at once and verify each; a link whose call failed is left without asking again."""

    def attempt(link: Link) -> str:
        try:
            act(server.emergency, link)
        except ChaosError as error:
            return str(error).splitlines()[0]
        return "" if _is_clean(server.emergency, link) else f"{link} is still not clean"

    def climb(links: Sequence[Link]) -> tuple[list[Link], str]:
        problems = _parallel(links, attempt)
        left = [link for link, problem in zip(links, problems, strict=True) if problem]
        return left, next((problem for problem in problems if problem), "")

    return climb


def _respawn(server: ToxiproxyServer, links: Sequence[Link]) -> tuple[list[Link], str]:
    """The new server may lack links that were clean before, so all are verified."""
    try:
        server.respawn()
    except ChaosError as error:
        return unhealed(server, links), str(error).splitlines()[0]
    return unhealed(server, links), ""


def _remove_toxics(client: EmergencyClient, link: Link) -> None:
    """Open every toxic that holds bytes, let them out, then remove.

    Removing at once hangs for ever if a peer closed its connection meanwhile and more than one chunk waits
    for it: the server writes to nobody while it holds the lock (measured; liveness by beats makes this
    the usual case). Opened, the dead connection fails by itself and leaves; live ones lose nothing.
    """
    toxics = client.proxy(link.proxy).toxics
    for toxic in toxics:
        if toxic.type in _OPEN:
            client.update_toxic(link.proxy, toxic.name, _OPEN[toxic.type])
    if any(toxic.type in _OPEN for toxic in toxics):
        time.sleep(_FLUSH_S)
    for toxic in toxics:
        client.remove_toxic(link.proxy, toxic.name)


def _recreate(client: EmergencyClient, link: Link) -> None:
    client.delete(link.proxy)
    client.create(proxy_spec(link))


def _is_clean(client: EmergencyClient, link: Link) -> bool:
    try:
        proxy = client.proxy(link.proxy)
    except ChaosError:
        return False
    placed = (proxy.listen, proxy.upstream) == (str(link.listen), str(link.upstream))
    return placed and proxy.enabled and not proxy.toxics


def _parallel(links: Sequence[Link], act: Callable[[Link], T]) -> list[T]:
    if not links:
        return []
    with ThreadPoolExecutor(max_workers=len(links)) as pool:
        futures: list[Future[T]] = [pool.submit(act, link) for link in links]
        return [future.result() for future in futures]

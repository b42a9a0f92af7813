"""What all cuts of a link have in common: put on, shown to bite, taken off by the ladder."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from chaos.canary import Canary, Flight, fly_canary
from chaos.errors import ChaosError, FaultCancelled
from chaos.faults.cut import Cut
from chaos.faults.declaration import HealReport, Proof
from chaos.faults.refuse import PortHolder
from chaos.faults.traffic import Traffic, in_use, look
from chaos.heal import PATIENT, URGENT, heal_links
from chaos.links import Link
from chaos.parallel import parallel
from chaos.toxiproxy.server import ToxiproxyServer
from chaos.undo import CleanProxy

_CANARY_WITHIN_S = 1.0


class LinkFault:
    """Makes ``cut`` on every one of ``links``.

    Proof has four parts, and all must hold on every link: the server holds what we asked for, now and
    at the end; a canary passed before and shows the effect now; the workers' connections are inside the
    proxy; and none goes round it.
    """

    def __init__(
        self, cut: Cut, server: ToxiproxyServer, links: Sequence[Link], hold_s: float
    ) -> None:
        self.declaration = cut.declaration
        self.links = tuple(str(link) for link in links)
        self.workers: tuple[str, ...] = ()
        self.hold_s = hold_s
        self.ttl_s = hold_s + 2.0
        self._cut = cut
        self._server = server
        self._links = tuple(links)
        self._holders = {str(link): PortHolder(link.listen) for link in links}
        self._before: dict[str, Flight] = {}
        self._used: dict[str, Traffic] = {}
        self._proofs: dict[str, Proof] = {}
        self._healing = threading.Event()

    def undo(self) -> tuple[CleanProxy, ...]:
        return tuple(
            CleanProxy(
                server=self._server.control,
                proxy=link.proxy,
                listen=str(link.listen),
                upstream=str(link.upstream),
            )
            for link in self._links
        )

    def inject(self) -> None:
        for link in self._links:
            self._used[str(link)] = look(self._server, link)
        flights = parallel(self._links, self._fly)
        self._before = {
            str(link): flight for link, flight in zip(self._links, flights, strict=True)
        }
        for link in self._links:
            self.put_on(link)

    def put_on(self, link: Link) -> None:
        """Cut one link. Raises `FaultCancelled` if the heal has begun meanwhile."""
        for toxic in self._cut.toxics:
            self._stay_out_of_a_heal()
            self._server.client.add_toxic(link.proxy, toxic)
        if self._cut.down:
            self._stay_out_of_a_heal()
            self._server.client.disable(link.proxy)
            self._holders[str(link)].hold()
        self._stay_out_of_a_heal()

    def verify(self) -> Proof:
        proofs = parallel(self._links, self._verify)
        return Proof(
            proven=all(proof.proven for proof in proofs),
            text="; ".join(proof.text for proof in proofs),
        )

    def heal(self, urgent: bool = False) -> HealReport:
        """The ladder, then canaries until they pass again."""
        self._healing.set()
        begun = time.monotonic()
        for holder in self._holders.values():
            holder.share()
        report = heal_links(self._server, self._links, URGENT if urgent else PATIENT)
        for holder in self._holders.values():
            holder.release()
        after = parallel(self._links, lambda link: self._flies_again(link, begun))
        seen = ", ".join(f"{name} {canary}" for name, canary in zip(self.links, after, strict=True))
        well = all(canary is Canary.PASSES for canary in after)
        return HealReport(
            rung=report.rung,
            ms=report.ms,
            rungs=report.rungs,
            left=report.left,
            gone_ms=report.gone_ms,
            detail=f"{report.detail}; canary after the heal: {seen}",
            effect_ms=(time.monotonic() - begun) * 1e3 if well else None,
        )

    def _verify(self, link: Link) -> Proof:
        name = str(link)
        if not self._holds(link):
            text = f"{name}: the server no longer holds the fault"
            return Proof(proven=False, text=text)
        if name in self._proofs:
            return self._proofs[name]
        seen = self._fly(link)
        now = look(self._server, link)
        proof = self._conclude(link, seen, now)
        if proof.proven:
            self._proofs[name] = proof
        return proof

    def _conclude(self, link: Link, seen: Flight, now: Traffic) -> Proof:
        name = str(link)
        before, used = self._before[name], self._used[name]
        ended = len(used.inside - now.inside) if self._cut.breaks else 0
        bites = self._cut.bites(link.name.kind, before, seen) or ended > 0
        inside = len(used.inside | now.inside)
        text = f"{name}: read back; canary {before} before and {seen} now; "
        text += f"{inside} worker connections inside the proxy"
        text += f", {ended} of them ended" if ended else ""
        around = max(used.around, now.around)
        if around:
            text += f" (BYPASS: {around} connections go round the proxy)"
        elif not in_use(link, used, now):
            text += " (nobody uses this link, or its traffic goes round the proxy)"
        proven = before.seen is Canary.PASSES and bites and in_use(link, used, now) and not around
        return Proof(proven=proven, text=text)

    def _holds(self, link: Link) -> bool:
        try:
            held = self._server.client.proxy(link.proxy)
        except ChaosError:
            return False
        there = {toxic.name: toxic for toxic in held.toxics}
        toxics = all(
            toxic.name in there and there[toxic.name].attributes.items() >= toxic.attributes.items()
            for toxic in self._cut.toxics
        )
        return toxics and held.enabled is not self._cut.down

    def _fly(self, link: Link) -> Flight:
        flight = fly_canary(link, self._cut.wait_s, self._cut.load_bytes)
        self._server.note_canary(flight.port)
        return flight

    def _flies_again(self, link: Link, begun: float) -> Canary:
        canary = self._fly(link).seen
        while canary is not Canary.PASSES and time.monotonic() - begun < _CANARY_WITHIN_S:
            time.sleep(0.02)
            canary = self._fly(link).seen
        return canary

    def _stay_out_of_a_heal(self) -> None:
        if self._healing.is_set():
            raise FaultCancelled("the run is being halted")

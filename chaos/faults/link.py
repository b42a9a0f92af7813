"""What all cuts of a link have in common: toxics on, shown to bite, taken off by the ladder."""

from __future__ import annotations

import time
from collections.abc import Sequence

from chaos import proc
from chaos.canary import Canary, send_canary
from chaos.faults.declaration import Declaration, HealReport, Proof
from chaos.heal import heal_links
from chaos.links import Link
from chaos.toxiproxy.model import Toxic
from chaos.toxiproxy.server import ToxiproxyServer

_CANARY_WITHIN_S = 1.0


class LinkFault:
    """Puts ``toxics`` on every one of ``links``.

    Proof has three parts, and all must hold on every link: the server holds the toxics that we sent; a
    canary passed before and gets nothing now; and the proxy carries connections of the workers.
    """

    def __init__(
        self,
        declaration: Declaration,
        server: ToxiproxyServer,
        links: Sequence[Link],
        toxics: Sequence[Toxic],
        hold_s: float,
    ) -> None:
        self.declaration = declaration
        self.links = tuple(str(link) for link in links)
        self.workers: tuple[str, ...] = ()
        self.hold_s = hold_s
        self.ttl_s = hold_s + 2.0
        self._server = server
        self._links = tuple(links)
        self._toxics = tuple(toxics)
        self._before: dict[str, Canary] = {}
        self._during: dict[str, Canary] = {}
        self._in_use: dict[str, int] = {}

    def inject(self) -> None:
        for link in self._links:
            self._in_use[str(link)] = self._num_connections(link)
        for link in self._links:
            self._before[str(link)] = send_canary(link)
        for link in self._links:
            for toxic in self._toxics:
                self._server.client.add_toxic(link.proxy, toxic)

    def verify(self) -> Proof:
        sentences = [self._verify(link) for link in self._links]
        return Proof(
            proven=all(proof.proven for proof in sentences),
            text="; ".join(proof.text for proof in sentences),
        )

    def heal(self) -> HealReport:
        report = heal_links(self._server, self._links)
        begun = time.monotonic()
        after = {str(link): self._canary_returns(link, begun) for link in self._links}
        seen = ", ".join(f"{name} {canary}" for name, canary in after.items())
        return HealReport(
            rung=report.rung,
            ms=report.ms,
            rungs=report.rungs,
            left=report.left,
            detail=f"{report.detail}; canary after the heal: {seen}",
        )

    def _verify(self, link: Link) -> Proof:
        name = str(link)
        if name not in self._during:
            self._during[name] = send_canary(link)
        else:
            # Our own canary may still hang in the cut proxy: it is not a user of the link.
            self._in_use[name] = max(self._in_use[name], self._num_connections(link) - 1)
        before, during, in_use = self._before[name], self._during[name], self._in_use[name]
        text = (
            f"{name}: toxics read back; canary {before} before and {during} now; "
            f"{in_use} worker connections inside the proxy"
        )
        if not in_use:
            text += " (nobody uses this link, or its traffic goes round the proxy)"
        bites = before is Canary.PASSES and during is not Canary.PASSES
        return Proof(proven=bites and in_use > 0, text=text)

    def _num_connections(self, link: Link) -> int:
        pid = self._server.pid
        return proc.num_connections(pid, link.upstream) if pid else 0

    def _canary_returns(self, link: Link, begun: float) -> Canary:
        canary = send_canary(link)
        while canary is not Canary.PASSES and time.monotonic() - begun < _CANARY_WITHIN_S:
            time.sleep(0.02)
            canary = send_canary(link)
        return canary

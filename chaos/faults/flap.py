"""Flap: the link is cut and mended again and again, ``duty`` of each period cut.

Each cut has the heal semantics of the mode that flaps; toggling is on an absolute schedule.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from msgspec.structs import replace

from chaos.canary import Canary
from chaos.codes import CutMode, Lost
from chaos.errors import ChaosError, FaultCancelled
from chaos.faults.cut import Cut, link_declaration
from chaos.faults.declaration import HealReport, HealSemantics, Proof
from chaos.faults.link import LinkFault
from chaos.heal import PATIENT, heal_links
from chaos.links import Link
from chaos.toxiproxy.server import ToxiproxyServer

_MENDED = {
    CutMode.STALL: HealSemantics(
        lost=Lost.NOTHING, survives=True, text="of stall: as stall, at each mend"
    ),
    CutMode.BLACKHOLE: HealSemantics(
        lost=Lost.ALL,
        survives=False,
        text="of blackhole: what each cut met is lost, each mend closes the connections",
    ),
    CutMode.REFUSE: HealSemantics(
        lost=Lost.IN_FLIGHT,
        survives=False,
        text="of refuse: each cut ends the connections; peers connect again between cuts",
    ),
}
DECLARATIONS = {of: link_declaration(CutMode.FLAP, text) for of, text in _MENDED.items()}
_JOIN_S = 5.0


class FlapFault(LinkFault):
    """A thread of its own toggles. Proven by a canary that shows the cut and one that passes."""

    def __init__(
        self,
        of: CutMode,
        cut: Cut,
        server: ToxiproxyServer,
        links: Sequence[Link],
        hold_s: float,
        period_s: float,
        duty: float,
    ) -> None:
        cut_s = period_s * duty
        inner = replace(cut, declaration=DECLARATIONS[of], wait_s=min(cut.wait_s, 0.6 * cut_s))
        super().__init__(inner, server, links, hold_s)
        self._period_s, self._cut_s = period_s, cut_s
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._problem = ""
        self.num_cuts = 0

    def inject(self) -> None:
        """Returns with the first cut made."""
        super().inject()
        self.num_cuts = 1
        self._thread = threading.Thread(target=self._flap, name="flap", daemon=True)
        self._thread.start()

    def verify(self) -> Proof:
        """Looks for as long as two periods; the cut that is on at the injection comes first."""
        if self._problem:
            return Proof(proven=False, text=f"it stopped flapping: {self._problem}")
        deadline = time.monotonic() + 2 * self._period_s
        proof = super().verify()
        if not proof.proven:
            return proof
        while time.monotonic() < deadline and not self._stopping.is_set():
            if all(self._fly(link).seen is Canary.PASSES for link in self._links):
                text = f"{proof.text}; passes between cuts; {self.num_cuts} cuts so far"
                return Proof(proven=True, text=text)
            time.sleep(0.01)
        return Proof(proven=False, text=f"{proof.text}; never passed between two cuts")

    def heal(self, urgent: bool = False) -> HealReport:
        self._stopping.set()
        report = super().heal(urgent)
        thread = self._thread
        if thread is None:
            return report
        busy = thread.is_alive()
        thread.join(_JOIN_S)
        # It may have been in the middle of a cut: whatever it did is undone by a second climb.
        return super().heal(urgent) if busy else report

    def _holds(self, link: Link) -> bool:
        """The cut comes and goes; what matters is that the toggling goes on."""
        return not self._problem and (self.num_cuts > 0 or super()._holds(link))

    def _flap(self) -> None:
        begun = time.monotonic()
        try:
            while self._wait_until(begun + (self.num_cuts - 1) * self._period_s + self._cut_s):
                self._mend()
                if not self._wait_until(begun + self.num_cuts * self._period_s):
                    return
                for link in self._links:
                    self.put_on(link)
                self.num_cuts += 1
        except FaultCancelled:
            return
        except ChaosError as error:
            self._problem = str(error)

    def _mend(self) -> None:
        for holder in self._holders.values():
            holder.share()
        report = heal_links(self._server, self._links, PATIENT)
        for holder in self._holders.values():
            holder.release()
        if not report.healed:
            self._problem = "; ".join(report.left)

    def _wait_until(self, at: float) -> bool:
        """False: the heal has begun."""
        return not self._stopping.wait(max(0.0, at - time.monotonic()))

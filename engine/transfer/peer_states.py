"""`PeerStates`: alive, suspect or dead, for metrics and the log. Verdicts are the sessions' own."""

from __future__ import annotations

import logging
from collections import OrderedDict

from engine.core.codes import PeerState
from engine.core.io_struct import PeerSample
from engine.transfer.phi import SUSPECT_PHI

log = logging.getLogger(__name__)
MAX_PEERS = 1024


class PeerStates:
    """Every peer that was ever up, the `MAX_PEERS` last heard of. ``what``: how the log calls them."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._samples: OrderedDict[str, PeerSample] = OrderedDict()
        self.num_changes: dict[PeerState, int] = dict.fromkeys(PeerState, 0)

    def alive(self, peer: str) -> None:
        """A session is up."""
        self._note(peer, PeerState.ALIVE, 0.0)

    def heartbeat(self, peer: str, phi: float) -> None:
        """Its session is up, and its silence is so surprising."""
        self._note(peer, PeerState.SUSPECT if phi >= SUSPECT_PHI else PeerState.ALIVE, phi)

    def dead(self, peer: str) -> None:
        """Its session is lost."""
        self._note(peer, PeerState.DEAD, 0.0)

    def samples(self) -> tuple[PeerSample, ...]:
        """The newest of each; may be called from another thread (one bytecode, no Python in between)."""
        return tuple(self._samples.values())

    def _note(self, peer: str, state: PeerState, phi: float) -> None:
        before = self._samples.pop(peer, None)
        self._samples[peer] = PeerSample(peer=peer, state=state, phi=phi)
        while len(self._samples) > MAX_PEERS:
            self._samples.popitem(last=False)
        if before is None or before.state is not state:
            self.num_changes[state] += 1
            was = before.state if before is not None else "unknown"
            log.info("%s %s is %s (was %s, phi %.1f)", self._what, peer, state, was, phi)

"""`PdLink`: the links of a deployment that match a name, to be cut together."""

from __future__ import annotations

from chaos.codes import Direction
from chaos.faults.traffic import look
from chaos.held_fault import HeldFault
from chaos.pd import AT_MOST_S, PdDeployment


class PdLink:
    """Raises `UsageError` at once if nothing has such a name. For more modes: `PdDeployment.cut`."""

    def __init__(self, pd: PdDeployment, pattern: str) -> None:
        self.pattern = pattern
        self._pd = pd
        self._links = pd.matching(pattern)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(str(link) for link in self._links)

    @property
    def num_connections(self) -> int:
        """Connections of workers that its proxies hold now."""
        server = self._pd.deployment.toxiproxy
        return sum(len(look(server, link).inside) for link in self._links)

    def blackhole(self, at_most_s: float = AT_MOST_S) -> HeldFault:
        return self._pd.cut("blackhole", self.pattern, at_most_s=at_most_s)

    def stall(self, at_most_s: float = AT_MOST_S) -> HeldFault:
        return self._pd.cut("stall", self.pattern, at_most_s=at_most_s)

    def refuse(self, at_most_s: float = AT_MOST_S) -> HeldFault:
        return self._pd.cut("refuse", self.pattern, at_most_s=at_most_s)

    def latency(self, latency_ms: int, jitter_ms: int | None = None) -> HeldFault:
        return self._pd.cut("latency", self.pattern, latency_ms=latency_ms, jitter_ms=jitter_ms)

    def one_way(self, direction: Direction | str) -> HeldFault:
        return self._pd.cut("one_way", self.pattern, direction=direction)

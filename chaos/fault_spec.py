"""Structs of the faults of a scenario file: links cut, processes ended or stopped, the span store away."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta
from msgspec.structs import replace

from chaos.codes import CutMode, Direction, ProcessMode, TelemetryMode
from chaos.spec_types import Count, LinkPattern, Natural, NonNegative, Part, Positive, WorkerName


class LinkFaultSpec(Part, frozen=True, kw_only=True, tag_field="kind", tag="link"):
    """Cut every link that matches one of ``links``, all at once, for ``for_s`` seconds.

    ==========  =====================================================  ==========================
    mode        needs                                                  may have
    ==========  =====================================================  ==========================
    stall                                                              direction
    blackhole                                                          direction
    refuse
    reset                                                              direction
    one_way     direction: up or down                                  of: stall (default), blackhole
    trickle     rate_kb_s (1000 bytes)                                 direction
    latency     latency_ms                                             jitter_ms (smaller), direction
    cut_after   after_bytes                                            direction
    flap        period_s, duty (share of the period that is cut)       of: stall, blackhole, refuse
    ==========  =====================================================  ==========================
    """

    mode: CutMode
    links: Annotated[tuple[LinkPattern, ...], Meta(min_length=1)]
    for_s: Positive
    direction: Direction = Direction.BOTH
    of: CutMode | None = None
    latency_ms: Annotated[int, Meta(ge=1, le=600_000)] | None = None
    jitter_ms: Natural | None = None
    rate_kb_s: Annotated[int, Meta(ge=1, le=1024)] | None = None
    after_bytes: Count | None = None
    period_s: Annotated[float, Meta(ge=0.2)] | None = None
    duty: Annotated[float, Meta(gt=0, lt=1)] | None = None

    def __post_init__(self) -> None:
        check_link_fault(self)

    @property
    def hold_s(self) -> float:
        return self.for_s

    def holding(self, hold_s: float) -> LinkFaultSpec:
        """The same fault, on for so long."""
        return replace(self, for_s=hold_s)


_NEEDS: dict[CutMode, tuple[str, ...]] = {
    CutMode.TRICKLE: ("rate_kb_s",),
    CutMode.LATENCY: ("latency_ms",),
    CutMode.CUT_AFTER: ("after_bytes",),
    CutMode.FLAP: ("period_s", "duty"),
}
_ALSO: dict[CutMode, tuple[str, ...]] = {
    CutMode.LATENCY: ("jitter_ms",),
    CutMode.FLAP: ("of",),
    CutMode.ONE_WAY: ("of",),
}
_OF = {
    CutMode.ONE_WAY: (CutMode.STALL, CutMode.BLACKHOLE),
    CutMode.FLAP: (CutMode.STALL, CutMode.BLACKHOLE, CutMode.REFUSE),
}
_UNDIRECTED = (CutMode.REFUSE, CutMode.FLAP)
_SLOWEST_DOWN_KB_S = 3


def check_link_fault(fault: LinkFaultSpec) -> None:
    """A field that its mode needs must be there, and none that it would not heed. Raises `ValueError`."""
    given = {
        "of": fault.of,
        "latency_ms": fault.latency_ms,
        "jitter_ms": fault.jitter_ms,
        "rate_kb_s": fault.rate_kb_s,
        "after_bytes": fault.after_bytes,
        "period_s": fault.period_s,
        "duty": fault.duty,
    }
    mode, needs = fault.mode, _NEEDS.get(fault.mode, ())
    for name in needs:
        if given[name] is None:
            raise ValueError(f"mode {mode} needs {name}")
    for name, value in given.items():
        if value is not None and name not in needs + _ALSO.get(mode, ()):
            raise ValueError(f"mode {mode} has no {name}")
    if fault.of is not None and fault.of not in _OF[mode]:
        raise ValueError(f"mode {mode} can be of {', '.join(_OF[mode])}, not of {fault.of}")
    _check_direction(fault)
    if (fault.jitter_ms or 0) >= (fault.latency_ms or 1):
        raise ValueError("jitter_ms must be smaller than latency_ms")


def _check_direction(fault: LinkFaultSpec) -> None:
    mode, direction = fault.mode, fault.direction
    if mode is CutMode.ONE_WAY and direction is Direction.BOTH:
        raise ValueError("mode one_way needs direction: up or down")
    if mode in _UNDIRECTED and direction is not Direction.BOTH:
        raise ValueError(f"mode {mode} has no direction: it ends or cuts both")
    too_fast = (fault.rate_kb_s or 0) > _SLOWEST_DOWN_KB_S
    if mode is CutMode.TRICKLE and direction is Direction.DOWN and too_fast:
        raise ValueError(
            f"a trickle of direction down can be shown up to rate_kb_s {_SLOWEST_DOWN_KB_S} only"
        )


class ProcessFaultSpec(Part, frozen=True, kw_only=True, tag_field="kind", tag="process"):
    """Something happens to all processes of ``worker``.

    ========  ====================================================================  ================
    mode      what                                                                  takes
    ========  ====================================================================  ================
    kill      SIGKILL; started again on the same ports after ``restart_after_s``    restart_after_s
    restart   SIGTERM, waits for its end (SIGKILL after 10 s); started again        restart_after_s
    pause     SIGSTOP for ``for_s``, then SIGCONT                                   for_s
    slow      gets ``cpu_share`` of its time for ``for_s``                          for_s, cpu_share
    ========  ====================================================================  ================
    """

    mode: ProcessMode
    worker: WorkerName
    restart_after_s: NonNegative = 1.0
    for_s: Positive | None = None
    cpu_share: Annotated[float, Meta(ge=0.05, le=0.9)] | None = None

    def __post_init__(self) -> None:
        lasts = self.mode in (ProcessMode.PAUSE, ProcessMode.SLOW)
        if lasts != (self.for_s is not None):
            raise ValueError(f"mode {self.mode} {'needs' if lasts else 'has no'} for_s")
        slow = self.mode is ProcessMode.SLOW
        if slow != (self.cpu_share is not None):
            raise ValueError(f"mode {self.mode} {'needs' if slow else 'has no'} cpu_share")

    @property
    def hold_s(self) -> float:
        return self.restart_after_s if self.for_s is None else self.for_s

    def holding(self, hold_s: float) -> ProcessFaultSpec:
        if self.for_s is None:
            return replace(self, restart_after_s=hold_s)
        return replace(self, for_s=hold_s)


class TelemetryFaultSpec(Part, frozen=True, kw_only=True, tag_field="kind", tag="telemetry"):
    """The span store is away: ``collector_down`` ends it (exports are refused), ``collector_stall`` stops
    it (exports hang). The engine must not slow down."""

    mode: TelemetryMode
    for_s: Positive

    @property
    def hold_s(self) -> float:
        return self.for_s

    def holding(self, hold_s: float) -> TelemetryFaultSpec:
        return replace(self, for_s=hold_s)


FaultSpec = LinkFaultSpec | ProcessFaultSpec | TelemetryFaultSpec

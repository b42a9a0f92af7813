"""`Schedule`: everything that a simulation does, drawn from a seed or read from a file.

A schedule holds no randomness: the same one gives the same run, so a failing one can be shrunk and kept.
All times are milliseconds of virtual time from the start.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

import msgspec

from engine.simulator.errors import ScheduleError

VERSION = 2


class Half(StrEnum):
    """Which halves hear of a request or an abort."""

    BOTH = "both"
    PREFILL = "prefill"
    DECODE = "decode"


class FaultKind(StrEnum):
    STALL = "stall"
    BLACKHOLE = "blackhole"
    REFUSE = "refuse"
    RESET = "reset"
    DELAY = "delay"
    CRASH = "crash"
    PAUSE = "pause"
    WEDGE = "wedge"
    SLOW = "slow"


LINK_FAULTS = frozenset(
    {FaultKind.STALL, FaultKind.BLACKHOLE, FaultKind.REFUSE, FaultKind.RESET, FaultKind.DELAY}
)


class Direction(StrEnum):
    BOTH = "both"
    FORWARD = "forward"
    BACK = "back"


class ActKind(StrEnum):
    """What operators and odd clients do to a worker."""

    PAUSE = "pause_generation"
    FLUSH = "flush_cache"
    ABORT_ALL = "abort_all"
    ABORT_PREFIX = "abort_prefix"
    ABORT_UNKNOWN = "abort_unknown"


class Topology(msgspec.Struct, frozen=True, kw_only=True):
    """Sizes of every worker; a forward takes ``step_ms`` and ``token_us`` for each token.

    ``num_layers``: a forward asks twice a layer whether to go on; 0: never. ``cancel_every``: so often one
    is cancelled although its members live, and must run again. ``num_ranks``: schedulers of a worker.
    ``poll_failure_percent``: so many polls of a room fail for no reason. Timeouts of 0 are none.
    """

    num_prefill: int
    num_decode: int
    page_size: int
    chunk_tokens: int
    prefill_pages: int
    decode_pages: int
    staging_pages: int
    max_running: int
    max_queued: int
    step_ms: int
    token_us: int
    delay_us: int
    kv_delay_us: int
    jitter_us: int
    num_layers: int = 0
    cancel_every: int = 0
    num_ranks: int = 1
    waiting_timeout_ms: int = 0
    running_timeout_ms: int = 0
    optimistic_attempts: int = 0
    poll_failure_percent: int = 0


class Abort(msgspec.Struct, frozen=True, kw_only=True):
    """``disconnect``: the client closes; else it asks for an abort by rid."""

    at_ms: int
    half: Half
    disconnect: bool


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """``half``: a router that loses one half sends to the other alone. ``lag_ms``: the decode half comes so
    much later than the prefill half (negative: earlier). ``deadline_ms``: the client's own, 0 for none."""

    rid: str
    room: int
    at_ms: int
    prefill: int
    decode: int
    num_tokens: int
    max_new_tokens: int
    half: Half
    lag_ms: int
    aborts: tuple[Abort, ...]
    deadline_ms: int = 0


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """``targets``: names of links (``kv:p0-d1``) or one worker. ``amount``: slowdown or extra ms."""

    kind: FaultKind
    targets: tuple[str, ...]
    at_ms: int
    for_ms: int
    direction: Direction = Direction.BOTH
    amount: int = 0


class Act(msgspec.Struct, frozen=True, kw_only=True):
    """``for_ms``: how long a pause lasts. ``rid``: the rid, or the beginning of rids, to abort."""

    kind: ActKind
    worker: str
    at_ms: int
    for_ms: int = 0
    rid: str = ""


class Schedule(msgspec.Struct, frozen=True, kw_only=True):
    version: int
    seed: int
    horizon_ms: int
    topology: Topology
    requests: tuple[Request, ...]
    faults: tuple[Fault, ...]
    acts: tuple[Act, ...] = ()

    @property
    def last_heal_ms(self) -> int:
        """When the last fault and the last pause are over; the start if there are none."""
        ends = [fault.at_ms + fault.for_ms for fault in self.faults]
        ends += [act.at_ms + act.for_ms for act in self.acts]
        return max(ends, default=0)


def save(schedule: Schedule, path: Path) -> None:
    """Write it as readable JSON."""
    path.write_bytes(msgspec.json.format(msgspec.json.encode(schedule), indent=1) + b"\n")


def load(path: Path) -> Schedule:
    """Read one. Raises ScheduleError with what is wrong."""
    try:
        found = msgspec.json.decode(path.read_bytes(), type=Schedule)
    except (OSError, msgspec.DecodeError) as error:
        raise ScheduleError(f"{path} is no schedule: {error}") from error
    if found.version != VERSION:
        raise ScheduleError(f"{path} has version {found.version}, this simulator reads {VERSION}")
    return found

"""What a run writes: `run.json`, `faults.jsonl`, `ledger.jsonl`, `events.jsonl`, `processes.jsonl`.

The runner writes facts and judges nothing; the oracle reads them later. ``*_ns`` without ``wall`` are
CLOCK_MONOTONIC nanoseconds of ``host``.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TypeVar

import msgspec

from chaos.undo import Undo

Struct = msgspec.Struct


class ClockPair(Struct, frozen=True, kw_only=True):
    """The same instant on both clocks: wall_ns - mono_ns turns span times into history times."""

    wall_ns: int
    mono_ns: int


class RunInfo(Struct, frozen=True, kw_only=True):
    """`run.json`. ``capacity_*`` come from the warm-up; ``finished`` False: the runner was cut short.

    ``cannot_show``: kinds of evidence (spans, ledger, metrics, control run) that the target has no way to
    give; checks that need them are unobservable. Our own engine shows everything.
    """

    schema: str
    run_id: str
    scenario: str
    seed: int
    regression: str | None
    argv: tuple[str, ...]
    host: str
    commit: str
    versions: dict[str, str]
    environment: dict[str, str]
    router_flags: tuple[str, ...]
    clock: ClockPair
    finished: bool = False
    halted_by: str | None = None
    interrupted: bool = False
    capacity_tokens_per_s: float | None = None
    capacity_req_per_s: float | None = None
    request_rate: float | None = None
    duration_s: float = 0.0
    residue: tuple[str, ...] = ()
    cannot_show: tuple[str, ...] = ()


class FaultEvent(StrEnum):
    DECLARED = "declared"
    INJECTING = "injecting"
    INJECTED = "injected"
    VERIFIED = "verified"
    UNPROVEN = "unproven"
    HEALING = "healing"
    HEALED = "healed"
    HEAL_FAILED = "heal_failed"


class FaultRecord(Struct, frozen=True, kw_only=True):
    """One line of `faults.jsonl`, flushed and synced before the act that it names.

    ``links``: resolved names such as ``kv:p0-d0``. ``workers``: names hit by a process fault.
    ``permits``: abort reasons that the fault explains. ``silences``: guards and checks that it exempts.
    ``proof``: what was read back and what the canary saw, in words. ``rung``: heal rung that worked.
    ``incarnations``: worker name -> incarnation at injection. ``undo``: how to mend it from outside.
    ``effect_ms``: from the start of the heal until its effect was seen to be gone.
    """

    event: FaultEvent
    fault_id: str
    kind: str
    mode: str
    links: tuple[str, ...]
    workers: tuple[str, ...]
    at_ns: int
    wall_ns: int
    host: str
    run_id: str
    ttl_s: float
    permits: tuple[str, ...]
    silences: tuple[str, ...]
    proof: str = ""
    rung: str | None = None
    heal_ms: float | None = None
    incarnations: dict[str, str] = msgspec.field(default_factory=dict)
    error: str | None = None
    undo: tuple[Undo, ...] = ()
    effect_ms: float | None = None


class ResourceCount(Struct, frozen=True, kw_only=True):
    """``free`` from the allocator, ``held`` from the ResourceLedger; free + held == total."""

    total: int
    free: int
    held: int


class Holder(Struct, frozen=True, kw_only=True):
    resource: str
    owner: str
    count: int


class WorkerLedger(Struct, frozen=True, kw_only=True):
    """Body of ``GET /ledger``. ``resources``: kv_pages, req_slots, metadata_slots, staging_pages.

    ``requests``: scheduler-side open requests; ``rid_to_state``: HTTP-side open requests.
    ``conservation``: one line for each broken law, empty when all hold.
    """

    worker: str
    role: str
    incarnation: str
    step: int
    idle: bool
    resources: dict[str, ResourceCount]
    holders: tuple[Holder, ...]
    rooms_open: int
    rooms_terminal: int
    requests: int
    rid_to_state: int
    queues: dict[str, int]
    conservation: tuple[str, ...]
    double_frees: int = 0


class LedgerSample(Struct, frozen=True, kw_only=True):
    """One line of `ledger.jsonl`. ``phase``: baseline | load | final. ``error``: no answer, and why."""

    phase: str
    worker: str
    at_ns: int
    wall_ns: int
    host: str
    run_id: str
    ledger: WorkerLedger | None = None
    error: str | None = None


class EventKind(StrEnum):
    """Moments of a run."""

    PHASE = "phase"
    GUARD = "guard"
    PROBE = "probe"
    STEADY = "steady"
    NOTE = "note"
    LADDER = "ladder"


class RunEvent(Struct, frozen=True, kw_only=True):
    """One line of `events.jsonl`. ``name``: phase, guard or probe; ``ok`` None: not a judgement.

    Phases in order: setup, baseline, warmup, load, drain, final, probe, control, teardown, done.
    kind=ladder is the way out of a fault when the run was halted, one line a rung: name
    ``FAULT_ID:breach|decision|toxics_gone|canary``, value = milliseconds since the decision.
    A capacity probe is kind=probe, name=capacity:<worker|pair>, value=tokens asked for.
    """

    kind: EventKind
    name: str
    at_ns: int
    wall_ns: int
    host: str
    run_id: str
    ok: bool | None = None
    value: float | None = None
    limit: float | None = None
    detail: str = ""


class ProcessRecord(Struct, frozen=True, kw_only=True):
    """One line of `processes.jsonl`: enough to end exactly this process later (pid and start time)."""

    name: str
    pid: int
    started_ticks: int
    argv: tuple[str, ...]
    ports: tuple[int, ...]
    ended: bool = False


RecordT = TypeVar("RecordT", bound=msgspec.Struct)


def read_jsonl(path: Path, kind: type[RecordT]) -> list[RecordT]:
    """Read records of one kind; a torn last line is dropped, any other bad line is an error."""
    decoder = msgspec.json.Decoder(kind)
    *lines, torn = path.read_bytes().split(b"\n")
    records = [decoder.decode(line) for line in lines if line]
    if torn:
        try:
            records.append(decoder.decode(torn))
        except msgspec.DecodeError:
            return records
    return records

"""What a run left behind: processes, listening ports, toxics. Reads a run directory; changes nothing."""

from __future__ import annotations

from pathlib import Path

from chaos import proc
from chaos.proc import Identity
from chaos.records import FaultEvent, FaultRecord, ProcessRecord, read_jsonl
from chaos.undo import RunCommand, Undo

RUNNER = "runner"
"""Name of the runner's own line in `processes.jsonl`."""


def find_residue(directory: Path, run_id: str) -> list[str]:
    """One line for each thing that is left; empty when the machine is as it was.

    A toxic lives in the toxiproxy process and nowhere else, so that process is the line to look for.
    """
    records = process_records(directory)
    left = [f"process {name} (pid {identity.pid})" for name, identity in living(records, run_id)]
    taken = proc.listening_ports()
    for record in records:
        left += [f"port {port} of {record.name}" for port in record.ports if port in taken]
    return list(dict.fromkeys(left))


def process_records(directory: Path) -> list[ProcessRecord]:
    """Every process of the run but the runner."""
    path = directory / "processes.jsonl"
    if not path.exists():
        return []
    return [record for record in read_jsonl(path, ProcessRecord) if record.name != RUNNER]


def living(records: list[ProcessRecord], run_id: str) -> list[tuple[str, Identity]]:
    """Recorded processes that live, and what they started, by exact identity."""
    found: dict[Identity, str] = {}
    for record in records:
        identity = Identity(pid=record.pid, started_ticks=record.started_ticks)
        members = proc.family(record.pid, run_id)
        if proc.alive(identity) and identity not in members:
            members.append(identity)
        found.update(dict.fromkeys(members, record.name))
    return [(name, identity) for identity, name in found.items()]


def unhealed(directory: Path) -> list[FaultRecord]:
    """The last record of every fault that was begun and not healed."""
    path = directory / "faults.jsonl"
    if not path.exists():
        return []
    last = {record.fault_id: record for record in read_jsonl(path, FaultRecord)}
    over = (FaultEvent.DECLARED, FaultEvent.HEALED)
    return [record for record in last.values() if record.event not in over]


def acts_of(directory: Path) -> list[Undo]:
    """How to undo, from outside, every fault that was begun."""
    path = directory / "faults.jsonl"
    records = read_jsonl(path, FaultRecord) if path.exists() else []
    healed = {record.fault_id for record in records if record.event is FaultEvent.HEALED}
    return [
        act
        for record in records
        for act in record.undo
        # Toxics are harmless to take off twice; a worker that its owner has ended since stays ended.
        if not (isinstance(act, RunCommand) and record.fault_id in healed)
    ]

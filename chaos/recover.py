"""`severance heal`: cleans up after a runner that died.

Processes go by pid and start time, never by name. Once toxiproxy is gone no toxic is left, so the faults
of the run are then marked healed.
"""

from __future__ import annotations

import signal
import socket
import time
from pathlib import Path

import msgspec

from chaos import proc
from chaos.codes import HealRung
from chaos.errors import ChaosError, UsageError
from chaos.journal import Journal
from chaos.proc import Identity
from chaos.records import FaultEvent, ProcessRecord, RunInfo, read_jsonl
from chaos.registry import ActiveRun, active_runs, unregister
from chaos.residue import RUNNER, acts_of, find_residue, living, process_records, unhealed
from chaos.undo import apply


class Recovery(msgspec.Struct, frozen=True, kw_only=True):
    """What was done to one run, and what is left of it."""

    directory: Path
    done: tuple[str, ...]
    left: tuple[str, ...]


def crashed_runs() -> list[ActiveRun]:
    """Registered runs whose runner is gone."""
    return [run for run in active_runs() if not run.runs]


def recover(directory: Path) -> Recovery:
    """Clean up one run. Idempotent. Raises `UsageError` if it is no run, or if its runner lives."""
    info = _read_info(directory)
    runner = _runner(directory)
    if runner is not None and proc.alive(runner):
        raise UsageError(
            f"{directory} is still being run by pid {runner.pid}; press Ctrl-C there, "
            f"or send it SIGTERM: it heals and stops by itself"
        )
    done = _end_processes(directory, info.run_id)
    undone, not_undone = _undo(directory)
    done += undone
    if not not_undone:
        done += _mark_healed(directory, info.run_id)
    left = find_residue(directory, info.run_id) + not_undone
    _note(directory, info, left)
    if not left:
        unregister(info.run_id)
    return Recovery(directory=directory, done=tuple(done), left=tuple(left))


def _read_info(directory: Path) -> RunInfo:
    try:
        return msgspec.json.decode((directory / "run.json").read_bytes(), type=RunInfo)
    except OSError as error:
        raise UsageError(f"{directory} is no run directory: it has no run.json") from error
    except msgspec.DecodeError as error:
        raise UsageError(f"{directory}/run.json cannot be read: {error}") from error


def _runner(directory: Path) -> Identity | None:
    path = directory / "processes.jsonl"
    records = read_jsonl(path, ProcessRecord) if path.exists() else []
    lines = [record for record in records if record.name == RUNNER]
    if not lines or lines[-1].ended:
        return None
    return Identity(pid=lines[-1].pid, started_ticks=lines[-1].started_ticks)


def _end_processes(directory: Path, run_id: str) -> list[str]:
    journal = Journal(directory, run_id)
    records = process_records(directory)
    targets = living(records, run_id)
    for _, identity in targets:
        proc.send(identity, signal.SIGKILL)
    proc.wait_gone([identity for _, identity in targets], timeout_s=5.0)
    ended = {record.pid for record in records if record.ended}
    for record in records:
        gone = not proc.alive(Identity(pid=record.pid, started_ticks=record.started_ticks))
        if gone and record.pid not in ended:
            journal.process(msgspec.structs.replace(record, ended=True))
    return [f"ended {name} (pid {identity.pid})" for name, identity in targets]


def _undo(directory: Path) -> tuple[list[str], list[str]]:
    """Faults on a deployment that lives on: what was mended, and what could not be.

    Every fault of the run, not only those without a `healed` line: undoing is idempotent, and a line may be
    missing or early where the runner was killed.
    """
    done, left = [], []
    for act in dict.fromkeys(acts_of(directory)):
        try:
            line = apply(act)
        except ChaosError as error:
            left.append(str(error))
            continue
        done += [line] if line else []
    return done, left


def _mark_healed(directory: Path, run_id: str) -> list[str]:
    if any(record.name == "toxiproxy" for record in _alive(directory)):
        return []
    journal = Journal(directory, run_id)
    done = []
    for record in unhealed(directory):
        journal.fault(
            msgspec.structs.replace(
                record,
                event=FaultEvent.HEALED,
                at_ns=time.monotonic_ns(),
                wall_ns=time.time_ns(),
                host=socket.gethostname(),
                rung=HealRung.RUN_ENDED,
                proof="the run's processes are gone, and with them the fault",
            )
        )
        done.append(f"marked fault {record.fault_id} ({record.mode}) healed")
    return done


def _alive(directory: Path) -> list[ProcessRecord]:
    return [
        record
        for record in process_records(directory)
        if proc.alive(Identity(pid=record.pid, started_ticks=record.started_ticks))
    ]


def _note(directory: Path, info: RunInfo, left: list[str]) -> None:
    Journal(directory, info.run_id).run_info(msgspec.structs.replace(info, residue=tuple(left)))

"""Where the requests of each mode come from."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import msgspec

from loadtest.config import LoadConfig, Mode
from loadtest.errors import UsageError
from loadtest.history import Sent, read_history
from loadtest.prompts import derive_seed
from loadtest.schedule import Slot
from loadtest.workload import WorkloadFile, read_workload

_REQUESTS_FLAG = "--requests"


def slots_of(config: LoadConfig) -> Iterator[Slot]:
    """Requests in the order in which they are due; ``due_s`` is 0 in a closed loop.

    Raises `UsageError` and `TraceFileError` before the first one.
    """
    prompt_seed = derive_seed(config.seed, config.phase)
    if config.mode is Mode.REPLAY and config.requests is not None:
        return iter(_replayed(config.requests))
    if config.mode is Mode.CAPACITY:
        never_due = itertools.repeat(0.0, config.num_prompts or 2**31)
        return config.shapes.slots(config.seed, prompt_seed, never_due)
    if config.workload is not None:
        slots = _from_workload(config, config.workload, prompt_seed)
    else:
        due_times = config.arrivals.due_times(config.seed)
        slots = config.shapes.slots(config.seed, prompt_seed, due_times)
    in_time = itertools.takewhile(lambda slot: slot.due_s < config.duration_s, slots)
    return itertools.islice(in_time, config.num_prompts)


def _from_workload(config: LoadConfig, file: WorkloadFile, prompt_seed: int) -> Iterator[Slot]:
    """Due times and lengths of the trace, the lengths cut at --isl-max and --osl-max; our abort plans."""
    rows = read_workload(file)
    drawn = config.shapes.slots(config.seed, prompt_seed, (row.due_s for row in rows))
    longest_isl, longest_osl = config.shapes.isl.high, config.shapes.osl.high
    return (
        msgspec.structs.replace(
            slot, isl=min(row.isl, longest_isl), max_new_tokens=min(row.osl, longest_osl)
        )
        for slot, row in zip(drawn, rows, strict=True)
    )


def _replayed(path: Path) -> list[Slot]:
    """The same rids and prompts; no aborts."""
    try:
        records = read_history(path)
    except OSError as error:
        raise UsageError(_REQUESTS_FLAG, f"cannot read {path} ({error.strerror})") from error
    except msgspec.DecodeError as error:
        raise UsageError(_REQUESTS_FLAG, f"{path} is not a history file: {error}") from error
    slots = [
        Slot(
            index=record.index,
            due_s=0.0,
            isl=record.isl,
            max_new_tokens=record.max_new_tokens,
            prompt_seed=record.prompt_seed,
            rid=record.rid,
        )
        for record in records
        if isinstance(record, Sent)
    ]
    if not slots:
        raise UsageError(_REQUESTS_FLAG, f"{path} holds no `sent` record, so nothing to repeat")
    return slots

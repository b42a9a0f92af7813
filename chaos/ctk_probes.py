"""Probes for the Chaos Toolkit. ``target``: path of a target file; ``severance up`` writes one."""

from pathlib import Path

import msgspec

from chaos.ctk_session import pd_of
from chaos.errors import ChaosError, StillHeld, UsageError
from chaos.heal import unhealed
from chaos.verdict import RunStatus, Verdict

__all__ = ["links_are_clean", "nothing_is_held", "serves", "verdict_passed", "worker_runs"]


def serves(target: str, within_s: float = 30.0) -> bool:
    """Whether requests complete through the router and on every pair, within that time."""
    try:
        pd_of(target).wait_serving(within_s)
    except ChaosError:
        return False
    return True


def links_are_clean(target: str) -> bool:
    """Whether no proxy of the target is disabled or has a toxic. False where it has no links to look at."""
    deployment = pd_of(target).deployment
    return bool(deployment.links) and not unhealed(deployment.toxiproxy, deployment.links)


def nothing_is_held(target: str, within_s: float = 15.0) -> bool:
    """Whether every worker is empty within that time, by its ledger, or by its metrics where it has none."""
    try:
        pd_of(target).require_released(within_s)
    except StillHeld:
        return False
    return True


def worker_runs(target: str, worker: str) -> bool:
    """Whether a worker is there."""
    return pd_of(target).deployment.worker_runs(worker)


def verdict_passed(run_dir: str) -> bool:
    """Whether the `severance run` that wrote this directory passed."""
    try:
        raw = (Path(run_dir) / "verdict.json").read_bytes()
        return msgspec.json.decode(raw, type=Verdict).status is RunStatus.PASSED
    except (OSError, msgspec.DecodeError) as error:
        raise UsageError(f"{run_dir} holds no verdict: {error}") from error

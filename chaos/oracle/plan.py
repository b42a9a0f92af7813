"""What the scenario asked for, as the oracle needs it: read from `scenario.resolved.yaml`.

Keys that the oracle does not know are ignored, so that a newer scenario can still be judged.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
import yaml

Struct = msgspec.Struct

LONGEST_DEADLINE_S = 10.0
"""The engine's longest own deadline (a transfer without progress)."""
_SLACK_S = 2.0


class Expectations(Struct, frozen=True, kw_only=True):
    """Thresholds (section ``expect``). A ``min_*`` of 0 is not asked for and not judged."""

    recovery_first_success_s: float = 5.0
    recovery_goodput_share: float = 0.8
    recovery_window_s: float = 5.0
    min_exposed: int = 5
    control_requests: int = 12
    heal_ms: float = 4000.0
    abort_seen_ms: float = 2000.0
    abort_release_ms: float = 5000.0
    send_lag_p99_ms: float = 500.0
    min_aborts: int = 0
    min_per_kind: int = 0
    min_mid_chunk: int = 0
    min_transfer_or_bootstrap: int = 0
    min_decode: int = 0
    min_bystanders: int = 0
    min_pool_used: float = 0.0
    report_only: tuple[str, ...] = ()
    bystander_factor: float = 1.5


class WorkerPlan(Struct, frozen=True, kw_only=True):
    page_size: int = 16
    dtype: str = "float32"
    bootstrap_timeout_s: float = 5.0
    peer_dead_after_s: float = 1.5


class RouterPlan(Struct, frozen=True, kw_only=True):
    retries: int = 0
    circuit_breaker: bool = False


class DeploymentPlan(Struct, frozen=True, kw_only=True):
    prefill: int = 1
    decode: int = 1
    worker: WorkerPlan = WorkerPlan()
    router: RouterPlan = RouterPlan()


class AbortsPlan(Struct, frozen=True, kw_only=True):
    share: float = 0.4


class LoadPlan(Struct, frozen=True, kw_only=True):
    duration_s: float = 38.0
    request_timeout_s: float = 25.0
    aborts: AbortsPlan = AbortsPlan()


class FaultPlan(Struct, frozen=True, kw_only=True):
    """``for_s`` and ``links`` (patterns) of a cut link, ``worker`` of a killed process."""

    kind: str
    mode: str
    for_s: float | None = None
    links: tuple[str, ...] = ()
    worker: str | None = None


class StepPlan(Struct, frozen=True, kw_only=True):
    at_s: float
    fault: FaultPlan


class Plan(Struct, frozen=True, kw_only=True):
    """The scenario. Its defaults are those of `chaos.spec`."""

    name: str = "unknown"
    seed: int = 0
    deployment: DeploymentPlan = DeploymentPlan()
    load: LoadPlan = LoadPlan()
    method: tuple[StepPlan, ...] = ()
    expect: Expectations = Expectations()

    @property
    def prefill_workers(self) -> tuple[str, ...]:
        return tuple(f"p{i}" for i in range(self.deployment.prefill))

    @property
    def decode_workers(self) -> tuple[str, ...]:
        return tuple(f"d{i}" for i in range(self.deployment.decode))

    @property
    def workers(self) -> tuple[str, ...]:
        return self.prefill_workers + self.decode_workers

    @property
    def dead_peer_abort_s(self) -> float:
        """From a cut of ``control`` (or a kill) to the last abort of a request that was joined."""
        return self.deployment.worker.peer_dead_after_s + _SLACK_S

    @property
    def server_abort_s(self) -> float:
        """From the moment a fault meets a request to its end, whichever deadline ends it."""
        worker = self.deployment.worker
        longest = max(worker.bootstrap_timeout_s, LONGEST_DEADLINE_S)
        return longest + worker.peer_dead_after_s + 1.0


def read_plan(path: Path) -> Plan:
    """Raises OSError, yaml.YAMLError or msgspec.ValidationError."""
    return msgspec.convert(yaml.safe_load(path.read_bytes()), Plan)

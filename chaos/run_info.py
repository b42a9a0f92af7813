"""`run.json`: where, when and with what a run was made."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import secrets
import socket
import subprocess
import sys
import time
from pathlib import Path

from chaos.records import ClockPair, RunInfo
from chaos.scenario import Scenario
from chaos.tools import version_of
from chaos.worker import router_flags

SCHEMA = "severance.run/1"
_PACKAGES = (
    "torch",
    "sglang-router",
    "toxiproxy-python",
    "pyzmq",
    "msgspec",
    "locust",
    "opentelemetry-sdk",
)
_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "SEVERANCE_TOXIPROXY", "PYTHONHASHSEED")


def new_run_id(scenario: Scenario) -> str:
    """Scenario, second and six random digits: unique enough to sort and to search by."""
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    return f"{scenario.name}-{stamp}-{secrets.token_hex(3)}"


def describe_run(
    run_id: str, scenario: Scenario, regression: str | None, toxiproxy: Path | None
) -> RunInfo:
    return RunInfo(
        schema=SCHEMA,
        run_id=run_id,
        scenario=scenario.name,
        seed=scenario.seed,
        regression=regression,
        argv=tuple(sys.argv),
        host=socket.gethostname(),
        commit=_commit(),
        versions=_versions(toxiproxy),
        environment={name: os.environ[name] for name in _VARIABLES if name in os.environ},
        router_flags=tuple(router_flags(scenario.deployment.router)),
        clock=ClockPair(wall_ns=time.time_ns(), mono_ns=time.monotonic_ns()),
    )


def _versions(toxiproxy: Path | None) -> dict[str, str]:
    versions = {"python": platform.python_version(), "system": platform.platform()}
    for name in ("severance", *_PACKAGES):
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = "not installed"
    versions["toxiproxy"] = (version_of(toxiproxy) if toxiproxy else None) or "unknown"
    return versions


def _commit() -> str:
    """Commit of the checkout that we run from, with ``+`` if it is changed; empty outside of one."""
    home = Path(__file__).resolve().parent.parent
    try:
        head = _git(home, "rev-parse", "HEAD")
        return f"{head}+" if head and _git(home, "status", "--porcelain") else head
    except (OSError, subprocess.SubprocessError):
        return ""


def _git(home: Path, *command: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(home), *command], capture_output=True, text=True, timeout=5, check=True
    )
    return done.stdout.strip()

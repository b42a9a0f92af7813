"""What a figure was measured on: by what it is, without names of hosts or paths."""

from __future__ import annotations

import importlib.metadata
import platform
from pathlib import Path

import msgspec
import psutil

_PACKAGES = ("torch", "pyzmq", "msgspec", "locust", "sglang-router")
QUIET_BELOW_CORES = 0.2


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """``foreign_cores``: CPU that others used in the second before the first benchmark."""

    cpu: str
    cores: int
    memory_gib: int
    system: str
    versions: dict[str, str]
    foreign_cores: float

    @property
    def is_quiet(self) -> bool:
        return self.foreign_cores < QUIET_BELOW_CORES

    def is_same(self, other: Machine) -> bool:
        """Figures of the two may stand in one table."""
        return msgspec.structs.replace(self, foreign_cores=0.0) == msgspec.structs.replace(
            other, foreign_cores=0.0
        )


def describe_machine() -> Machine:
    """Takes a second, in which it looks how busy the machine is."""
    cores = psutil.cpu_count() or 1
    return Machine(
        cpu=_cpu_model(),
        cores=cores,
        memory_gib=round(psutil.virtual_memory().total / (1 << 30)),
        system=f"{platform.system()} {platform.machine()}",
        versions={"python": platform.python_version()} | _versions(),
        foreign_cores=round(psutil.cpu_percent(interval=1.0) / 100 * cores, 2),
    )


def _versions() -> dict[str, str]:
    return {name: importlib.metadata.version(name) for name in _PACKAGES}


def _cpu_model() -> str:
    """Model, family and whether it is virtual, as Linux tells."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor() or "unknown CPU"
    facts = {
        key.strip(): value.strip()
        for key, _, value in (line.partition(":") for line in text.splitlines())
        if value
    }
    virtual = ", virtual" if "hypervisor" in facts.get("flags", "") else ""
    family, model = facts.get("cpu family", "?"), facts.get("model", "?")
    return f"{facts.get('model name', 'unknown CPU')} (family {family}, model {model}{virtual})"

"""`severance doctor`: is everything here that a run needs, and if not, how to get it."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import resource
import sys
from collections.abc import Callable

from msgspec import Struct
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from chaos.errors import ChaosError, ToolMissing
from chaos.ports import PortPool
from chaos.tools import TOXIPROXY_VERSION, find_toxiproxy, require_toxiproxy, too_old, version_of

_FILES_NEEDED = 1024
_PORTS_NEEDED = 16
_PACKAGES = ("torch", "sglang-router", "toxiproxy-python", "pyzmq", "locust", "opentelemetry-sdk")


class Finding(Struct, frozen=True, kw_only=True):
    """``ok`` None: worth knowing, stops nothing. ``advice``: the next step."""

    what: str
    ok: bool | None
    found: str
    advice: str = ""


def examine(fix: bool) -> list[Finding]:
    """Look at everything; with ``fix``, build toxiproxy if it is missing."""
    looks: list[Callable[[], Finding]] = [
        _system,
        _python,
        lambda: _toxiproxy(fix),
        *[lambda name=name: _package(name) for name in _PACKAGES],
        _cores,
        _threads,
        _ports,
        _open_files,
    ]
    return [look() for look in looks]


def missing(findings: list[Finding]) -> list[Finding]:
    return [finding for finding in findings if finding.ok is False]


def print_findings(findings: list[Finding], console: Console | None = None) -> None:
    """One table; the advice stands where something is missing."""
    table = Table(box=None, pad_edge=False, show_header=False)
    words = {True: "[green]ok[/]", False: "[bold red]missing[/]", None: "[yellow]note[/]"}
    for finding in findings:
        text = escape(finding.found + (f"\n→ {finding.advice}" if finding.advice else ""))
        table.add_row(words[finding.ok], finding.what, text)
    (console or Console(highlight=False)).print(table)


def _system() -> Finding:
    linux = sys.platform == "linux"
    return Finding(
        what="system",
        ok=linux,
        found=f"{platform.system()} {platform.release()}",
        advice="" if linux else "runs need Linux (/proc, pidfd, parent death signal)",
    )


def _python() -> Finding:
    return Finding(what="python", ok=sys.version_info >= (3, 11), found=platform.python_version())


def _toxiproxy(fix: bool) -> Finding:
    try:
        binary = require_toxiproxy() if fix else find_toxiproxy()
    except ToolMissing as error:
        return Finding(what="toxiproxy", ok=False, found="not here", advice=str(error))
    if binary is None:
        return Finding(
            what="toxiproxy",
            ok=False,
            found="not here",
            advice=f"`severance doctor --fix` builds {TOXIPROXY_VERSION} with Go",
        )
    version = version_of(binary)
    if version is not None and too_old(version):
        return Finding(
            what="toxiproxy",
            ok=False,
            found=f"{version} at {binary}",
            advice=f"too old; use {TOXIPROXY_VERSION} (unset SEVERANCE_TOXIPROXY, or take it off PATH)",
        )
    return Finding(what="toxiproxy", ok=True, found=f"{version or 'version unknown'} at {binary}")


def _package(name: str) -> Finding:
    try:
        return Finding(what=name, ok=True, found=importlib.metadata.version(name))
    except importlib.metadata.PackageNotFoundError:
        return Finding(
            what=name,
            ok=False,
            found="not installed",
            advice=f"install it into {sys.prefix}: pip install {name}",
        )


def _cores() -> Finding:
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    advice = "" if cores >= 2 else "two workers share one core: expect long queues"
    return Finding(what="cores", ok=True if cores >= 2 else None, found=str(cores), advice=advice)


def _threads() -> Finding:
    value = os.environ.get("OMP_NUM_THREADS", "")
    return Finding(
        what="threads",
        ok=True,
        found=f"one a worker (OMP_NUM_THREADS here: {value or 'not set'}; workers get 1)",
    )


def _ports() -> Finding:
    pool = PortPool("127.0.0.1")
    try:
        for _ in range(_PORTS_NEEDED):
            pool.take()
    except ChaosError as error:
        return Finding(what="ports", ok=False, found=str(error), advice="end what uses them")
    finally:
        pool.close()
    return Finding(what="ports", ok=True, found=f"{_PORTS_NEEDED} free below the ephemeral range")


def _open_files() -> Finding:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    enough = soft == resource.RLIM_INFINITY or soft >= _FILES_NEEDED
    return Finding(
        what="open files",
        ok=enough,
        found=str(soft),
        advice="" if enough else f"raise the limit first: ulimit -n {_FILES_NEEDED}",
    )

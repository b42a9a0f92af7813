"""Which process of this machine listens on an address: by socket, never by name."""

from __future__ import annotations

import os
from pathlib import Path

from chaos import proc
from chaos.links import Endpoint
from chaos.proc import Identity

_LISTEN = "0A"


def pid_of(endpoint: Endpoint) -> int | None:
    """None: nobody here, or a process of another user. Of several (a forked server) the eldest."""
    inodes = _listening_inodes(endpoint.port)
    if not inodes:
        return None
    holders = [pid for pid in _pids() if inodes & _inodes(pid)]
    ages = [(stat.started_ticks, pid) for pid in holders if (stat := proc.read_stat(pid))]
    return min(ages)[1] if ages else None


def family(pid: int) -> tuple[Identity, ...]:
    """The process and all that descend from it, by exact identity."""
    parents: dict[int, list[int]] = {}
    for other in _pids():
        parents.setdefault(_parent(other), []).append(other)
    found, queue = [], [pid]
    while queue:
        one = queue.pop()
        stat = proc.read_stat(one)
        if stat is not None and stat.state not in ("Z", "X"):
            found.append(Identity(pid=one, started_ticks=stat.started_ticks))
        queue += parents.get(one, [])
    return tuple(found)


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _parent(pid: int) -> int:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return 0
    return int(text.rpartition(")")[2].split()[1])


def _listening_inodes(port: int) -> set[str]:
    wanted = f":{port:04X}"
    found = set()
    for name in ("tcp", "tcp6"):
        try:
            rows = Path(f"/proc/net/{name}").read_text(encoding="ascii").splitlines()[1:]
        except OSError:
            continue
        for fields in (row.split() for row in rows):
            if fields[3] == _LISTEN and fields[1].endswith(wanted):
                found.add(fields[9])
    return found


def _inodes(pid: int) -> set[str]:
    found: set[str] = set()
    try:
        entries = os.scandir(f"/proc/{pid}/fd")
    except OSError:
        return found
    with entries:
        for entry in entries:
            try:
                target = os.readlink(entry.path)
            except OSError:
                continue
            if target.startswith("socket:["):
                found.add(target[8:-1])
    return found

"""Reads /proc: who a process is, whether it lives, what it has open. Never finds anything by name."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from msgspec import Struct

from chaos.links import Endpoint
from chaos.spawn import LEADER_VARIABLE

RUN_VARIABLE = "SEVERANCE_RUN"
"""Set in the environment of every process of a run; children of children carry it too."""

_ESTABLISHED, _LISTEN = "01", "0A"


class ProcessStat(Struct, frozen=True, kw_only=True):
    """From /proc/PID/stat. ``started_ticks``: clock ticks after boot, unique together with the pid."""

    pid: int
    state: str
    started_ticks: int


class Identity(Struct, frozen=True, kw_only=True):
    """Exactly one process, also after its pid was given to another."""

    pid: int
    started_ticks: int


def read_stat(pid: int) -> ProcessStat | None:
    """None if there is no such process."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The command may hold spaces and parentheses; the fields begin after the last one.
    fields = text.rpartition(")")[2].split()
    return ProcessStat(pid=pid, state=fields[0], started_ticks=int(fields[19]))


def alive(identity: Identity) -> bool:
    """Whether exactly this process runs (a zombie does not)."""
    stat = read_stat(identity.pid)
    return (
        stat is not None
        and stat.started_ticks == identity.started_ticks
        and stat.state not in ("Z", "X")
    )


def send(identity: Identity, number: signal.Signals) -> bool:
    """Signal exactly this process; False if it is gone.

    The pid file descriptor is opened before the identity is checked, so the pid cannot change hands
    between the check and the signal.
    """
    try:
        handle = os.pidfd_open(identity.pid)
    except OSError:
        return False
    try:
        if not alive(identity):
            return False
        signal.pidfd_send_signal(handle, number)
        return True
    except ProcessLookupError:
        return False
    finally:
        os.close(handle)


def wait_gone(identities: list[Identity], timeout_s: float) -> list[Identity]:
    """Wait until none of them lives; returns those that still do."""
    deadline = time.monotonic() + timeout_s
    while True:
        left = [identity for identity in identities if alive(identity)]
        if not left or time.monotonic() >= deadline:
            return left
        time.sleep(0.01)


def family(leader: int, run_id: str) -> list[Identity]:
    """A process of a run and all that it started, also what it left behind when it died.

    A child may have made a session of its own, or have another parent by now; the environment that it was
    started with still names our run and the leader.
    """
    ours, led = f"{RUN_VARIABLE}={run_id}", f"{LEADER_VARIABLE}={leader}"
    found = []
    for entry in os.listdir("/proc"):
        stat = read_stat(int(entry)) if entry.isdigit() else None
        if stat is None or stat.state in ("Z", "X"):
            continue
        marks = environment(stat.pid)
        if ours in marks and (led in marks or stat.pid == leader):
            found.append(Identity(pid=stat.pid, started_ticks=stat.started_ticks))
    return found


def environment(pid: int) -> list[str]:
    """KEY=VALUE entries that the process was started with; empty if it is gone or not ours."""
    try:
        data = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return []
    return data.decode("utf-8", "replace").split("\0")


def num_connections(pid: int, peer: Endpoint) -> int:
    """Established TCP connections that process ``pid`` holds to ``peer`` (IPv4)."""
    rows, inodes, wanted = _tcp_rows(pid), _socket_inodes(pid), _hex_address(peer)
    return sum(row.live and row.remote == wanted and row.inode in inodes for row in rows)


def clients_of(pid: int, listen: Endpoint) -> frozenset[str]:
    """Inodes of the established connections that process ``pid`` has taken in on ``listen``."""
    rows, inodes, wanted = _tcp_rows(pid), _socket_inodes(pid), _hex_address(listen)
    mine = (row.inode for row in rows if row.live and row.local == wanted)
    return frozenset(inode for inode in mine if inode in inodes)


def strangers_to(pid: int, peer: Endpoint) -> frozenset[str]:
    """Inodes of established connections to ``peer`` that do not belong to process ``pid``: they go round
    it. Look twice: one that closes between the two reads shows up here once."""
    rows, inodes, wanted = _tcp_rows(pid), _socket_inodes(pid), _hex_address(peer)
    there = (row.inode for row in rows if row.live and row.remote == wanted)
    return frozenset(inode for inode in there if inode not in inodes)


def owner_of_port(port: int) -> int | None:
    """A process that listens on ``port``; None if there is none, or none that we may look into."""
    wanted = {
        row.inode for row in _tcp_rows(os.getpid()) if row.state == _LISTEN and row.port == port
    }
    if not wanted:
        return None
    pids = (int(entry) for entry in os.listdir("/proc") if entry.isdigit())
    return next((pid for pid in pids if wanted & _socket_inodes(pid)), None)


def listening_ports() -> set[int]:
    """Every TCP port of this machine that somebody listens on."""
    ports = set()
    for name in ("tcp", "tcp6"):
        try:
            lines = Path(f"/proc/net/{name}").read_text(encoding="ascii").splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            if fields[3] == _LISTEN:
                ports.add(int(fields[1].rpartition(":")[2], 16))
    return ports


def _socket_inodes(pid: int) -> set[str]:
    inodes: set[str] = set()
    try:
        entries = list(Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return inodes
    for entry in entries:
        try:
            target = os.readlink(entry)
        except OSError:
            continue
        if target.startswith("socket:["):
            inodes.add(target[8:-1])
    return inodes


class _TcpRow(Struct, frozen=True, kw_only=True):
    """One line of /proc/PID/net/tcp; addresses in hexadecimal."""

    local: str
    remote: str
    state: str
    inode: str

    @property
    def live(self) -> bool:
        return self.state == _ESTABLISHED

    @property
    def port(self) -> int:
        return int(self.local.rpartition(":")[2], 16)


def _tcp_rows(pid: int) -> list[_TcpRow]:
    """All IPv4 sockets of the process's network namespace."""
    try:
        lines = Path(f"/proc/{pid}/net/tcp").read_text(encoding="ascii").splitlines()[1:]
    except OSError:
        return []
    fields = (line.split() for line in lines)
    return [_TcpRow(local=f[1], remote=f[2], state=f[3], inode=f[9]) for f in fields]


def _hex_address(endpoint: Endpoint) -> str:
    """127.0.0.1:8080 as /proc/net/tcp writes it on this (little-endian) machine."""
    octets = [int(part) for part in endpoint.host.split(".")]
    number = int.from_bytes(bytes(octets), "little")
    return f"{number:08X}:{endpoint.port:04X}"

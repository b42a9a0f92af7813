"""How to undo a fault from outside, as it stands in `faults.jsonl` before the fault is made.

A run's own proxies and workers die with it. A deployment that somebody else started lives on, and so do
toxics on its proxies and processes that were stopped: whoever finds the file can mend those.
"""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path

import msgspec

from chaos import proc
from chaos.commands import run_command
from chaos.errors import ChaosError, ToxiproxyDown, ToxiproxyRefused, ToxiproxyTimeout
from chaos.links import Endpoint
from chaos.proc import Identity
from chaos.toxiproxy.clean import clean_proxy, is_clean, recreate_proxy
from chaos.toxiproxy.emergency import EmergencyClient
from chaos.toxiproxy.model import ProxySpec


class CleanProxy(msgspec.Struct, frozen=True, kw_only=True, tag_field="undo", tag="clean_proxy"):
    """Take every toxic off ``proxy`` and enable it. ``server``: the control API. ``listen`` and ``upstream``
    tell it from a proxy of the same name that another run has there by now."""

    server: Endpoint
    proxy: str
    listen: str
    upstream: str


class Continue(msgspec.Struct, frozen=True, kw_only=True, tag_field="undo", tag="continue"):
    """SIGCONT, to exactly this process."""

    process: Identity


class RunCommand(msgspec.Struct, frozen=True, kw_only=True, tag_field="undo", tag="run_command"):
    """Start a worker of somebody else's again, by their own command, unless it answers."""

    argv: tuple[str, ...]
    unless_answers: Endpoint


Undo = CleanProxy | Continue | RunCommand
_CALL_WITHIN_S = 1.0


def apply(undo: Undo) -> str:
    """Do it; returns what was done, or "" if there was nothing to do. Raises `ChaosError`."""
    if isinstance(undo, Continue):
        return _continue(undo.process)
    if isinstance(undo, RunCommand):
        return _run(undo)
    return _clean(undo)


def _continue(process: Identity) -> str:
    stat = proc.read_stat(process.pid)
    if stat is None or stat.state not in ("T", "t") or not proc.alive(process):
        return ""
    return f"continued pid {process.pid}" if proc.send(process, signal.SIGCONT) else ""


def _run(undo: RunCommand) -> str:
    address = (undo.unless_answers.host, undo.unless_answers.port)
    try:
        socket.create_connection(address, _CALL_WITHIN_S).close()
        return ""
    except OSError:
        run_command(undo.argv, Path(os.devnull))
    return f"ran {undo.argv[0]} for the worker on {undo.unless_answers}"


def _clean(undo: CleanProxy) -> str:
    client = EmergencyClient(undo.server, _CALL_WITHIN_S)
    spec = ProxySpec(name=undo.proxy, listen=undo.listen, upstream=undo.upstream)
    try:
        held = client.proxy(undo.proxy)
    except (ToxiproxyDown, ToxiproxyRefused):
        return ""
    if (held.listen, held.upstream) != (spec.listen, spec.upstream):
        return ""
    if is_clean(held, spec):
        return ""
    try:
        clean_proxy(client, undo.proxy)
    except ToxiproxyTimeout:
        # A toxic on a back-pressured link: nothing lives there that this could cut.
        recreate_proxy(client, spec)
    if not is_clean(client.proxy(undo.proxy), spec):
        raise ChaosError(f"proxy {undo.proxy} on {undo.server} is still not clean")
    return f"cleaned proxy {undo.proxy}"

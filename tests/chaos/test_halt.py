"""Halting in the middle of a fault: how long it takes, and that nothing keeps it from healing."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from chaos.codes import HealRung
from chaos.errors import Halted, JournalLost
from chaos.fault_spec import LinkFaultSpec
from chaos.fault_step import ActiveFaults, FaultStep
from chaos.faults.cuts import cut_links
from chaos.faults.stall import stall
from chaos.heal import URGENT, heal_links, unhealed
from chaos.interrupt import Brake
from chaos.journal import Journal
from chaos.links import Link
from chaos.records import EventKind, FaultEvent, FaultRecord, RunEvent, read_jsonl
from chaos.toxiproxy.server import ToxiproxyServer
from tests.chaos.test_heal import back_pressure, hang, swallowed_syns

Serve = Callable[..., ToxiproxyServer]
LinkTo = Callable[..., Link]
LIMIT_MS = 250.0
LEEWAY = float(os.environ.get("SEVERANCE_LEEWAY", "4"))
"""Tests share a machine with who knows what; the target itself is measured on a quiet one."""


def halted_step(
    fault: object, journal: Journal, brake: Brake, after_s: float = 0.8
) -> tuple[FaultStep, dict[str, float | None]]:
    """Run a fault, pull the brake in its middle; the ladder's times by rung."""
    step = FaultStep("f0", fault, journal, ActiveFaults(), {})  # type: ignore[arg-type]
    step.declare()
    threading.Timer(after_s, brake.halt, ["guard"]).start()
    with pytest.raises(Halted):
        step.run(brake)
    events = read_jsonl(journal.directory / "events.jsonl", RunEvent)
    ladder = {e.name.partition(":")[2]: e.value for e in events if e.kind is EventKind.LADDER}
    return step, ladder


def test_the_last_toxic_goes_at_once(
    serve: Serve, link_to: LinkTo, listener: socket.socket, journal: Journal, brake: Brake
) -> None:
    link = link_to(listener)
    server = serve(link)
    _, ladder = halted_step(stall(server, [link], 30), journal, brake)
    assert ladder["decision"] == 0
    gone_ms = ladder["toxics_gone"]
    assert gone_ms is not None
    print(f"MEASURED decision to last toxic gone: {gone_ms:.0f} ms")
    assert gone_ms < LIMIT_MS * LEEWAY
    assert server.client.proxy(link.proxy).toxics == ()


def test_also_when_a_back_pressured_link_hangs_the_api(
    serve: Serve, link_to: LinkTo, listener: socket.socket
) -> None:
    link = link_to(listener)
    server = serve(link)
    with back_pressure(link, listener):
        hang(server, link)
        report = heal_links(server, [link], URGENT)
    print(f"MEASURED urgent heal of a hung link: {report.ms:.0f} ms by {report.rung}")
    assert report.healed
    assert report.rung in (HealRung.RECREATE_PROXY, HealRung.RESPAWN_SERVER)
    assert report.ms < LIMIT_MS * LEEWAY


def test_also_when_the_whole_api_hangs(serve: Serve, link_to: LinkTo) -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=1) as listener:
        listener.settimeout(5)
        link = link_to(listener)
        server = serve(link)
        with back_pressure(link, listener), swallowed_syns(listener):
            with socket.create_connection((link.listen.host, link.listen.port), 5):
                hang(server, link)
                report = heal_links(server, [link], URGENT)
    gone_ms = report.gone_ms
    assert gone_ms is not None
    print(f"MEASURED urgent heal of a dead API: gone {gone_ms:.0f} ms, serving {report.ms:.0f} ms")
    assert (report.rung, report.healed) == (HealRung.RESPAWN_SERVER, True)
    assert gone_ms < LIMIT_MS * LEEWAY


def test_a_halt_while_the_fault_is_still_being_made(
    serve: Serve, link_to: LinkTo, listener: socket.socket, journal: Journal, brake: Brake
) -> None:
    """The injection is in its canary when the brake is pulled: no toxic may come after the heal."""
    link = link_to(listener)
    server = serve(link)
    _, ladder = halted_step(stall(server, [link], 30), journal, brake, after_s=0.1)
    assert ladder["toxics_gone"] is not None
    assert unhealed(server, [link]) == []
    last = read_jsonl(journal.directory / "faults.jsonl", FaultRecord)[-1]
    assert last.event is FaultEvent.HEALED


def test_a_bug_in_a_fault_is_healed_and_proves_nothing(
    serve: Serve, link_to: LinkTo, listener: socket.socket, journal: Journal, brake: Brake
) -> None:
    link = link_to(listener)
    server = serve(link)
    fault = stall(server, [link], 0.2)

    def broken() -> None:
        raise ZeroDivisionError("a bug")

    fault.verify = broken  # type: ignore[method-assign,assignment]
    step = FaultStep("f0", fault, journal, ActiveFaults(), {})
    step.declare()
    assert step.run(brake).healed
    records = read_jsonl(journal.directory / "faults.jsonl", FaultRecord)
    assert [r.event for r in records][-3:] == [
        FaultEvent.UNPROVEN,
        FaultEvent.HEALING,
        FaultEvent.HEALED,
    ]
    assert records[-3].error == "ZeroDivisionError: a bug"
    assert unhealed(server, [link]) == []


def full_disk(directory: Path) -> None:
    """From now on nothing more can be written to faults.jsonl: ENOSPC, as on a full disk."""
    path = directory / "faults.jsonl"
    path.rename(directory / "until-then.jsonl")
    path.symlink_to("/dev/full")


def test_a_full_disk_makes_no_fault(
    serve: Serve, link_to: LinkTo, listener: socket.socket, journal: Journal, brake: Brake
) -> None:
    link = link_to(listener)
    server = serve(link)
    (journal.directory / "faults.jsonl").symlink_to("/dev/full")
    step = FaultStep("f0", stall(server, [link], 0.2), journal, ActiveFaults(), {})
    with pytest.raises(JournalLost, match="No space left"):
        step.declare()
    assert step.run(brake).healed, "even then: write-ahead failed, so nothing was made"
    assert unhealed(server, [link]) == []


def test_a_disk_that_fills_up_during_a_fault_does_not_keep_it_on(
    serve: Serve, link_to: LinkTo, listener: socket.socket, journal: Journal, brake: Brake
) -> None:
    link = link_to(listener)
    server = serve(link)
    step = FaultStep("f0", stall(server, [link], 1.0), journal, ActiveFaults(), {})
    step.declare()
    threading.Timer(0.6, full_disk, [journal.directory]).start()
    assert step.run(brake).healed
    assert unhealed(server, [link]) == []
    begun = read_jsonl(journal.directory / "until-then.jsonl", FaultRecord)
    assert begun[-1].event is not FaultEvent.HEALED, "the line is lost, the heal is not"
    (journal.directory / "faults.jsonl").unlink()


def spec(mode: str) -> LinkFaultSpec:
    import msgspec

    return msgspec.convert(
        {"kind": "link", "mode": mode, "links": ["kv:*"], "for_s": 1}, LinkFaultSpec
    )


THIEF = """
import socket, sys
thief = socket.socket()
thief.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
try:
    thief.bind(("127.0.0.1", int(sys.argv[1])))
    thief.listen()
    print("stolen", flush=True)
except OSError as error:
    print(error.strerror, flush=True)
sys.stdin.read()
"""


def test_the_port_of_a_refused_link_cannot_be_stolen(
    serve: Serve, link_to: LinkTo, listener: socket.socket
) -> None:
    link = link_to(listener)
    server = serve(link)
    with socket.create_connection((link.listen.host, link.listen.port), 5):
        fault = cut_links(spec("refuse"), server, [link])
        fault.inject()
    command = [sys.executable, "-c", THIEF, str(link.listen.port)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as thief:
        assert thief.stdout is not None
        assert thief.stdout.readline() == "Address already in use\n"
        assert fault.heal().rung is HealRung.REMOVE_TOXICS
        thief.communicate("", timeout=5)
    assert unhealed(server, [link]) == []


def test_a_stolen_port_is_named_and_costs_no_other_link(
    serve: Serve, link_to: LinkTo, listener: socket.socket
) -> None:
    """Disabled behind our back, so that nobody holds the port."""
    link = link_to(listener)
    other = Link(
        name=type(link.name)(kind=link.name.kind, prefill="p0", decode="d1"),
        listen=link_to(listener).listen,
        upstream=link.upstream,
    )
    server = serve(link, other)
    pid = server.pid
    server.client.disable(link.proxy)
    command = [sys.executable, "-c", THIEF, str(link.listen.port)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as thief:
        assert thief.stdout is not None
        assert thief.stdout.readline() == "stolen\n"
        report = heal_links(server, [link, other])
        assert not report.healed
        assert f"was taken by pid {thief.pid}" in report.left[0]
        assert len(report.left) == 1
        assert server.pid == pid, "the other links were not cut for nothing"
        thief.communicate("", timeout=5)
    assert heal_links(server, [link, other]).healed, "once the thief is gone"


def test_two_runs_side_by_side_do_not_touch_each_other(
    serve: Serve, link_to: LinkTo, listener: socket.socket
) -> None:
    """Same link names on two servers: a heal of one leaves the other's fault alone."""
    mine, theirs = link_to(listener), link_to(listener)
    ours, others = serve(mine), serve(theirs)
    first, second = stall(ours, [mine], 5), stall(others, [theirs], 5)
    first.inject()
    second.inject()
    begun = time.monotonic()
    assert first.heal().healed
    from chaos.undo import apply

    assert [apply(act) for act in first.undo()] == [""], "already clean"
    assert len(others.client.proxy(theirs.proxy).toxics) == 2
    assert unhealed(others, [theirs]) == [theirs]
    assert second.heal().healed
    assert time.monotonic() - begun < 20

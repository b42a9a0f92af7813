"""A fault step writes ahead, verifies, and heals whatever happens."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import zmq

from chaos.codes import AbortReason, HealRung, Signal
from chaos.errors import Halted, ToxiproxyDown
from chaos.fault_step import ActiveFaults, FaultStep
from chaos.faults.blackhole import blackhole
from chaos.faults.declaration import Declaration, HealReport, Proof
from chaos.faults.stall import stall
from chaos.interrupt import Brake
from chaos.journal import Journal
from chaos.links import Link
from chaos.records import FaultEvent, FaultRecord, read_jsonl
from chaos.toxiproxy.server import ToxiproxyServer
from chaos.undo import Undo

Serve = Callable[..., ToxiproxyServer]
LinkTo = Callable[[socket.socket], Link]


class FileFault:
    """A real fault on a real file: injected while the file is there. Notes what was on disk by then."""

    declaration = Declaration(
        kind="file",
        mode="there",
        permits=frozenset({AbortReason.PEER_DEAD}),
        silences=frozenset({Signal.LEDGER}),
    )
    links: tuple[str, ...] = ()

    def __init__(self, path: Path, records: Path, hold_s: float = 0.0, ttl_s: float = 30.0) -> None:
        self.workers: tuple[str, ...] = ("d0",)
        self.path = path
        self.records = records
        self.hold_s = hold_s
        self.ttl_s = ttl_s
        self.on_disk_at: dict[str, list[FaultEvent]] = {}
        self.refuses = False
        self.num_heals = 0

    def _note(self, act: str) -> None:
        self.on_disk_at[act] = [record.event for record in read_jsonl(self.records, FaultRecord)]

    def inject(self) -> None:
        self._note("inject")
        if self.refuses:
            raise ToxiproxyDown("nobody home")
        self.path.touch()

    def verify(self) -> Proof:
        return Proof(proven=self.path.exists(), text="seen")

    def undo(self) -> tuple[Undo, ...]:
        return ()

    def heal(self, urgent: bool = False) -> HealReport:
        self._note("heal")
        self.num_heals += 1
        self.path.unlink(missing_ok=True)
        return HealReport(rung=HealRung.REMOVE_TOXICS, ms=1.0, rungs=())


@pytest.fixture
def fault(tmp_path: Path) -> FileFault:
    return FileFault(tmp_path / "broken", tmp_path / "faults.jsonl")


def step_of(fault: FileFault, journal: Journal, active: ActiveFaults | None = None) -> FaultStep:
    step = FaultStep("f0", fault, journal, active or ActiveFaults(), {"d0": "i1"})
    step.declare()
    return step


def events(tmp_path: Path) -> list[FaultEvent]:
    return [record.event for record in read_jsonl(tmp_path / "faults.jsonl", FaultRecord)]


def test_each_act_is_on_disk_before_it_is_done(
    fault: FileFault, journal: Journal, brake: Brake, tmp_path: Path
) -> None:
    step_of(fault, journal).run(brake)
    declared = [FaultEvent.DECLARED, FaultEvent.INJECTING]
    assert fault.on_disk_at["inject"] == declared
    proven = [*declared, FaultEvent.INJECTED, FaultEvent.VERIFIED]
    assert fault.on_disk_at["heal"] == [*proven, FaultEvent.HEALING]
    assert events(tmp_path) == [*proven, FaultEvent.HEALING, FaultEvent.HEALED]
    last = read_jsonl(tmp_path / "faults.jsonl", FaultRecord)[-1]
    assert (last.permits, last.silences, last.rung) == (
        ("peer_dead",),
        ("ledger",),
        "remove_toxics",
    )
    assert last.incarnations == {"d0": "i1"}


def test_a_pulled_brake_heals_in_the_middle_of_the_step(
    fault: FileFault, journal: Journal, brake: Brake, tmp_path: Path
) -> None:
    fault.hold_s = 30
    threading.Timer(0.2, brake.halt, ["guard"]).start()
    begun = time.monotonic()
    with pytest.raises(Halted):
        step_of(fault, journal).run(brake)
    assert time.monotonic() - begun < 2
    assert not fault.path.exists()
    assert events(tmp_path)[-1] is FaultEvent.HEALED
    assert FaultEvent.UNPROVEN not in events(tmp_path)


def test_the_ttl_heals_a_step_that_is_stuck(
    fault: FileFault, journal: Journal, brake: Brake
) -> None:
    fault.hold_s, fault.ttl_s = 3.0, 0.2
    healed_after: list[float] = []
    begun = time.monotonic()

    def watch() -> None:
        while not fault.num_heals:
            time.sleep(0.01)
        healed_after.append(time.monotonic() - begun)

    watcher = threading.Thread(target=watch)
    watcher.start()
    step_of(fault, journal).run(brake)
    watcher.join()
    assert healed_after[0] < 1.5
    assert fault.num_heals == 1, "the step's own heal found it healed"


def test_a_fault_that_cannot_be_made_is_unproven_and_healed(
    fault: FileFault, journal: Journal, brake: Brake, tmp_path: Path
) -> None:
    fault.refuses = True
    step_of(fault, journal).run(brake)
    assert events(tmp_path)[2:] == [FaultEvent.UNPROVEN, FaultEvent.HEALING, FaultEvent.HEALED]
    assert read_jsonl(tmp_path / "faults.jsonl", FaultRecord)[2].error == "nobody home"


def test_an_active_fault_explains_what_it_silences(
    fault: FileFault, journal: Journal, brake: Brake
) -> None:
    active = ActiveFaults()
    fault.hold_s = 0.4
    step = step_of(fault, journal, active)
    thread = threading.Thread(target=step.run, args=(brake,))
    thread.start()
    while not fault.path.exists():
        time.sleep(0.005)
    assert active.explains(Signal.LEDGER, "d0")
    assert not active.explains(Signal.LEDGER, "p0")
    assert not active.explains(Signal.HEALTH, "d0")
    thread.join()
    assert not active.explains(Signal.LEDGER, "d0")


@pytest.mark.parametrize("cut", [stall, blackhole])
def test_a_link_in_use_is_proven(
    cut: Callable[..., object], serve: Serve, listener: socket.socket, link_to: LinkTo
) -> None:
    link = link_to(listener)
    listener.close()
    with (
        zmq.Context() as context,
        context.socket(zmq.PULL) as pull,
        context.socket(zmq.PUSH) as push,
    ):
        pull.bind(f"tcp://{link.upstream}")
        server = serve(link)
        push.connect(f"tcp://{link.listen}")
        push.send(b"before")
        assert pull.recv() == b"before"
        fault = cut(server, [link], 0.2)
        fault.inject()  # type: ignore[attr-defined]
        proof = fault.verify()  # type: ignore[attr-defined]
        push.send(b"during")
        assert not pull.poll(200)
        report = fault.heal()  # type: ignore[attr-defined]
        push.linger = 0
    assert proof.proven, proof.text
    assert "1 worker connections" in proof.text
    assert report.healed
    assert "kv:p0-d0 passes" in report.detail


def test_a_link_that_nobody_uses_proves_nothing(
    serve: Serve, listener: socket.socket, link_to: LinkTo
) -> None:
    link = link_to(listener)
    listener.close()
    with zmq.Context() as context, context.socket(zmq.PULL) as pull:
        pull.bind(f"tcp://{link.upstream}")
        server = serve(link)
        fault = stall(server, [link], 0.2)
        fault.inject()
        first, second = fault.verify(), fault.verify()
        assert fault.heal().healed
    assert not first.proven
    assert not second.proven, "our own canary must not count as a user"
    assert "nobody uses this link" in second.text

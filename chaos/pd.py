"""`PdDeployment`: a deployment in the hands of a test: ask it, abort, cut it, see what it holds.

Whoever started it (`chaos.deployment.Deployment`); this here starts and ends nothing.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future

import msgspec

from chaos.answer import Answer, Prompt, ask
from chaos.codes import CutMode, Direction, ProcessMode
from chaos.deployment import Deployment
from chaos.errors import ChaosError, NotHealed, StillHeld, UsageError
from chaos.evidence_kinds import LEDGER
from chaos.fault_spec import FaultSpec, LinkFaultSpec, ProcessFaultSpec
from chaos.fault_step import ActiveFaults
from chaos.faults.build import build_fault
from chaos.faults.declaration import HealReport
from chaos.heal import heal_links, unhealed
from chaos.held_fault import HeldFault
from chaos.interrupt import Brake
from chaos.journal import Journal
from chaos.ledgers import LedgerError, ask_ledger
from chaos.links import Link, matches_any
from chaos.records import WorkerLedger
from chaos.rid_abort import abort_everywhere
from chaos.serving import wait_until_serving
from chaos.shield import signals_wait

AT_MOST_S = 60.0
_LOOK_S = 0.05


class PdDeployment:
    """``journal``: where `faults.jsonl` is written, ahead of every act. Not for several threads at once."""

    def __init__(self, deployment: Deployment, journal: Journal) -> None:
        self.deployment = deployment
        self._journal = journal
        self._active = ActiveFaults()
        self._held: list[HeldFault] = []
        self._num_faults = 0

    @property
    def url(self) -> str:
        """The router: POST /generate."""
        return f"http://{self.deployment.router}"

    @property
    def workers(self) -> tuple[str, ...]:
        """Names, prefill first: p0, d0."""
        return self.deployment.workers

    @property
    def links(self) -> tuple[str, ...]:
        """Names such as ``kv:p0-d0``."""
        return tuple(str(link) for link in self.deployment.links)

    def worker_url(self, worker: str) -> str:
        return f"http://{self.deployment.worker_endpoint(self._known(worker))}"

    def generate(
        self, text: str, max_new_tokens: int = 16, *, rid: str | None = None, within_s: float = 30
    ) -> Answer:
        """One request through the router; waits for its end. Never raises: see `Answer`."""
        prompt = Prompt(
            rid=rid or f"test-{secrets.token_hex(4)}", text=text, max_new_tokens=max_new_tokens
        )
        return ask(self.deployment.router, prompt, within_s)

    def send(
        self, text: str, max_new_tokens: int = 16, *, rid: str | None = None, within_s: float = 30
    ) -> Future[Answer]:
        """The same in the background; ``.result()`` waits."""
        future: Future[Answer] = Future()

        def run() -> None:
            future.set_result(self.generate(text, max_new_tokens, rid=rid, within_s=within_s))

        threading.Thread(target=run, name="send", daemon=True).start()
        return future

    def abort(self, rid: str) -> int:
        """Ask every worker to abort ``rid``; returns how many matched. A request that is still on its way
        matches nobody: wait until it is there."""
        endpoints = self.deployment.abort_endpoints
        if not endpoints:
            raise UsageError("this deployment has no abort by rid: close the request's connection")
        return abort_everywhere(list(endpoints.values()), rid)

    def ledger(self, worker: str) -> WorkerLedger:
        """What the worker holds right now. Raises `ChaosError` if it does not say."""
        try:
            return ask_ledger(self.deployment.worker_endpoint(self._known(worker)))
        except LedgerError as error:
            raise ChaosError(f"{worker} does not show its ledger: {error}") from error

    def require_released(self, within_s: float = 15.0) -> None:
        """Wait until no worker holds anything of any request. Raises `StillHeld`."""
        deadline = time.monotonic() + within_s
        while held := [line for name in self.workers for line in self._holds(name)]:
            if time.monotonic() > deadline:
                raise StillHeld(f"after {within_s:g} s: {'; '.join(held)}")
            time.sleep(_LOOK_S)

    def wait_serving(self, within_s: float | None = None) -> None:
        """Wait until requests complete through the router and on every pair: a router looks at its workers
        now and then, so it notices a worker that came back a second later. Raises `NotHealed`."""
        problems = self._serving(within_s)
        if problems:
            raise NotHealed("; ".join(problems))

    def cut(
        self,
        mode: CutMode | str,
        *links: str,
        at_most_s: float = AT_MOST_S,
        direction: Direction | str | None = None,
        of: CutMode | str | None = None,
        latency_ms: int | None = None,
        jitter_ms: int | None = None,
        rate_kb_s: int | None = None,
        after_bytes: int | None = None,
        period_s: float | None = None,
        duty: float | None = None,
    ) -> HeldFault:
        """For a ``with`` block: ``links`` (names or patterns) are cut in it. Fields as in a scenario file.

        Raises `UsageError` for what a scenario could not say either.
        """
        fields = {
            "kind": "link",
            "mode": mode,
            "links": links,
            "for_s": at_most_s,
            "direction": direction,
            "of": of,
            "latency_ms": latency_ms,
            "jitter_ms": jitter_ms,
            "rate_kb_s": rate_kb_s,
            "after_bytes": after_bytes,
            "period_s": period_s,
            "duty": duty,
        }
        spec = _spec(fields)
        assert isinstance(spec, LinkFaultSpec)
        for pattern in spec.links:
            self.matching(pattern)
        return self.hold(spec)

    def kill(self, worker: str, *, at_most_s: float = AT_MOST_S) -> HeldFault:
        """For a ``with`` block: the worker is dead in it (SIGKILL); it is started again at its end."""
        return self._process(ProcessMode.KILL, worker, {"restart_after_s": at_most_s})

    def pause(self, worker: str, *, at_most_s: float = AT_MOST_S) -> HeldFault:
        """For a ``with`` block: every process of the worker is stopped in it (SIGSTOP)."""
        return self._process(ProcessMode.PAUSE, worker, {"for_s": at_most_s})

    def hold(self, spec: FaultSpec) -> HeldFault:
        """Any fault that a scenario can name, for a ``with`` block."""
        self._num_faults += 1
        held = HeldFault(
            f"t{self._num_faults}-{spec.mode}",
            build_fault(spec, self.deployment),
            self._journal,
            self._active,
        )
        self._held.append(held)
        return held

    def matching(self, pattern: str) -> tuple[Link, ...]:
        """Raises `UsageError` if no link has such a name."""
        found = tuple(link for link in self.deployment.links if matches_any([pattern], link.name))
        if not found:
            raise UsageError(f"{pattern} matches no link, use one of {', '.join(self.links)}")
        return found

    @property
    def faults(self) -> tuple[HeldFault, ...]:
        """Made since the last `mend`, ended or not."""
        return tuple(self._held)

    @property
    def was_hurt(self) -> bool:
        """Whether a fault was made since the last `mend`."""
        return bool(self._held)

    def mend(self, and_ask: bool = True) -> None:
        """End every fault that is still on, take every toxic off, start dead workers, continue stopped ones,
        and see that requests complete (``and_ask``). Raises `NotHealed`. Signals wait until it is done."""
        with signals_wait():
            for held in self._held:
                held.end()
            self._held.clear()
            problems = [*self._mend_links(), *self._mend_workers()]
            problems = problems or (self._serving() if and_ask else [])
        if problems:
            raise NotHealed("; ".join(problems))

    def _mend_links(self) -> list[str]:
        server = self.deployment.toxiproxy
        cut = unhealed(server, self.deployment.links)
        report: HealReport | None = heal_links(server, cut) if cut else None
        return list(report.left) if report else []

    def _mend_workers(self) -> list[str]:
        return [problem for name in self.workers if (problem := self._mend_worker(name))]

    def _mend_worker(self, name: str) -> str:
        try:
            if self.deployment.worker_runs(name):
                self.deployment.resume_worker(name)
            else:
                self.deployment.restart_worker(name)
        except ChaosError as error:
            return f"{name}: {error}"
        return ""

    def _serving(self, within_s: float | None = None) -> list[str]:
        brake = Brake()
        try:
            problem = wait_until_serving(
                self.deployment, brake, within_s or self.deployment.ready_within_s
            )
        finally:
            brake.close()
        return [f"it does not serve any more: {problem}"] if problem else []

    def _holds(self, worker: str) -> list[str]:
        """By its ledger, or where it has none by its metrics."""
        if LEDGER not in self.deployment.cannot_show:
            return _held_in(worker, self.ledger)
        try:
            load = self.deployment.load_of(worker)
        except ChaosError as error:
            return [str(error)]
        text = f"{worker}: {load.running:g} requests run, {load.waiting:g} wait"
        return [] if load.is_idle else [text]

    def _process(self, mode: ProcessMode, worker: str, fields: dict[str, float]) -> HeldFault:
        spec = _spec({"kind": "process", "mode": mode, "worker": self._known(worker), **fields})
        assert isinstance(spec, ProcessFaultSpec)
        return self.hold(spec)

    def _known(self, worker: str) -> str:
        if worker not in self.workers:
            raise UsageError(f"there is no worker {worker}, use one of {', '.join(self.workers)}")
        return worker


def _spec(fields: Mapping[str, object]) -> FaultSpec:
    given = {name: value for name, value in fields.items() if value is not None}
    try:
        spec: FaultSpec = msgspec.convert(given, FaultSpec)
        return spec
    except msgspec.ValidationError as error:
        raise UsageError(f"no such fault: {error}") from error


def _held_in(worker: str, ledger_of: Callable[[str], WorkerLedger]) -> list[str]:
    """One line for each thing of a request that the worker still has."""
    try:
        ledger = ledger_of(worker)
    except ChaosError as error:
        return [str(error)]
    held = [f"{worker}: {one.count} {one.resource} of {one.owner}" for one in ledger.holders]
    if ledger.requests or ledger.rid_to_state:
        held.append(f"{worker}: {ledger.requests} requests, {ledger.rid_to_state} open answers")
    return [*held, *(f"{worker}: {law}" for law in ledger.conservation)]

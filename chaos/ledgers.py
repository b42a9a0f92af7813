"""Asks workers for their ledgers: once, until idle, or all the time while the load runs."""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Sequence

import msgspec

from chaos.deployment import Deployment
from chaos.errors import ChaosError
from chaos.evidence_kinds import LEDGER
from chaos.freshness import Freshness
from chaos.http import fetch
from chaos.interrupt import Brake
from chaos.journal import Journal
from chaos.keys import authorization
from chaos.links import Endpoint
from chaos.records import WorkerLedger

_DECODER = msgspec.json.Decoder(WorkerLedger)


class LedgerError(Exception):
    """A worker did not show its ledger; the text says why."""


def ask_ledger(worker: Endpoint, timeout_s: float = 1.0) -> WorkerLedger:
    """Raises `LedgerError`."""
    try:
        reply = fetch(worker, "/ledger", timeout_s=timeout_s, headers=authorization())
        if not reply.ok:
            raise LedgerError(f"HTTP {reply.status}")
        return _DECODER.decode(reply.body)
    except (OSError, http.client.HTTPException, msgspec.DecodeError) as error:
        raise LedgerError(f"{type(error).__name__}: {error}") from error


def sample_all(deployment: Deployment, journal: Journal, phase: str) -> dict[str, WorkerLedger]:
    """One line of `ledger.jsonl` for each worker; returns those that answered. None where there is no such
    thing."""
    answers: dict[str, WorkerLedger] = {}
    if LEDGER in deployment.cannot_show:
        return answers
    for name in deployment.workers:
        try:
            ledger = ask_ledger(deployment.worker_endpoint(name))
        except LedgerError as error:
            journal.ledger(phase, name, None, str(error))
            continue
        journal.ledger(phase, name, ledger)
        answers[name] = ledger
    return answers


def num_waiting(deployment: Deployment) -> int | None:
    """Requests in the waiting queues of all workers; None if one does not answer."""
    try:
        if LEDGER in deployment.cannot_show:
            return int(sum(deployment.load_of(name).waiting for name in deployment.workers))
        ledgers = [ask_ledger(deployment.worker_endpoint(name)) for name in deployment.workers]
    except (LedgerError, ChaosError):
        return None
    return sum(ledger.queues.get("waiting", 0) for ledger in ledgers)


def wait_idle(deployment: Deployment, brake: Brake, within_s: float) -> bool:
    """Wait until every worker says that it is idle and holds no request."""

    def idle() -> bool:
        try:
            if LEDGER in deployment.cannot_show:
                return all(deployment.load_of(name).is_idle for name in deployment.workers)
            ledgers = [ask_ledger(deployment.worker_endpoint(name)) for name in deployment.workers]
        except (LedgerError, ChaosError):
            return False
        return all(
            ledger.idle and not ledger.requests and not ledger.rid_to_state for ledger in ledgers
        )

    return brake.wait_for(idle, within_s, poll_s=0.1)


class LedgerSampler:
    """Samples every worker each ``period_s``, on an absolute schedule, one thread a worker."""

    def __init__(
        self,
        deployment: Deployment,
        journal: Journal,
        freshness: Freshness,
        period_s: float = 0.5,
    ) -> None:
        self._deployment = deployment
        self._journal = journal
        self._freshness = freshness
        self._period_s = period_s
        self._stopping = threading.Event()
        self._threads: Sequence[threading.Thread] = ()

    def start(self) -> None:
        names = () if LEDGER in self._deployment.cannot_show else self._deployment.workers
        self._threads = [
            threading.Thread(target=self._run, args=(name,), name=f"ledger-{name}", daemon=True)
            for name in names
        ]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Returns when the last sample is written."""
        self._stopping.set()
        for thread in self._threads:
            thread.join()

    def _run(self, name: str) -> None:
        due = time.monotonic()
        while not self._stopping.wait(max(0.0, due - time.monotonic())):
            self._sample(name)
            due = max(due + self._period_s, time.monotonic())

    def _sample(self, name: str) -> None:
        try:
            ledger = ask_ledger(self._deployment.worker_endpoint(name))
        except LedgerError as error:
            self._journal.ledger("load", name, None, str(error))
            return
        self._journal.ledger("load", name, ledger)
        self._freshness.seen_ledger(name, ledger)

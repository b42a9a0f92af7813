"""A plain client of a deployment, for tests."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable

import msgspec
import requests

from chaos.local import LocalDeployment
from chaos.records import WorkerLedger

TIMEOUT_S = 40.0
UNIT = "The quick brown fox jumps over the lazy dog. Pack my box with five dozen liquor jugs. "


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What came back: HTTP status, finish type, tokens, and the raw body."""

    status: int
    finish: str | None
    output_ids: tuple[int, ...]
    completion_tokens: int | None
    body: str


class Pending:
    """A request under way on a thread of its own."""

    def __init__(self, rid: str, url: str, prompt: str, max_new_tokens: int) -> None:
        self.rid = rid
        self._url = url
        self._prompt = prompt
        self._max_new_tokens = max_new_tokens
        self._answer: Answer | None = None
        self._failure: requests.RequestException | None = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        params = {"max_new_tokens": self._max_new_tokens, "ignore_eos": True, "temperature": 0}
        body = {"rid": self.rid, "text": self._prompt, "sampling_params": params}
        try:
            got = requests.post(f"{self._url}/generate", json=body, timeout=TIMEOUT_S)
        except requests.RequestException as error:
            self._failure = error
            return
        self._answer = _read(got)

    @property
    def is_open(self) -> bool:
        return self._thread.is_alive()

    def result(self) -> Answer:
        self._thread.join(TIMEOUT_S)
        if self._failure is not None:
            raise self._failure
        assert self._answer is not None, "the request never ended"
        return self._answer


def _read(got: requests.Response) -> Answer:
    body = got.json()
    meta = body.get("meta_info", {})
    return Answer(
        status=got.status_code,
        finish=(meta.get("finish_reason") or {}).get("type"),
        output_ids=tuple(body.get("output_ids", ())),
        completion_tokens=meta.get("completion_tokens"),
        body=got.text,
    )


class Front:
    """The router as a client sees it, and the workers as an operator does."""

    def __init__(self, deployment: LocalDeployment) -> None:
        self._deployment = deployment
        self._router = f"http://{deployment.router}"
        self._unified = f"http://{deployment.layout.control_worker.http}"
        self.baseline_pages = 4096 // 16

    def worker_url(self, worker: str) -> str:
        return f"http://{self._deployment.worker_endpoint(worker)}"

    def send(self, prompt: str, max_new_tokens: int = 8) -> Pending:
        return Pending(uuid.uuid4().hex, self._router, prompt, max_new_tokens)

    def send_unified(self, prompt: str, max_new_tokens: int = 8) -> Pending:
        return Pending(uuid.uuid4().hex, self._unified, prompt, max_new_tokens)

    def expected(self, prompt: str, max_new_tokens: int) -> tuple[int, ...]:
        return self.send_unified(prompt, max_new_tokens).result().output_ids

    def abort(self, rid: str, *workers: str) -> int:
        """Matches over all workers named."""
        return sum(_abort(self.worker_url(worker), rid) for worker in workers)

    def abort_unified(self, rid: str) -> int:
        return _abort(self._unified, rid)

    def stage(self, worker: str, rid: str) -> str | None:
        return _stage(self.worker_url(worker), rid)

    def unified_stage(self, rid: str) -> str | None:
        return _stage(self._unified, rid)

    def ledger(self, worker: str) -> WorkerLedger:
        got = requests.get(f"{self.worker_url(worker)}/ledger", timeout=5)
        return msgspec.json.decode(got.content, type=WorkerLedger)

    def is_clean(self, worker: str) -> bool:
        ledger = self.ledger(worker)
        whole = all(count.free == count.total for count in ledger.resources.values())
        empty = not (ledger.requests or ledger.rooms_open or ledger.rid_to_state or ledger.holders)
        return whole and empty and not ledger.conservation

    def wait_idle(self, within_s: float = 15.0) -> None:
        for worker in self._deployment.workers:
            wait_until(lambda worker=worker: self.is_clean(worker), within_s, f"{worker} clean")


def _abort(url: str, rid: str) -> int:
    got = requests.post(f"{url}/abort_request", json={"rid": rid}, timeout=5)
    assert got.status_code == 200
    matched: int = got.json()["matched"]
    return matched


def _stage(url: str, rid: str) -> str | None:
    got = requests.get(f"{url}/requests/{rid}", timeout=5)
    return got.json()[0]["stage"] if got.status_code == 200 else None


def wait_until(condition: Callable[[], bool], within_s: float, what: str) -> float:
    """Poll until it holds; returns the seconds it took."""
    began = time.monotonic()
    while not condition():
        assert time.monotonic() - began < within_s, f"not {what} after {within_s} s"
        time.sleep(0.01)  # polling a real process; there is no event to await
    return time.monotonic() - began


def prompt_of(length: int, tag: str = "") -> str:
    """``length`` bytes of text that begins with a page of its own."""
    head = f"{tag or uuid.uuid4().hex:<64}"[:64]
    return (head + UNIT * (length // len(UNIT) + 1))[:length]

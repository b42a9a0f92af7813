"""A prefill and a decode worker with toxiproxy on their three links, and no router between."""

from __future__ import annotations

import http.client
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from chaos.codes import LinkKind
from chaos.http import fetch, is_ok
from chaos.journal import Journal
from chaos.links import Endpoint, Link, LinkName
from chaos.ports import PortPool
from chaos.process import Launcher, ManagedProcess
from chaos.records import WorkerLedger
from chaos.tools import require_toxiproxy
from chaos.toxiproxy.server import ToxiproxyServer
from chaos.worker import ENVIRONMENT, severance_argv

HOST = "127.0.0.1"
STARTS_WITHIN_S = 40.0


def wait_until(condition: Callable[[], bool], within_s: float, what: str) -> float:
    """Poll until it holds; returns the seconds it took."""
    began = time.monotonic()
    while not condition():
        assert time.monotonic() - began < within_s, f"not {what} after {within_s} s"
        time.sleep(0.005)  # polling a real process; there is no event to await
    return time.monotonic() - began


def favor(pid: int) -> None:
    """Let a process and its children run before others, if we may.

    Liveness is judged by time, and a machine that runs something else beside the test would look like a
    dead peer. Where the kernel groups processes by session, their nice value says nothing to others; the
    group's does.
    """
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        for member in (str(pid), *children):
            Path(f"/proc/{member}/autogroup").write_text("-10")
    except OSError:
        return


class Half:
    """One worker: its command line, its process while it runs, and its HTTP side.

    ``patch``: a name of `tests.e2e.liveness.patched`, put into its scheduler process. ``log_to``: the file
    that it writes its log to, instead of the one that `Pair.log` reads.
    """

    def __init__(
        self,
        name: str,
        http: Endpoint,
        flags: Sequence[str],
        ports: Sequence[Endpoint],
        patch: str | None = None,
        log_to: Path | None = None,
    ) -> None:
        self.name = name
        self.http = http
        self.ports = tuple(ports)
        self.patch = patch
        self.log_to = log_to
        self.process: ManagedProcess | None = None
        self._flags = tuple(flags)

    @property
    def argv(self) -> list[str]:
        command = ["serve", "--worker-name", self.name, "--port", str(self.http.port), *self._flags]
        argv = severance_argv(command)
        if self.patch is not None:
            module = "tests.e2e.liveness.patched"
            argv = [sys.executable, "-m", module, self.patch, *command[1:]]
        if self.log_to is None:
            return argv
        return ["sh", "-c", 'log=$1; shift; exec "$@" >>"$log" 2>&1', "sh", str(self.log_to), *argv]

    @property
    def running(self) -> ManagedProcess:
        assert self.process is not None, f"{self.name} does not run"
        return self.process

    @property
    def scheduler_pid(self) -> int:
        pid = self.running.pid
        return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])

    def get(self, path: str, timeout_s: float = 5.0) -> bytes:
        reply = fetch(self.http, path, timeout_s=timeout_s)
        assert reply.ok, f"{self.name} {path}: {reply.status} {reply.body[:200]!r}"
        return reply.body

    def ledger(self) -> WorkerLedger:
        return msgspec.json.decode(self.get("/ledger"), type=WorkerLedger)

    def stage(self, rid: str) -> str | None:
        """Where a request stands; None if this half does not know it."""
        reply = fetch(self.http, f"/requests/{rid}", timeout_s=5.0)
        return msgspec.json.decode(reply.body)[0]["stage"] if reply.ok else None

    def metric(self, name: str) -> float:
        """The sum of a metric over its labels; 0 if it is not there."""
        pattern = rf"^{name}(?:\{{[^}}]*\}})? ([0-9.e+-]+)$"
        found = re.findall(pattern, self.get("/metrics").decode(), re.MULTILINE)
        return sum(map(float, found))

    def aborts(self, reason: str) -> float:
        """Requests that ended for this reason since the start."""
        pattern = rf'^severance_aborts_total\{{[^}}]*reason="{reason}"[^}}]*\}} ([0-9.e+-]+)$'
        return sum(map(float, re.findall(pattern, self.get("/metrics").decode(), re.MULTILINE)))

    def is_clean(self) -> bool:
        ledger = self.ledger()
        whole = all(count.free == count.total for count in ledger.resources.values())
        empty = not (ledger.requests or ledger.rooms_open or ledger.rid_to_state or ledger.holders)
        queues = not any(ledger.queues.values())
        return whole and empty and queues and not ledger.conservation and not ledger.double_frees

    def is_up(self) -> bool:
        return is_ok(self.http, "/health")

    def signal_scheduler(self, number: signal.Signals) -> None:
        """Signal the scheduler process alone; HTTP lives on."""
        os.kill(self.scheduler_pid, number)


class Pair:
    """``prefill`` and ``decode`` behind ``toxiproxy``. Workers run at the priority of the test.

    ``max_total_tokens``: of either half. ``patch`` and ``log_to``: by worker name.
    """

    def __init__(
        self,
        directory: Path,
        *,
        max_total_tokens: int,
        patch: dict[str, str] | None = None,
        log_to: dict[str, Path] | None = None,
        flags: Sequence[str] = (),
    ) -> None:
        self._ports = PortPool(HOST)
        self._launcher = Launcher(Journal(directory, f"liveness-{directory.name}"))
        self.log_directory = directory / "logs"
        take = self._ports.take
        bootstrap, control, kv = take(), take(), take()
        self.bootstrap = bootstrap
        self.links = {
            kind: Link(
                name=LinkName(kind=kind, prefill="p0", decode="d0"), listen=take(), upstream=end
            )
            for kind, end in (
                (LinkKind.BOOTSTRAP, bootstrap),
                (LinkKind.CONTROL, control),
                (LinkKind.KV, kv),
            )
        }
        shared = ["--max-total-tokens", str(max_total_tokens), *flags]
        prefill = ["--disaggregation-mode", "prefill", *shared]
        prefill += ["--disaggregation-bootstrap-port", str(bootstrap.port)]
        prefill += ["--disaggregation-control-port", str(control.port), *self._dial(LinkKind.KV)]
        decode = ["--disaggregation-mode", "decode", *shared]
        decode += ["--disaggregation-kv-port", str(kv.port)]
        decode += [*self._dial(LinkKind.BOOTSTRAP), *self._dial(LinkKind.CONTROL)]
        patches, logs = patch or {}, log_to or {}
        ports = (bootstrap, control)
        self.prefill = Half("p0", take(), prefill, ports, patches.get("p0"), logs.get("p0"))
        self.decode = Half("d0", take(), decode, (kv,), patches.get("d0"), logs.get("d0"))
        self.halves = (self.prefill, self.decode)
        self._api = take()
        self.toxiproxy = ToxiproxyServer(
            require_toxiproxy(), self._api, self._launcher, tuple(self.links.values())
        )

    def _dial(self, kind: LinkKind) -> list[str]:
        link = self.links[kind]
        return ["--link-map", f"{kind}:{link.upstream}={link.listen}"]

    def start(self) -> None:
        self._ports.release(self._api, *(link.listen for link in self.links.values()))
        self.toxiproxy.start()
        for process in self._launcher.processes:
            favor(process.pid)
        favor(os.getpid())
        for half in self.halves:
            self.start_half(half)
        for half in self.halves:
            self.wait_up(half)

    def start_half(self, half: Half) -> None:
        self._ports.release(half.http, *half.ports)
        half.process = self._launcher.start(half.name, half.argv, environment=ENVIRONMENT)

    def wait_up(self, half: Half) -> None:
        def is_up() -> bool:
            half.running.require_alive()
            favor(half.running.pid)
            return half.is_up()

        wait_until(is_up, STARTS_WITHIN_S, f"{half.name} up")

    def start_dead(self) -> None:
        """Start again whatever does not run."""
        for half in self.halves:
            if half.process is None or half.process.returncode() is not None:
                self.start_half(half)
                self.wait_up(half)

    def restart(self) -> None:
        """Both halves anew, on the same ports."""
        for half in self.halves:
            self.kill(half)
        for half in self.halves:
            self.start_half(half)
        for half in self.halves:
            self.wait_up(half)

    def kill(self, half: Half) -> None:
        """SIGKILL the worker, both of its processes."""
        assert half.running.kill() == []
        self._launcher.ended(half.running)
        self._launcher.forget(half.running)
        half.process = None

    def wait_clean(self, within_s: float = 10.0) -> float:
        """Until both halves hold nothing."""
        began = time.monotonic()
        for half in self.halves:
            try:
                wait_until(half.is_clean, within_s, f"{half.name} clean")
            except AssertionError as error:
                raise AssertionError(f"{error}: {half.ledger()}") from None
        return time.monotonic() - began

    def log(self, half: Half) -> str:
        return (self.log_directory / f"{half.name}.log").read_text(errors="replace")

    def stop(self) -> None:
        self._ports.close()
        assert self._launcher.stop_all() == []


def answers(half: Half, path: str) -> bool:
    """Whether a GET is answered at all."""
    try:
        fetch(half.http, path, timeout_s=2.0)
    except (OSError, http.client.HTTPException):
        return False
    return True

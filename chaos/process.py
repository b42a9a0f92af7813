"""Programs of a run: started so that they die with the runner, recorded before use, ended exactly."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

from chaos import proc
from chaos.errors import JournalLost, ProcessFailed
from chaos.journal import Journal
from chaos.proc import Identity
from chaos.records import ProcessRecord

_HELPER = Path(__file__).with_name("spawn.py")
# The death signal follows the thread that spawned, not the process: a server started from a worker
# thread dies when that thread ends. So one thread, which lives as long as this process, spawns all.
_spawner = ThreadPoolExecutor(max_workers=1, thread_name_prefix="spawner")


class ManagedProcess:
    """One program in a session of its own. ``log``: its stdout and stderr together."""

    def __init__(
        self,
        name: str,
        popen: subprocess.Popen[bytes],
        record: ProcessRecord,
        log: Path,
        run_id: str,
    ) -> None:
        self.name = name
        self.record = record
        self.log = log
        self._popen = popen
        self._run_id = run_id

    @property
    def identity(self) -> Identity:
        return Identity(pid=self.record.pid, started_ticks=self.record.started_ticks)

    @property
    def pid(self) -> int:
        return self.record.pid

    def returncode(self) -> int | None:
        """None while it runs; negative: ended by that signal."""
        return self._popen.poll()

    def signal(self, number: signal.Signals) -> None:
        """Signal the program itself; no-op if it has ended."""
        if self._popen.poll() is None:
            proc.send(self.identity, number)

    def wait(self, timeout_s: float) -> bool:
        """Wait for its end; False if it still runs."""
        try:
            self._popen.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return False
        return True

    def kill(self, timeout_s: float = 5.0) -> list[Identity]:
        """SIGKILL the program and what it started; returns whoever is still there."""
        self.signal(signal.SIGKILL)
        self.wait(timeout_s)
        return self._sweep(timeout_s)

    def members(self) -> list[Identity]:
        """Live processes of it: itself and all that it started."""
        return proc.family(self.pid, self._run_id)

    def tail(self, num_lines: int = 15) -> str:
        """End of its log, for an error message."""
        try:
            lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            return "(no log)"
        return "\n".join(lines[-num_lines:]) or "(empty log)"

    def require_alive(self) -> None:
        """Raise `ProcessFailed` with the log's tail if it has ended."""
        code = self.returncode()
        if code is not None:
            raise ProcessFailed(
                f"{self.name} ended early (exit code {code}). Its log {self.log} ends with:\n"
                f"{self.tail()}"
            )

    def _sweep(self, timeout_s: float) -> list[Identity]:
        deadline = time.monotonic() + timeout_s
        left = self.members()
        while left and time.monotonic() < deadline:
            for identity in left:
                proc.send(identity, signal.SIGKILL)
            proc.wait_gone(left, timeout_s=0.5)
            left = self.members()
        return left


class Launcher:
    """Starts programs for one run; knows them all, and ends them newest first."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self.logs = journal.directory / "logs"
        self.processes: list[ManagedProcess] = []

    def start(
        self,
        name: str,
        argv: Sequence[str],
        *,
        ports: Sequence[int] = (),
        nice: int = 0,
        environment: Mapping[str, str] | None = None,
    ) -> ManagedProcess:
        """Start ``argv``; on return it is in `processes.jsonl`. Its log is ``logs/NAME.log`` (appended)."""
        log = self.logs / f"{name}.log"
        log.parent.mkdir(exist_ok=True)
        variables = {**os.environ, **(environment or {}), proc.RUN_VARIABLE: self._journal.run_id}
        helper = [sys.executable, "-I", "-S", str(_HELPER), str(os.getpid()), str(nice), *argv]
        with log.open("ab") as output:
            popen = _spawner.submit(
                subprocess.Popen,
                helper,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=variables,
                start_new_session=True,
            ).result()
        stat = proc.read_stat(popen.pid)
        record = ProcessRecord(
            name=name,
            pid=popen.pid,
            started_ticks=stat.started_ticks if stat else 0,
            argv=tuple(argv),
            ports=tuple(ports),
        )
        process = ManagedProcess(name, popen, record, log, self._journal.run_id)
        self.processes.append(process)
        self._journal.process(record)
        return process

    def ended(self, process: ManagedProcess) -> None:
        """Record that it is gone, so that a later `severance heal` passes it by. A full disk loses that."""
        with contextlib.suppress(JournalLost):
            self._journal.process(msgspec.structs.replace(process.record, ended=True))

    def forget(self, process: ManagedProcess) -> None:
        """Drop it from the list of those to stop."""
        if process in self.processes:
            self.processes.remove(process)

    def stop(self, process: ManagedProcess, grace_s: float = 5.0) -> list[str]:
        """SIGTERM, then SIGKILL after ``grace_s``; returns what is still there."""
        return self.stop_together([process], grace_s)

    def stop_together(self, processes: Sequence[ManagedProcess], grace_s: float = 5.0) -> list[str]:
        """End several side by side; returns names and pids of what is still there."""
        for process in processes:
            process.signal(signal.SIGTERM)
        deadline = time.monotonic() + grace_s
        left: list[str] = []
        for process in processes:
            process.wait(max(0.0, deadline - time.monotonic()))
            residue = process.kill()
            left += [f"process {process.name} (pid {identity.pid})" for identity in residue]
            if not residue:
                self.ended(process)
            self.forget(process)
        return left

    def stop_all(self, grace_s: float = 3.0) -> list[str]:
        """End whatever still runs, newest first."""
        return self.stop_together(list(reversed(self.processes)), grace_s)

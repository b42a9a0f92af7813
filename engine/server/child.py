"""`SchedulerChild`: the scheduler process, its stderr, and its end."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

from engine.server.log_sink import stderr_sink

TERM_TIMEOUT_S = 1.5
_TAIL_BYTES = 8_192


class SchedulerChild:
    """A running child. Its stderr is passed on as it comes; the last lines are kept for a report."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._tail = b""
        self._reader = asyncio.create_task(self._pass_stderr())

    @classmethod
    async def start(cls, command: tuple[str, ...], args_file: Path) -> SchedulerChild:
        """Start ``command ARGS_FILE``. Call it on the main thread: the child dies with its starter.

        The child gets a session of its own, so that Ctrl-C reaches this process alone and open
        requests are aborted in order.
        """
        process = await asyncio.create_subprocess_exec(
            *command,
            str(args_file),
            stdin=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        return cls(process)

    @property
    def pid(self) -> int:
        return self._process.pid

    async def wait(self) -> int:
        """The exit code; minus the signal's number if a signal ended it."""
        return await self._process.wait()

    async def last_words(self) -> str:
        """The last line that the ended child wrote to stderr."""
        # A grandchild may hold the pipe open; what has arrived by now is enough.
        await asyncio.wait({self._reader}, timeout=0.5)
        lines = self._tail.decode(errors="replace").strip().splitlines()
        return lines[-1].strip() if lines else "it wrote nothing to stderr"

    async def stop(self) -> None:
        """SIGTERM, then SIGKILL; returns when the child has ended."""
        self._signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(TERM_TIMEOUT_S):
                await self._process.wait()
        except TimeoutError:
            self._signal(signal.SIGKILL)
            await self._process.wait()
        self._reader.cancel()

    def _signal(self, number: signal.Signals) -> None:
        if self._process.returncode is None:
            try:
                self._process.send_signal(number)
            except ProcessLookupError:
                return

    async def _pass_stderr(self) -> None:
        stderr = self._process.stderr
        assert stderr is not None
        while chunk := await stderr.read(65_536):
            stderr_sink().write_bytes(chunk)
            self._tail = (self._tail + chunk)[-_TAIL_BYTES:]


def describe_exit(code: int) -> str:
    """An exit code in words."""
    if code < 0:
        return f"killed by {signal.Signals(-code).name}"
    return f"exit code {code}"

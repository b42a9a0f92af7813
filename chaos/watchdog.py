"""Heals when the runner is gone: ``python -m chaos.watchdog RUN_DIR``, with a pipe to the runner on stdin.

The pipe ends when the runner does, however it ended. A runner that ends well says so first; silence means
that it was killed. Then everything on disk that was begun and not healed is healed from here: processes
that it started are ended, proxies and stopped processes that are not its own are freed, and nothing else
is touched.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_HOME = Path(__file__).resolve().parent.parent
_DONE = b"done\n"
_ENDS_WITHIN_S = 5.0


@contextmanager
def watchdog(directory: Path) -> Iterator[None]:
    """Inside, a process beside us heals the run if this one dies. It ends with the block."""
    with (directory / "logs" / "watchdog.log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "chaos.watchdog", str(directory)],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
            # Ctrl-C in a terminal goes to the whole group; the watchdog must outlive us.
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(_HOME), *_search_path()])},
        )
    assert process.stdin is not None
    try:
        yield
    finally:
        try:
            process.stdin.write(_DONE)
            process.stdin.close()
        except OSError:
            # It is gone already: nothing to dismiss.
            pass
        try:
            process.wait(_ENDS_WITHIN_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def main(directory: Path) -> int:
    """Wait for the end of the runner; heal if it did not say that all is well."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    if sys.stdin.buffer.read() == _DONE:
        return 0
    # Imported late: a watchdog that is never needed costs next to nothing.
    from chaos.recover import recover

    recovery = recover(directory)
    for line in (*recovery.done, *(f"STILL THERE: {line}" for line in recovery.left)):
        print(line, flush=True)
    return 1 if recovery.left else 0


def _search_path() -> list[str]:
    return [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))

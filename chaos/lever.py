"""The brake of the machine: while it is on, every run here stops (and heals), and none starts.

A file, so that anybody can pull it with anything: `severance brake on`, or `touch`. Where the file lives:

==========================  ==========================================================================
``$SEVERANCE_BRAKE``        that file alone
otherwise                   ``/var/tmp/severance.brake`` (all users; it survives a reboot, as a brake must)
                            and ``brake`` in the user's own cache directory
``$SEVERANCE_BRAKE_URL``    an endpoint as well: 2xx means go, anything else and silence mean stop
==========================  ==========================================================================
"""

from __future__ import annotations

import getpass
import os
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from chaos.errors import BrakeOn, UsageError
from chaos.interrupt import Brake
from chaos.registry import state_directory

_FILE, _URL = "SEVERANCE_BRAKE", "SEVERANCE_BRAKE_URL"
_MACHINE = Path("/var/tmp/severance.brake")
_PERIOD_S = 0.1
_ASK_EVERY_S = 1.0
_SILENT_S = 3.0


def brake_files() -> list[Path]:
    """Each of these that exists is a brake that is on."""
    named = os.environ.get(_FILE)
    return [Path(named)] if named else [_MACHINE, state_directory() / "brake"]


def why_on() -> str | None:
    """Which file holds the brake and what it says; None while it is off."""
    for path in brake_files():
        try:
            words = path.read_text(encoding="utf-8", errors="replace").strip()
        except FileNotFoundError:
            continue
        except OSError as error:
            # It is there and cannot be read: that is no permission to go on.
            words = str(error.strerror)
        return f"{path} is there{f' ({words[:200]})' if words else ''}"
    return None


def put_on(reason: str) -> Path:
    """Pull the brake; returns the file. Raises `UsageError` if it cannot be written."""
    problems = []
    for path in brake_files():
        who = f"{getpass.getuser()}@{socket.gethostname()}, {time.strftime('%Y-%m-%d %H:%M:%S')}"
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{reason or 'pulled'} [{who}]\n", encoding="utf-8")
            return path
        except OSError as error:
            problems.append(f"{path}: {error.strerror}")
    raise UsageError(f"the brake cannot be pulled: {'; '.join(problems)}")


def take_off() -> list[Path]:
    """Returns the files that were removed. Raises `UsageError` if one of them stays."""
    removed = []
    for path in brake_files():
        try:
            path.unlink()
        except FileNotFoundError:
            continue
        except OSError as error:
            raise UsageError(f"{path} cannot be removed: {error.strerror}") from error
        removed.append(path)
    return removed


def require_off() -> None:
    """Raises `BrakeOn`: no run may start."""
    reason = why_on() or _endpoint_says_stop()
    if reason:
        raise BrakeOn(f"the brake is on: {reason}. `severance brake off` takes it off")


@contextmanager
def lever_pulls(brake: Brake) -> Iterator[None]:
    """Inside, the brake of the machine halts this run within 0.1 s (file) or 4 s (endpoint)."""
    stopping = threading.Event()
    thread = threading.Thread(target=_watch, args=(brake, stopping), name="lever", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join()


def _watch(brake: Brake, stopping: threading.Event) -> None:
    heard = asked = time.monotonic()
    while not stopping.wait(_PERIOD_S):
        reason, now = why_on(), time.monotonic()
        if reason is None and os.environ.get(_URL) and now - asked >= _ASK_EVERY_S:
            asked, problem = now, _endpoint_says_stop()
            if problem is None:
                heard = now
            elif problem.startswith("HTTP") or now - heard >= _SILENT_S:
                reason = problem
        if reason is not None:
            brake.halt(f"brake: {reason}")
            return


def _endpoint_says_stop() -> str | None:
    """None: there is no endpoint, or it says go."""
    url = os.environ.get(_URL)
    if not url:
        return None
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=_ASK_EVERY_S) as answer:
            return None if 200 <= answer.status < 300 else f"HTTP {answer.status} from {url}"
    except urllib.error.HTTPError as error:
        error.close()
        return f"HTTP {error.code} from {url}"
    except (OSError, ValueError) as error:
        return f"{url} does not answer ({type(error).__name__})"

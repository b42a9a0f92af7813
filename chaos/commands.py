"""Runs a user's command (how to kill or restart a worker of theirs)."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from chaos.errors import ProcessFailed
from chaos.proc import RUN_VARIABLE

WITHIN_S = 30.0


def run_command(argv: Sequence[str], log: Path, within_s: float = WITHIN_S) -> None:
    """Returns when it has ended with 0. Raises `ProcessFailed`.

    What it starts lives on: it is in a session of its own, writes to a file and not to our pipe, and does
    not carry our run's mark, so that no heal takes it for ours.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    variables = {key: value for key, value in os.environ.items() if key != RUN_VARIABLE}
    try:
        with log.open("ab") as output:
            code = subprocess.run(
                list(argv),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=variables,
                start_new_session=True,
                timeout=within_s,
                check=False,
            ).returncode
    except subprocess.TimeoutExpired as error:
        raise ProcessFailed(
            f"{argv[0]} did not end within {within_s:g} s; a command must return by itself"
        ) from error
    except OSError as error:
        raise ProcessFailed(f"cannot run {argv[0]}: {error.strerror}") from error
    if code:
        raise ProcessFailed(f"{argv[0]} failed (exit code {code}), see {log}")

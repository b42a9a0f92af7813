"""A busy neighbor: a process that multiplies matrices on one core until its stdin closes."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from bench.run import ROOT

ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


@contextmanager
def busy_neighbor() -> Iterator[None]:
    """From the moment when it computes."""
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.neighbor"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | ONE_THREAD,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        if not process.stdout.readline():
            raise RuntimeError("the busy neighbor did not start")
        yield
    finally:
        process.stdin.close()
        process.wait(10)
        process.stdout.close()


def _end_with_stdin() -> None:
    sys.stdin.read()
    os._exit(0)


def main() -> None:
    import numpy as np

    threading.Thread(target=_end_with_stdin, daemon=True).start()
    matrix = np.random.default_rng(0).random((512, 512), dtype=np.float32)
    print("busy", flush=True)
    while True:
        matrix @ matrix


if __name__ == "__main__":
    main()

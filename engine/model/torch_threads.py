"""One torch thread a worker process, to be asked for before torch is imported."""

from __future__ import annotations

import os

THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def limit_torch_threads() -> None:
    """Set the thread variables of this process to 1, whatever they were.

    OpenMP spins while it waits: with two threads on two cores, one busy neighbour costs 30x.
    """
    for name in THREAD_VARIABLES:
        os.environ[name] = "1"

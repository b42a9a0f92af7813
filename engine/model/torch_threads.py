"""One torch thread a process: call `limit_torch_threads` before torch is imported.

On two cores, OpenMP spinning beside a busy neighbour costs 30x; two single-threaded workers do not disturb
each other (measured).
"""

from __future__ import annotations

import os

THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def limit_torch_threads() -> None:
    """Set the environment that torch's thread pools read when they start."""
    for name in THREAD_VARIABLES:
        os.environ[name] = "1"

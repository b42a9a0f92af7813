"""How many rows a matrix product needs before a row's bits stop depending on the others."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch.nn.functional import linear

CANDIDATES = (1, 2, 4, 8)
FALLBACK = 16
_NUM_PROBE_ROWS = 300
_PROBED_COUNTS = (*range(1, 34), 48, 64, 100, 128, 200, 256, 257, 272, _NUM_PROBE_ROWS)


def find_stable_rows(matrices: Iterable[torch.Tensor]) -> int:
    """The smallest row count from which every larger product gives each row the same bits.

    BLAS libraries switch kernels, and thus the order of additions, at small row counts (below 4 on
    one CPU, below 16 on another), so it is measured. ``matrices``: one [out, in] of each shape.
    """
    needed = max(_largest_unstable(matrix) + 1 for matrix in matrices)
    return next((count for count in CANDIDATES if count >= needed), FALLBACK)


def _largest_unstable(matrix: torch.Tensor) -> int:
    """The largest probed row count that differs from one big product; 0: none does."""
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(_NUM_PROBE_ROWS, matrix.shape[1], generator=generator)
    rows = rows.to(matrix.device, matrix.dtype)
    whole = linear(rows, matrix)
    differ = (n for n in _PROBED_COUNTS if not torch.equal(linear(rows[:n], matrix), whole[:n]))
    return max(differ, default=0)

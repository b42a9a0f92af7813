"""Names of number formats and devices."""

from __future__ import annotations

import torch

from engine.model.errors import DeviceError, DtypeError

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def find_dtype(name: str) -> torch.dtype:
    """Raises DtypeError."""
    if name not in DTYPES:
        raise DtypeError(f"dtype {name!r} is unknown: use {' or '.join(DTYPES)}")
    return DTYPES[name]


def find_device(name: str) -> torch.device:
    """Raises DeviceError."""
    if name not in ("cpu", "cuda"):
        raise DeviceError(f"device {name!r} is unknown: use cpu or cuda")
    if name == "cuda" and not torch.cuda.is_available():
        raise DeviceError("no CUDA device is available to torch: use --device cpu")
    return torch.device(name)

"""What every section of a scenario file is made of: bounded numbers, names, and `Part`."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

Positive = Annotated[float, Meta(gt=0)]
NonNegative = Annotated[float, Meta(ge=0)]
Share = Annotated[float, Meta(ge=0, le=1)]
Count = Annotated[int, Meta(ge=1)]
Natural = Annotated[int, Meta(ge=0)]
LinkPattern = Annotated[
    str, Meta(pattern=r"^(bootstrap|control|kv|\*):(\*|(p\d+|p?\*)-(d\d+|d?\*))$")
]
WorkerName = Annotated[str, Meta(pattern=r"^[pd]\d+$")]


class Part(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of every section: a misspelt field is an error, not a fault that does nothing."""

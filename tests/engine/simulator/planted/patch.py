"""`Patch`: one function of the engine replaced by a wrong one, and put back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import ModuleType
from typing import Any
from unittest.mock import patch

Patch = tuple[type | ModuleType, str, Callable[..., Any]]
"""(class or module, name of its function, the wrong function)."""


@contextmanager
def planted(*patches: Patch) -> Iterator[None]:
    with ExitStack() as stack:
        for owner, name, wrong in patches:
            stack.enter_context(patch.object(owner, name, wrong))
        yield

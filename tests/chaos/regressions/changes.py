"""Which functions of the engine a regression replaces: one JSON line a name, in a child of its own each.

python -m tests.chaos.regressions.changes
"""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import sys
from collections.abc import Iterator

import engine
from chaos.regressions import NAMES, load

SKIPPED = ("engine.simulator", "engine.cli")


def functions() -> dict[str, int]:
    """Name -> identity of everything callable in the engine's modules and classes."""
    found: dict[str, int] = {}
    for module in _modules():
        for name, thing in vars(module).items():
            found[f"{module.__name__}.{name}"] = id(thing)
            if isinstance(thing, type) and thing.__module__ == module.__name__:
                for attribute, member in vars(thing).items():
                    found[f"{module.__name__}.{name}.{attribute}"] = id(member)
    return found


def _modules() -> Iterator[object]:
    names = [one.name for one in pkgutil.walk_packages(engine.__path__, "engine.")]
    for name in names:
        if not name.startswith(SKIPPED) and not name.endswith("__main__"):
            yield importlib.import_module(name)


def changed_by(name: str) -> list[str]:
    before = functions()
    load(name).apply()
    return sorted(key for key, value in functions().items() if before.get(key) != value)


def main() -> None:
    functions()  # everything is imported once, before the forks
    for name in NAMES:
        child = os.fork()
        if not child:
            sys.stdout.write(json.dumps([name, changed_by(name)]) + "\n")
            sys.stdout.flush()
            os._exit(0)
        _, status = os.waitpid(child, 0)
        assert status == 0, name


if __name__ == "__main__":
    main()

"""Build Jaeger 1.76.0 (the newest that the Go module proxy names) into .tools/jaeger-1.76.0.

Its web page is not in the build; the query API is all that the tests need.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from chaos.tools import find_go

VERSION = "1.76.0"
MODULE = "github.com/jaegertracing/jaeger/cmd/jaeger"
TARGET = Path(__file__).resolve().parent.parent / ".tools" / f"jaeger-{VERSION}" / "jaeger"


def build(go: Path, target: Path) -> None:
    """Build in a scratch module, so that nothing of it stays."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        for command in (
            ["mod", "init", "scratch"],
            ["get", "-tool", f"{MODULE}@v{VERSION}"],
            ["build", "-o", str(target), MODULE],
        ):
            subprocess.run([str(go), *command], cwd=scratch, check=True)


def main() -> int:
    if TARGET.exists():
        print(f"Jaeger is there: {TARGET}")
        return 0
    go = find_go()
    if go is None:
        print("Go is missing: install it, or `severance doctor --fix` for the PyPI one")
        return 1
    build(go, TARGET)
    print(f"built {TARGET}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

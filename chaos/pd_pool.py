"""`PdPool`: starts deployments for tests and keeps the last one for the next test that wants the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from chaos.attachment import Attachment
from chaos.errors import NotHealed, ProcessFailed, UsageError
from chaos.interrupt import Brake
from chaos.journal import Journal
from chaos.lever import require_off
from chaos.local import LocalDeployment
from chaos.pd import PdDeployment
from chaos.process import Launcher
from chaos.scenario import load_scenario
from chaos.serving import wait_until_serving
from chaos.shield import signals_wait
from chaos.spec import DeploymentSpec
from chaos.tools import require_toxiproxy

Wish = Mapping[str, str]
"""target, or prefill, decode, model_path, max_total_tokens, file; what is not there has its default."""
_COUNTS = ("prefill", "decode", "max_total_tokens")


class _Lease(msgspec.Struct, frozen=True):
    wish: dict[str, str]
    pd: PdDeployment
    end: Callable[[], None]


class PdPool:
    """``new_directory`` makes one for each deployment: logs, faults.jsonl, spans.sqlite."""

    def __init__(self, new_directory: Callable[[str], Path]) -> None:
        self._new_directory = new_directory
        self._lease: _Lease | None = None

    def lease(self, wish: Wish) -> PdDeployment:
        """One that serves. Raises `ChaosError` if there can be none; nothing is left then."""
        require_off()
        if self._lease is None or self._lease.wish != wish:
            self.close()
            self._lease = self._start(dict(wish))
        return self._lease.pd

    def give_back(self, pd: PdDeployment) -> None:
        """Heal. Raises `NotHealed`; then this deployment is ended, and nobody gets it again."""
        if not pd.was_hurt:
            return
        try:
            pd.mend()
        except NotHealed:
            self.close()
            raise

    def close(self) -> None:
        """End it. Raises `NotHealed` if something of it is left."""
        lease, self._lease = self._lease, None
        if lease is not None:
            lease.end()

    def _start(self, wish: dict[str, str]) -> _Lease:
        directory = self._new_directory("pd")
        if "target" in wish:
            attachment = Attachment(Path(wish["target"]), directory, "pytest")
            return _Lease(wish, attachment.pd, attachment.close)
        return self._start_local(wish, directory)

    def _start_local(self, wish: dict[str, str], directory: Path) -> _Lease:
        spec = _spec(wish)
        journal = Journal(directory, f"pytest-{directory.name}")
        brake = Brake()
        deployment = LocalDeployment(
            spec, Launcher(journal), require_toxiproxy(), directory / "spans.sqlite", brake
        )
        try:
            deployment.start()
            problem = wait_until_serving(deployment, brake, spec.ready_within_s)
            if problem:
                raise ProcessFailed(f"no request completes: {problem}; see {directory / 'logs'}")
        except BaseException:
            _end(deployment, brake)
            raise
        return _Lease(wish, PdDeployment(deployment, journal), lambda: _end(deployment, brake))


def _end(deployment: LocalDeployment, brake: Brake) -> None:
    """Raises `NotHealed` if something of it is left."""
    with signals_wait():
        left = deployment.stop()
        brake.close()
    if left:
        raise NotHealed(f"left behind: {'; '.join(left)}")


def _spec(wish: Wish) -> DeploymentSpec:
    """Raises `UsageError`."""
    spec = load_scenario(Path(wish["file"])).deployment if "file" in wish else DeploymentSpec()
    given: dict[str, str | int] = {
        name: _count(name, value) if name in _COUNTS else value for name, value in wish.items()
    }
    worker = {name: given[name] for name in ("model_path", "max_total_tokens") if name in given}
    counts = {name: given[name] for name in ("prefill", "decode") if name in given}
    return msgspec.structs.replace(
        spec, worker=msgspec.structs.replace(spec.worker, **worker), **counts
    )


def _count(name: str, value: str) -> int:
    if not value.isdecimal() or int(value) < 1:
        raise UsageError(f"pd {name}={value}: give a whole number, 1 or larger")
    return int(value)

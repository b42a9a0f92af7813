"""What every phase of a run shares."""

from __future__ import annotations

import time
from pathlib import Path

import msgspec

from chaos.deployment import Deployment
from chaos.errors import OutNotEmpty
from chaos.fault_step import ActiveFaults
from chaos.freshness import Freshness
from chaos.interrupt import Brake
from chaos.journal import Journal
from chaos.load import LoadDriver
from chaos.local import LocalDeployment, LocalOptions
from chaos.process import Launcher
from chaos.progress import Progress
from chaos.records import EventKind, RunInfo
from chaos.registration import own_identity, own_record
from chaos.registry import ActiveRun, register, unregister
from chaos.run_info import describe_run, new_run_id
from chaos.scenario import Scenario, dump_scenario
from chaos.target import Target
from chaos.target_deployment import TargetDeployment


class RunContext:
    """The run directory and its writers, the deployment, the brake. Made before anything starts."""

    def __init__(
        self,
        scenario: Scenario,
        directory: Path,
        options: LocalOptions,
        toxiproxy: Path | None,
        progress: Progress,
        target: Target | None = None,
    ) -> None:
        self.scenario = scenario
        self.is_ours = target is None
        self.directory = directory
        self.progress = progress
        self.brake = Brake()
        self.run_id = new_run_id(scenario)
        self.info: RunInfo = describe_run(self.run_id, scenario, options.regression, toxiproxy)
        self.journal = Journal(directory, self.run_id)
        self.launcher = Launcher(self.journal)
        self.deployment = self._make_deployment(options, toxiproxy, target)
        self.load = LoadDriver(
            self.launcher, self.brake, directory, self.run_id, scenario.seed, scenario.load
        )
        self.active = ActiveFaults()
        self.freshness = Freshness()

    def _make_deployment(
        self, options: LocalOptions, toxiproxy: Path | None, target: Target | None
    ) -> Deployment:
        spans = self.directory / "spans.sqlite"
        if target is None:
            assert toxiproxy is not None, "a deployment of our own needs toxiproxy"
            return LocalDeployment(
                self.scenario.deployment,
                self.launcher,
                toxiproxy,
                spans,
                self.brake,
                options,
                self.progress.say,
            )
        there = TargetDeployment(target, self.directory / "logs", spans)
        there.attach()
        self.info = msgspec.structs.replace(
            self.info, cannot_show=there.cannot_show, router_flags=()
        )
        return there

    def open(self) -> None:
        """Write what is known before the first process, and register the run for `severance heal`."""
        (self.directory / "logs").mkdir()
        dump_scenario(self.scenario, self.directory / "scenario.resolved.yaml")
        self.journal.run_info(self.info)
        self.journal.process(own_record(ended=False))
        try:
            register(
                ActiveRun(
                    run_id=self.run_id,
                    directory=str(self.directory.resolve()),
                    runner=own_identity(),
                )
            )
        except OSError as error:
            self.progress.say(f"cannot note this run for `severance heal --all`: {error}")

    def close(self, residue: list[str]) -> None:
        """The run has ended, well or not."""
        self.note(
            residue=tuple(residue),
            duration_s=self.progress.elapsed_s,
        )
        self.journal.process(own_record(ended=True))
        if not residue:
            unregister(self.run_id)

    def phase(self, name: str, detail: str = "") -> None:
        self.journal.event(EventKind.PHASE, name, detail=detail)

    def note(self, **changes: object) -> None:
        """Change fields of `run.json`."""
        self.info = msgspec.structs.replace(self.info, **changes)
        self.journal.run_info(self.info)


def prepare_out(directory: Path) -> None:
    """Create it. Raises `OutNotEmpty` if it holds anything: runs never mix."""
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise OutNotEmpty(
            f"--out {directory} is not empty; name a new directory, e.g. {_fresh(directory)}"
        )
    directory.mkdir(parents=True, exist_ok=True)


def _fresh(directory: Path) -> str:
    return f"{directory}-{time.strftime('%H%M%S')}"

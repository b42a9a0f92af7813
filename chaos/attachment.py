"""`Attachment`: somebody else's deployment in the hands of a test or of another tool.

The record, the registration and the watchdog are those of a run: if this process is killed while a fault
is on, the watchdog heals, and `severance heal` finds what it could not.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from chaos.errors import NotHealed
from chaos.interrupt import Brake
from chaos.journal import Journal
from chaos.lever import require_off
from chaos.pd import PdDeployment
from chaos.records import RunInfo
from chaos.registration import own_record, registered
from chaos.run_info import describe_run, new_run_id
from chaos.serving import wait_until_serving
from chaos.shield import signals_wait
from chaos.spec import Scenario
from chaos.target import load_target
from chaos.target_deployment import TargetDeployment
from chaos.watchdog import watchdog


class Attachment:
    """Raises `UsageError` if the file or what is there is wrong, `NotHealed` if it does not serve."""

    def __init__(self, target: Path, directory: Path, name: str) -> None:
        require_off()
        (directory / "logs").mkdir(parents=True, exist_ok=True)
        self._stack = ExitStack()
        self.deployment = TargetDeployment(
            load_target(target), directory / "logs", directory / "spans.sqlite"
        )
        scenario = Scenario(name=name)
        run_id = new_run_id(scenario)
        self._journal = Journal(directory, run_id)
        self.pd = PdDeployment(self.deployment, self._journal)
        info = describe_run(run_id, scenario, None, None)
        try:
            self._begin(info, directory)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Heal, and let go. Idempotent. Raises `NotHealed`."""
        with signals_wait():
            try:
                if self.pd.was_hurt:
                    self.pd.mend(and_ask=False)
            finally:
                left = self.deployment.stop()
                self._stack.close()
        if left:
            raise NotHealed("; ".join(left))

    def _begin(self, info: RunInfo, directory: Path) -> None:
        self.deployment.attach()
        self._journal.run_info(info)
        self._journal.process(own_record(ended=False))
        self._stack.callback(lambda: self._journal.process(own_record(ended=True)))
        self._stack.enter_context(registered(info.run_id, directory))
        self._stack.enter_context(watchdog(directory))
        self.deployment.start()
        brake = Brake()
        try:
            problem = wait_until_serving(self.deployment, brake, self.deployment.ready_within_s)
        finally:
            brake.close()
        if problem:
            raise NotHealed(f"it does not serve: {problem}")

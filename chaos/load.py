"""The load driver as a process: capacity, the load itself, and the replay of the control run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from chaos.errors import LoadFailed
from chaos.interrupt import Brake
from chaos.links import Endpoint
from chaos.process import Launcher, ManagedProcess
from chaos.spec import LoadSpec
from chaos.worker import ENVIRONMENT, severance_argv

_SLACK_S = 20.0
_EXIT_LATE = 4


class Capacity(msgspec.Struct, frozen=True, kw_only=True):
    """`capacity.json`."""

    tokens_per_s: float
    req_per_s: float
    requests: int
    duration_s: float


class LoadDriver:
    """``severance load`` in its three modes. Writes into ``directory``."""

    def __init__(
        self,
        launcher: Launcher,
        brake: Brake,
        directory: Path,
        run_id: str,
        seed: int,
        spec: LoadSpec,
    ) -> None:
        self._launcher = launcher
        self._brake = brake
        self._directory = directory
        self._run_id = run_id
        self._seed = seed
        self._spec = spec

    def measure_capacity(self, url: Endpoint, traces_url: str | None) -> Capacity:
        """A closed loop for ``warmup_s``. Raises `LoadFailed` if nothing completed."""
        argv = [
            *self._common("capacity", url, traces_url),
            *("--duration", str(self._spec.warmup_s)),
            *("--concurrency", str(self._spec.warmup_concurrency)),
            *self._shapes(),
        ]
        process = self._start("load-capacity", argv)
        limit_s = self._spec.warmup_s + self._spec.request_timeout_s + _SLACK_S
        self.wait(process, limit_s)
        path = self._directory / "capacity.json"
        try:
            capacity = msgspec.json.decode(path.read_bytes(), type=Capacity)
        except (OSError, msgspec.DecodeError) as error:
            raise LoadFailed(f"the warm-up left no usable {path.name}: {error}") from error
        if capacity.req_per_s <= 0:
            raise LoadFailed(
                "the warm-up completed no request, so there is no capacity to take a share of. "
                f"See {process.log} and the workers' logs beside it."
            )
        return capacity

    def start(
        self, url: Endpoint, workers: Mapping[str, Endpoint], traces_url: str | None, rate: float
    ) -> ManagedProcess:
        """The open-loop load, in the background. ``workers``: where an abort by rid can go, by name."""
        mix = self._directory / "abort-mix.json"
        mix.write_bytes(msgspec.json.encode(self._spec.aborts.mix))
        arrival = self._spec.arrival
        argv = self._common("open", url, traces_url)
        for name, worker in workers.items():
            role = "prefill" if name.startswith("p") else "decode"
            argv += ["--abort-url", f"{role}=http://{worker}"]
        argv += ["--request-rate", f"{rate:.4f}", "--duration", str(self._spec.duration_s)]
        argv += ["--arrival-pattern", arrival.pattern, "--burstiness", str(arrival.burstiness)]
        argv += ["--abort-mix", str(mix), "--abort-share", str(self._spec.aborts.share)]
        argv += ["--phase", "load", *self._shapes()]
        return self._start("load", argv)

    def replay(
        self, url: Endpoint, requests: Path, traces_url: str | None, within_s: float
    ) -> None:
        """Send the same prompts to another worker; writes `control.jsonl`."""
        argv = [*self._common("replay", url, traces_url), "--requests", str(requests)]
        self.wait(self._start("load-control", argv), within_s)

    def wait(self, process: ManagedProcess, within_s: float) -> None:
        """Wait for its end. Raises `LoadFailed` if it is late or fails; late sends are judged later."""
        ended = self._brake.wait_for(lambda: process.returncode() is not None, within_s)
        if not ended:
            raise LoadFailed(f"{process.name} did not end within {within_s:g} s:\n{process.tail()}")
        code = process.returncode()
        self._launcher.stop(process)
        if code not in (0, _EXIT_LATE):
            raise LoadFailed(
                f"{process.name} failed (exit code {code}). Its log {process.log} ends with:\n"
                f"{process.tail()}"
            )

    def stop(self, process: ManagedProcess) -> None:
        """SIGTERM: the driver aborts what is open and writes the last lines; no-op if it has ended."""
        if process.returncode() is None:
            self._launcher.stop(process)

    def wait_load(self, process: ManagedProcess) -> None:
        """The whole load, with the time that its last request may take."""
        self.wait(process, self._spec.duration_s + self._spec.request_timeout_s + _SLACK_S)

    def _common(self, mode: str, url: Endpoint, traces_url: str | None) -> list[str]:
        argv = ["load", "--url", f"http://{url}", "--out", str(self._directory)]
        argv += ["--run-id", self._run_id, "--seed", str(self._seed)]
        argv += ["--request-timeout", str(self._spec.request_timeout_s)]
        argv += ["--otlp-traces-endpoint", traces_url] if traces_url else []
        return argv if mode == "open" else [*argv, "--mode", mode]

    def _shapes(self) -> list[str]:
        prompts, osl = self._spec.prompts, self._spec.osl
        flags = {
            "--isl-min": prompts.isl_min,
            "--isl-max": prompts.isl_max,
            "--isl-mean": prompts.isl_mean,
            "--osl-min": osl.min,
            "--osl-max": osl.max,
        }
        return [text for flag, value in flags.items() for text in (flag, str(value))]

    def _start(self, name: str, argv: list[str]) -> ManagedProcess:
        return self._launcher.start(name, severance_argv(argv), environment=ENVIRONMENT)

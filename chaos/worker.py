"""Command lines of the programs of a local deployment."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec import Struct

from chaos.codes import LinkKind
from chaos.links import Endpoint, Link
from chaos.spec import RouterSpec, WorkerSpec

_HOME = Path(__file__).resolve().parent.parent
# -P: the user's own directory may hold packages of our names.
_PYTHON = (sys.executable, "-P", "-m")
ENVIRONMENT = {
    "PYTHONPATH": str(_HOME),
    "PYTHONUNBUFFERED": "1",
    # Where the user's environment forbids it, every start would compile every module again.
    "PYTHONDONTWRITEBYTECODE": "",
    # Two workers on two cores: more threads than one each spin against each other (DESIGN 2.5).
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}
ROUTER_ENVIRONMENT = {
    **ENVIRONMENT,
    # The router asks a model hub for the tokenizer of the model's name. /generate needs none, and a run
    # must not leave the machine: the question goes to a port where nobody answers.
    "HF_ENDPOINT": "http://127.0.0.1:9",
}


class Worker(Struct, frozen=True, kw_only=True):
    """One worker. ``control`` and ``bootstrap`` are addresses of a prefill, ``kv`` of a decode worker."""

    name: str
    role: str
    http: Endpoint
    bootstrap: Endpoint | None = None
    control: Endpoint | None = None
    kv: Endpoint | None = None

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        own = (self.http, self.bootstrap, self.control, self.kv)
        return tuple(endpoint for endpoint in own if endpoint is not None)

    def address_of(self, kind: LinkKind) -> Endpoint:
        """Where a link of this kind ends at this worker."""
        endpoint = {
            LinkKind.BOOTSTRAP: self.bootstrap,
            LinkKind.CONTROL: self.control,
            LinkKind.KV: self.kv,
        }[kind]
        assert endpoint is not None, f"{self.name} is no end of a {kind} link"
        return endpoint


def severance_argv(command: Sequence[str], regression: str | None = None) -> list[str]:
    """``severance COMMAND``, or the same with a known bug put back in."""
    if regression is not None:
        return [*_PYTHON, "chaos.regressions", regression, "--", "severance", *command]
    return [*_PYTHON, "severance", *command]


def worker_argv(
    worker: Worker,
    spec: WorkerSpec,
    dials: Iterable[Link],
    spans: Endpoint,
    regression: str | None = None,
) -> list[str]:
    """``dials``: links that this worker opens, and must open through their proxies."""
    command = ["serve", "--worker-name", worker.name, "--disaggregation-mode", worker.role]
    command += ["--host", worker.http.host, "--port", str(worker.http.port)]
    if worker.bootstrap and worker.control:
        command += ["--disaggregation-bootstrap-port", str(worker.bootstrap.port)]
        command += ["--disaggregation-control-port", str(worker.control.port)]
    if worker.kv:
        command += ["--disaggregation-kv-port", str(worker.kv.port)]
    for link in dials:
        command += ["--link-map", f"{link.name.kind}:{link.upstream}={link.listen}"]
    command += _engine_flags(spec)
    command += ["--otlp-traces-endpoint", f"http://{spans}/v1/traces"]
    return severance_argv(command, regression)


def _engine_flags(spec: WorkerSpec) -> list[str]:
    flags = {
        "--model-path": spec.model_path,
        "--random-seed": spec.random_seed,
        "--dtype": spec.dtype,
        "--device": "cpu",
        "--page-size": spec.page_size,
        "--chunked-prefill-size": spec.chunked_prefill_size,
        "--max-running-requests": spec.max_running_requests,
        "--max-total-tokens": spec.max_total_tokens,
        "--disaggregation-bootstrap-timeout": spec.bootstrap_timeout_s,
        "--peer-dead-after": spec.peer_dead_after_s,
    }
    return [text for flag, value in flags.items() for text in (flag, str(value))]


def router_argv(
    router: Endpoint, metrics: Endpoint, spec: RouterSpec, workers: Iterable[Worker]
) -> list[str]:
    """The SGLang router in PD mode. Without --enable-trace it passes the client's traceparent on."""
    argv = [*_PYTHON, "sglang_router.launch_router", "--pd-disaggregation"]
    argv += ["--host", router.host, "--port", str(router.port)]
    argv += ["--prometheus-host", metrics.host, "--prometheus-port", str(metrics.port)]
    for worker in workers:
        url = f"http://{worker.http}"
        if worker.bootstrap is not None:
            argv += ["--prefill", url, str(worker.bootstrap.port)]
        else:
            argv += ["--decode", url]
    return argv + router_flags(spec)


def router_flags(spec: RouterSpec) -> list[str]:
    """The flags that decide how failures reach the client; also kept in `run.json`."""
    flags = {
        "--policy": spec.policy,
        "--health-check-interval-secs": spec.health_check_interval_s,
        "--health-check-timeout-secs": spec.health_check_timeout_s,
        "--health-failure-threshold": spec.health_failure_threshold,
        "--health-success-threshold": spec.health_success_threshold,
        "--request-timeout-secs": spec.request_timeout_s,
        "--worker-startup-check-interval": 1,
        "--log-level": "warn",
    }
    argv = [text for flag, value in flags.items() for text in (flag, str(value))]
    argv += ["--retry-max-retries", str(spec.retries)] if spec.retries else ["--disable-retries"]
    if not spec.circuit_breaker:
        argv.append("--disable-circuit-breaker")
    return argv

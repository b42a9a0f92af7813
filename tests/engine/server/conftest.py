"""Workers that many tests share; each test uses its own rids."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.engine.server.harness import Collector, WorkerProcess, running_worker


@pytest.fixture(scope="package")
def collector() -> Iterator[Collector]:
    sink = Collector()
    yield sink
    sink.close()


@pytest.fixture(scope="package")
def worker(collector: Collector) -> Iterator[WorkerProcess]:
    """A unified worker that sends its spans to `collector`."""
    with running_worker(
        "--otlp-traces-endpoint", collector.url, "--max-total-tokens", "1024", "--worker-name", "u7"
    ) as process:
        yield process.wait_ready()


@pytest.fixture(scope="package")
def prefill(collector: Collector) -> Iterator[WorkerProcess]:
    with running_worker(
        "--disaggregation-mode",
        "prefill",
        "--disaggregation-bootstrap-port",
        "0",
        "--otlp-traces-endpoint",
        collector.url,
    ) as process:
        yield process.wait_ready()


@pytest.fixture(scope="package")
def decode(collector: Collector) -> Iterator[WorkerProcess]:
    with running_worker(
        "--disaggregation-mode", "decode", "--otlp-traces-endpoint", collector.url
    ) as process:
        yield process.wait_ready()

"""The engine's spans arrive in a real Jaeger and can be searched there by the codes of the abort."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from chaos.journal import Journal
from chaos.ports import PortPool
from chaos.process import Launcher
from chaos.worker import ENVIRONMENT, severance_argv
from tests.e2e.client import Pending, prompt_of, wait_until

pytestmark = [pytest.mark.jaeger, pytest.mark.e2e]
BUILT = Path(__file__).parents[2] / ".tools" / "jaeger-1.76.0" / "jaeger"
CONFIG = """
service:
  extensions: [jaeger_storage, jaeger_query]
  pipelines:
    traces: {{receivers: [otlp], processors: [batch], exporters: [jaeger_storage_exporter]}}
  telemetry: {{metrics: {{level: none}}, logs: {{level: warn}}}}
extensions:
  jaeger_query:
    storage: {{traces: mem}}
    enable_tracing: false
    http: {{endpoint: "127.0.0.1:{query}"}}
    grpc: {{endpoint: "127.0.0.1:{query_grpc}"}}
  jaeger_storage: {{backends: {{mem: {{memory: {{max_traces: 5000}}}}}}}}
receivers:
  otlp:
    protocols: {{http: {{endpoint: "127.0.0.1:{otlp}"}}}}
processors: {{batch: {{timeout: 200ms}}}}
exporters: {{jaeger_storage_exporter: {{trace_storage: mem}}}}
"""


@pytest.fixture
def jaeger_binary() -> Path:
    binary = Path(os.environ.get("SEVERANCE_JAEGER", BUILT))
    if not binary.exists():
        pytest.skip("no Jaeger here: `make jaeger` builds it")
    return binary


class Stack:
    """A Jaeger and a unified worker that sends to it."""

    def __init__(self, launcher: Launcher, ports: PortPool, binary: Path, config: Path) -> None:
        query, query_grpc, otlp, worker = (ports.take() for _ in range(4))
        config.write_text(
            CONFIG.format(query=query.port, query_grpc=query_grpc.port, otlp=otlp.port)
        )
        ports.release(query, query_grpc, otlp, worker)
        validated = subprocess.run([binary, "validate", "--config", config], check=False)
        assert validated.returncode == 0
        launcher.start("jaeger", [str(binary), "--config", str(config)])
        serve = ["serve", "--port", str(worker.port), "--max-total-tokens", "4096"]
        serve += ["--otlp-traces-endpoint", f"http://{otlp}/v1/traces"]
        launcher.start("u0", severance_argv(serve), environment=ENVIRONMENT)
        self.query = f"http://{query}"
        self.worker = f"http://{worker}"

    def is_ready(self) -> bool:
        return all(_answers(url) for url in (f"{self.query}/api/services", f"{self.worker}/health"))

    def traces(self, tags: dict[str, str]) -> list[dict[str, object]]:
        wanted = {"service": "severance-unified", "limit": "20", "tags": json.dumps(tags)}
        got = requests.get(f"{self.query}/api/traces", params=wanted, timeout=5)
        found: list[dict[str, object]] = got.json()["data"] or []
        return found


def _answers(url: str) -> bool:
    try:
        return requests.get(url, timeout=2).status_code == 200
    except requests.RequestException:
        return False


@pytest.fixture
def stack(jaeger_binary: Path, tmp_path: Path) -> Iterator[Stack]:
    launcher = Launcher(Journal(tmp_path, "jaeger"))
    ports = PortPool("127.0.0.1")
    try:
        stack = Stack(launcher, ports, jaeger_binary, tmp_path / "jaeger.yaml")
        wait_until(stack.is_ready, 40, "ready")
        yield stack
    finally:
        left = launcher.stop_all()
        ports.close()
    assert left == []


def test_an_aborted_request_is_found_by_its_codes(stack: Stack) -> None:
    doomed = Pending("doomed", stack.worker, prompt_of(3_500), 8)
    chunked = f"{stack.worker}/requests/doomed"
    wait_until(lambda: "mid_chunk" in requests.get(chunked, timeout=5).text, 10, "in mid-chunk")
    requests.post(f"{stack.worker}/abort_request", json={"rid": "doomed"}, timeout=5)
    assert doomed.result().finish == "abort"
    wait_until(lambda: bool(stack.traces({"pd.abort.reason": "client_abort"})), 10, "in Jaeger")
    (trace,) = stack.traces({"pd.abort.reason": "client_abort"})
    spans = trace["spans"]
    assert isinstance(spans, list)
    names = {span["operationName"] for span in spans}
    assert {"request", "tokenize", "queue", "prefill.chunk", "abort", "kv.release"} <= names
    warnings = [(span["operationName"], span["warnings"]) for span in spans if span.get("warnings")]
    assert warnings == [], "Jaeger found orphans or skew"
    assert stack.traces({"pd.abort.reason": "peer_dead"}) == []

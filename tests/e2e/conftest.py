"""A whole pair behind the real router, with every link through toxiproxy, started once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from chaos.interrupt import Brake
from chaos.journal import Journal
from chaos.local import LocalDeployment
from chaos.process import Launcher
from chaos.spec import DeploymentSpec, WorkerSpec
from chaos.tools import require_toxiproxy
from tests.e2e.client import Front

SPEC = DeploymentSpec(worker=WorkerSpec(max_total_tokens=4096, nice=0))


@pytest.fixture(scope="session")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalDeployment]:
    """1P1D, router, span store, and a unified worker beside it."""
    directory = tmp_path_factory.mktemp("pd")
    launcher = Launcher(Journal(directory, "e2e"))
    brake = Brake()
    deployment = LocalDeployment(
        SPEC, launcher, require_toxiproxy(), directory / "spans.sqlite", brake
    )
    try:
        deployment.start()
        deployment.start_control()
        deployment.wait_control()
        yield deployment
    finally:
        left = deployment.stop()
        brake.close()
    assert left == []


@pytest.fixture
def front(deployment: LocalDeployment) -> Iterator[Front]:
    """A client; after every test each worker is back at its baseline."""
    front = Front(deployment)
    front.wait_idle()
    yield front
    front.wait_idle()

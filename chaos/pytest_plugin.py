"""The pytest plugin: a real PD deployment and its links as fixtures. docs/pytest.md is its page.

Loaded by every pytest of an environment that has Severance, so nothing heavy is imported before a fixture
is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from chaos.held_fault import HeldFault
    from chaos.pd import PdDeployment
    from chaos.pd_link import PdLink
    from chaos.pd_pool import PdPool

MARKER = "pd"
_INI = {
    "pd_prefill": "prefill workers of the pd_deployment fixture (1)",
    "pd_decode": "decode workers (1)",
    "pd_model_path": "model of every worker: tiny, or a directory (tiny)",
    "pd_max_total_tokens": "tokens in each worker's KV pool (8192)",
    "pd_file": "take the deployment of this scenario file; the other pd_ options win over it",
    "pd_target": "use a deployment that somebody else started: a target file",
}


def pytest_addoption(parser: pytest.Parser) -> None:
    for name, text in _INI.items():
        parser.addini(name, text, default="")
    parser.getgroup("severance").addoption(
        "--pd-target", metavar="FILE", default="", help=_INI["pd_target"]
    )


def pytest_configure(config: pytest.Config) -> None:
    names = ", ".join(name.removeprefix("pd_") for name in _INI)
    config.addinivalue_line("markers", f"{MARKER}({names}): which deployment this test wants")


@pytest.fixture(scope="session")
def pd_pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PdPool]:
    """Keeps the last deployment for the next test that wants the same."""
    from chaos.pd_pool import PdPool

    pool = PdPool(lambda name: tmp_path_factory.mktemp(name))
    try:
        yield pool
    finally:
        pool.close()


@pytest.fixture
def pd_deployment(request: pytest.FixtureRequest, pd_pool: PdPool) -> Iterator[PdDeployment]:
    """A deployment that serves. After the test every fault is healed, whatever happened, and requests must
    complete again; if they do not, that is an error of the test and the next one gets a fresh deployment."""
    pd = pd_pool.lease(_wish(request))
    try:
        yield pd
    finally:
        pd_pool.give_back(pd)


@pytest.fixture
def link(pd_deployment: PdDeployment) -> Callable[[str], PdLink]:
    """``link("kv:p0-d0")``: one link, or all that match a pattern."""
    from chaos.pd_link import PdLink

    return lambda name: PdLink(pd_deployment, name)


@pytest.fixture
def cut(pd_deployment: PdDeployment) -> Callable[..., HeldFault]:
    """``with cut("latency", "kv:*", latency_ms=100):``, every mode of a scenario file."""
    return pd_deployment.cut


@pytest.fixture
def blackhole(pd_deployment: PdDeployment) -> Callable[..., HeldFault]:
    """``with blackhole("kv:*"):`` bytes are acknowledged and lost; the heal closes the connections."""
    return lambda *links, **more: pd_deployment.cut("blackhole", *links, **more)


@pytest.fixture
def stall(pd_deployment: PdDeployment) -> Callable[..., HeldFault]:
    """``with stall("kv:*"):`` bytes stop; nothing is lost and the connection survives."""
    return lambda *links, **more: pd_deployment.cut("stall", *links, **more)


@pytest.fixture
def kill(pd_deployment: PdDeployment) -> Callable[..., HeldFault]:
    """``with kill("d0"):`` the worker is dead, and started again at the end of the block."""
    return pd_deployment.kill


@pytest.fixture
def pause(pd_deployment: PdDeployment) -> Callable[..., HeldFault]:
    """``with pause("d0"):`` every process of the worker is stopped."""
    return pd_deployment.pause


def _wish(request: pytest.FixtureRequest) -> dict[str, str]:
    """From the ini file, then the command line, then markers from the outermost to the test's own."""
    config = request.config
    wish = {name.removeprefix("pd_"): str(config.getini(name)) for name in _INI}
    if config.getoption("--pd-target"):
        wish["target"] = str(config.getoption("--pd-target"))
    for mark in reversed(list(request.node.iter_markers(MARKER))):
        unknown = set(mark.kwargs) - set(wish)
        if unknown or mark.args:
            raise pytest.UsageError(f"marker pd takes {', '.join(sorted(wish))} by name: {mark}")
        wish |= {name: str(value) for name, value in mark.kwargs.items()}
    return {name: value for name, value in wish.items() if value}

"""Command lines of a deployment: who dials which proxy, and what the router is told."""

from __future__ import annotations

from itertools import pairwise

import pytest

from chaos.layout import Layout, plan
from chaos.links import matches, pair_names
from chaos.ports import PortPool
from chaos.spec import DeploymentSpec, RouterSpec, WorkerSpec
from chaos.worker import router_argv, router_flags, worker_argv


@pytest.fixture
def layout(ports: PortPool) -> Layout:
    return plan(DeploymentSpec(prefill=2, decode=1), ports)


def values(argv: list[str], flag: str) -> list[str]:
    return [value for name, value in pairwise(argv) if name == flag]


def argv_of(layout: Layout, name: str, regression: str | None = None) -> list[str]:
    worker = layout.worker(name)
    return worker_argv(worker, WorkerSpec(), layout.dials(name), layout.spanstore, regression)


def test_each_worker_dials_the_proxies_of_the_links_that_it_opens(layout: Layout) -> None:
    by_name = {str(link): link for link in layout.links}
    assert values(argv_of(layout, "p0"), "--link-map") == [
        f"kv:{by_name['kv:p0-d0'].upstream}={by_name['kv:p0-d0'].listen}"
    ]
    assert set(values(argv_of(layout, "d0"), "--link-map")) == {
        f"{kind}:{by_name[f'{kind}:{p}-d0'].upstream}={by_name[f'{kind}:{p}-d0'].listen}"
        for kind in ("bootstrap", "control")
        for p in ("p0", "p1")
    }
    kv = by_name["kv:p1-d0"]
    assert values(argv_of(layout, "d0"), "--disaggregation-kv-port") == [str(kv.upstream.port)]


def test_a_bypassed_link_is_not_dialed_through_its_proxy(ports: PortPool) -> None:
    layout = plan(DeploymentSpec(bypass=("kv:*",)), ports)
    assert values(argv_of(layout, "p0"), "--link-map") == []
    assert len(values(argv_of(layout, "d0"), "--link-map")) == 2
    assert len(layout.links) == 3, "the proxy is there all the same"


def test_a_regression_goes_in_front_and_the_command_stays_the_same(layout: Layout) -> None:
    plain, broken = argv_of(layout, "d0"), argv_of(layout, "d0", "leak")
    at = broken.index("chaos.regressions")
    assert broken[at : at + 4] == ["chaos.regressions", "leak", "--", "severance"]
    assert broken[at + 4 :] == plain[plain.index("serve") :]


def test_the_router_knows_every_worker(layout: Layout) -> None:
    argv = router_argv(layout.router, layout.router_metrics, RouterSpec(), layout.workers)
    p1 = layout.worker("p1")
    assert p1.bootstrap is not None
    at = argv.index(f"http://{p1.http}")
    assert argv[at - 1 : at + 2] == ["--prefill", f"http://{p1.http}", str(p1.bootstrap.port)]
    assert values(argv, "--decode") == [f"http://{layout.worker('d0').http}"]
    assert "--enable-trace" not in argv, "the router would drop the client's trace"


@pytest.mark.parametrize(
    ("spec", "present", "absent"),
    [
        (RouterSpec(), "--disable-retries", "--retry-max-retries"),
        (RouterSpec(retries=2), "--retry-max-retries", "--disable-retries"),
        (RouterSpec(), "--disable-circuit-breaker", "--enable-trace"),
        (RouterSpec(circuit_breaker=True), "--policy", "--disable-circuit-breaker"),
    ],
)
def test_router_flags(spec: RouterSpec, present: str, absent: str) -> None:
    assert present in router_flags(spec)
    assert absent not in router_flags(spec)


def test_ports_are_distinct_and_below_the_ephemeral_range(layout: Layout) -> None:
    taken = [endpoint.port for worker in layout.workers for endpoint in worker.endpoints]
    taken += [link.listen.port for link in layout.links]
    taken += [layout.router.port, layout.toxiproxy.port, layout.spanstore.port]
    assert len(taken) == len(set(taken))
    assert max(taken) < 32768


def test_link_patterns() -> None:
    names = pair_names(["p0", "p1"], ["d0"])

    def hits(pattern: str) -> list[str]:
        return [str(name) for name in names if matches(pattern, name)]

    assert hits("kv:*") == ["kv:p0-d0", "kv:p1-d0"]
    assert hits("control:p1-d0") == ["control:p1-d0"]
    assert len(hits("*:p0-d*")) == 3
    assert hits("kv:p7-d0") == []

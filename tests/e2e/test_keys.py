"""A deployment whose workers ask for keys, which reach them by the environment alone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
import requests

from chaos.interrupt import Brake
from chaos.journal import Journal
from chaos.keys import ADMIN_API_KEY, API_KEY
from chaos.ledgers import ask_ledger
from chaos.local import LocalDeployment
from chaos.pairs import ask_pair, ask_router, make_ask
from chaos.process import Launcher
from chaos.spec import DeploymentSpec, WorkerSpec
from chaos.tools import require_toxiproxy
from loadtest.history import End, Outcome, read_history

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(110)]
USER, ADMIN = "user-key-of-the-test", "admin-key-of-the-test"
HOME = Path(__file__).parents[2]


def test_runner_router_and_load_driver_have_the_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(API_KEY, USER)
    monkeypatch.setenv(ADMIN_API_KEY, ADMIN)
    brake = Brake()
    deployment = LocalDeployment(
        DeploymentSpec(worker=WorkerSpec(max_total_tokens=4096, nice=0)),
        Launcher(Journal(tmp_path, "keys")),
        require_toxiproxy(),
        tmp_path / "spans.sqlite",
        brake,
    )
    try:
        deployment.start()
        (pair,) = deployment.pairs
        brake.wait_for(lambda: ask_router(deployment.router, make_ask(40, 1), 5).ok, 20)
        assert ask_router(deployment.router, make_ask(40, seed=1), within_s=10).ok
        assert ask_pair(pair, make_ask(40, seed=1), within_s=10).ok
        assert ask_ledger(pair.prefill_http).worker == "p0"
        for path in ("/ledger", "/server_info"):
            assert requests.get(f"http://{pair.prefill_http}{path}", timeout=5).status_code == 401
        ask = msgspec.to_builtins(make_ask(40, seed=1))
        refused = requests.post(f"http://{deployment.router}/generate", json=ask, timeout=5)
        assert refused.status_code in (401, 500), "the router makes a 500 of the workers' refusal"
        assert "output_ids" not in refused.text
        assert loaded(deployment, tmp_path / "load") == {Outcome.COMPLETED, Outcome.ABORTED_RID}
    finally:
        left = deployment.stop()
        brake.close()
    assert left == []
    written = b"".join(file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
    assert USER.encode() not in written
    assert ADMIN.encode() not in written


def loaded(deployment: LocalDeployment, out: Path) -> set[Outcome]:
    """Outcomes of a short load, some of it aborted by rid."""
    out.mkdir()
    mix = out / "mix.json"
    mix.write_text('[{"kind": "rid", "after_tokens": [2, 4]}]')
    argv = [sys.executable, "-m", "severance", "load", "--url", f"http://{deployment.router}"]
    for worker in deployment.workers:
        argv += ["--abort-url", f"http://{deployment.worker_endpoint(worker)}"]
    argv += ["--out", str(out), "--request-rate", "4", "--duration", "4", "--seed", "1"]
    argv += ["--isl-min", "64", "--isl-max", "200", "--isl-mean", "100", "--osl-min", "60"]
    argv += ["--osl-max", "90", "--abort-mix", str(mix), "--abort-share", "0.5"]
    argv += ["--max-send-lag-ms", "60000"]
    done = subprocess.run(
        argv,
        cwd=HOME,
        env=dict(os.environ),
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    ends = [one for one in read_history(out / "history.jsonl") if isinstance(one, End)]
    return {end.outcome for end in ends}

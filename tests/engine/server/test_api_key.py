"""API keys: which call asks for which key, and that a key is shown nowhere."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from engine.errors import UsageError
from engine.server.args import ServeArgs, check_args, make_scheduler_args
from engine.server.keys import ApiKeys
from engine.server.listen import is_loopback
from tests.engine.server.harness import WorkerProcess, running_worker, script

USER, ADMIN = "user-key-1", "admin-key-2"
Call = tuple[str, str, dict[str, object]]
PUBLIC: list[Call] = [
    ("GET", "/health", {}),
    ("GET", "/metrics", {}),
    ("GET", "/health_generate", {}),
]
USERS: list[Call] = [
    ("POST", "/generate", {"text": script(tokens=1), "sampling_params": {"max_new_tokens": 1}}),
    ("POST", "/abort_request", {"rid": "nobody"}),
    ("GET", "/server_info", {}),
    ("GET", "/v1/models", {}),
    ("GET", "/v1/loads", {}),
    ("GET", "/requests/nobody", {}),
]
ADMINS: list[Call] = [
    ("GET", "/ledger", {}),
    ("POST", "/pause_generation", {}),
    ("POST", "/continue_generation", {}),
    ("POST", "/flush_cache", {}),
    ("GET", "/flush_cache", {}),
    ("POST", "/abort_request", {"abort_all": True}),
    ("POST", "/abort_request", {"rid": "n", "prefix": True}),
]


@pytest.fixture(scope="module")
def locked() -> Iterator[WorkerProcess]:
    """A worker with both keys."""
    with running_worker("--api-key", USER, "--admin-api-key", ADMIN) as process:
        yield process.wait_ready()


@pytest.fixture(scope="module")
def admin_only() -> Iterator[WorkerProcess]:
    with running_worker("--admin-api-key", ADMIN) as process:
        yield process.wait_ready()


def status(worker: WorkerProcess, call: Call, authorization: str | None) -> int:
    method, path, body = call
    headers = {"authorization": authorization} if authorization else {}
    return worker.request(method, path, json.dumps(body).encode() if body else b"", headers).status


@pytest.mark.parametrize("call", PUBLIC)
def test_health_and_metrics_ask_for_nothing(locked: WorkerProcess, call: Call) -> None:
    assert status(locked, call, None) == 200


@pytest.mark.parametrize("call", USERS)
def test_a_user_needs_the_key(locked: WorkerProcess, call: Call) -> None:
    for wrong in (None, USER, f"Bearer {USER}x", "Bearer ", f"Basic {USER}"):
        assert status(locked, call, wrong) == 401
    for right in (f"Bearer {USER}", f"bearer {USER}", f"Bearer {ADMIN}"):
        assert status(locked, call, right) in (200, 404)


@pytest.mark.parametrize("call", ADMINS)
def test_an_admins_call_needs_the_admin_key(locked: WorkerProcess, call: Call) -> None:
    assert status(locked, call, None) == 401
    assert status(locked, call, f"Bearer {USER}") == 401
    assert status(locked, call, f"Bearer {ADMIN}") == 200


@pytest.mark.parametrize("call", ADMINS)
def test_with_an_admin_key_alone_only_admins_calls_ask(
    admin_only: WorkerProcess, call: Call
) -> None:
    assert status(admin_only, call, None) == 401
    assert status(admin_only, call, f"Bearer {ADMIN}") == 200


@pytest.mark.parametrize("call", USERS)
def test_with_an_admin_key_alone_users_are_free(admin_only: WorkerProcess, call: Call) -> None:
    assert status(admin_only, call, None) in (200, 404)


@pytest.mark.parametrize("path", ["/ledger", "//ledger", "/ledger/", "/LEDGER", "/./ledger"])
def test_no_other_spelling_gets_in(admin_only: WorkerProcess, path: str) -> None:
    assert status(admin_only, ("GET", path, {}), None) in (307, 401, 404)


def test_the_refusal_says_what_to_do(locked: WorkerProcess) -> None:
    answer = locked.get("/ledger")
    assert answer.headers["www-authenticate"] == "Bearer"
    error = answer.json["error"]
    assert (error["code"], error["type"]) == (401, "unauthorized")
    assert "Authorization: Bearer" in error["message"]


def test_a_refused_abort_all_aborts_nothing(admin_only: WorkerProcess) -> None:
    body = {"rid": "lives", "text": script(hold=True), "sampling_params": {"max_new_tokens": 3}}
    pending = admin_only.post_later("/generate", body)
    admin_only.wait_open("lives")
    assert admin_only.post("/abort_request", {"abort_all": True}).status == 401
    assert admin_only.post("/abort_request", {"rid": "li", "prefix": True}).status == 401
    key = {"authorization": f"Bearer {ADMIN}"}
    seen = admin_only.request("GET", "/ledger", b"", key).json["seen"]["aborts"]
    assert [one for one in seen if one["rid"] in ("", "li", "lives")] == []
    assert admin_only.post("/abort_request", {"rid": "lives"}).json["matched"] == 1, "its own"
    assert pending.answer().json["meta_info"]["finish_reason"]["type"] == "abort"


def test_no_key_is_shown_anywhere(locked: WorkerProcess) -> None:
    key = {"authorization": f"Bearer {ADMIN}"}
    shown = "".join(
        locked.request("GET", path, b"", key).body.decode()
        for path in ("/server_info", "/metrics", "/ledger", "/model_info")
    )
    shown += "".join(locked.log)
    assert USER not in shown
    assert ADMIN not in shown
    args = ServeArgs(keys=ApiKeys(api_key=USER, admin_api_key=ADMIN))
    child = make_scheduler_args(
        args, bootstrap_port=0, to_scheduler="a", from_scheduler="b", incarnation="c"
    )
    assert USER not in repr(child)


@pytest.mark.parametrize("key", ["", "two words", "line\nbreak", "schlüssel"])
def test_a_key_that_no_header_carries_is_a_usage_error(key: str) -> None:
    with pytest.raises(UsageError, match="--admin-api-key: must be printable"):
        check_args(ServeArgs(keys=ApiKeys(admin_api_key=key)))


def test_an_open_host_without_a_key_is_warned_about() -> None:
    warned = "no key is set"
    with running_worker("--host", "0.0.0.0") as process:
        assert any(warned in line for line in process.wait_ready().log)
    with running_worker("--host", "0.0.0.0", "--api-key", USER) as process:
        assert not any(warned in line for line in process.wait_ready().log)


@pytest.mark.parametrize(
    ("host", "loopback"),
    [("127.0.0.1", True), ("127.8.9.1", True), ("0.0.0.0", False), ("::1", True), ("::", False)],
)
def test_loopback(host: str, loopback: bool) -> None:
    assert is_loopback(host) is loopback

"""toxiproxy-python's HTTP calls, bounded.

The package keeps the server's address in class attributes, has no time limit, follows HTTP_PROXY and
ignores HTTP 500 and 503. Its modules look their consumer up by name at each call, so one subclass in
its place mends all four. Address and session are per thread: two servers, and two threads, do not mix.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
import requests
import toxiproxy.proxy
import toxiproxy.server
from toxiproxy.api import APIConsumer

from chaos.errors import ToxiproxyDown, ToxiproxyRefused, ToxiproxyTimeout
from chaos.links import Endpoint


class _Target(threading.local):
    endpoint: Endpoint | None = None
    timeout_s: float = 1.0
    session: requests.Session | None = None


_target = _Target()


@contextmanager
def talking_to(endpoint: Endpoint, timeout_s: float) -> Iterator[None]:
    """Inside, the package's calls of this thread go to ``endpoint`` and wait ``timeout_s`` at most."""
    before = _target.endpoint, _target.timeout_s
    _target.endpoint, _target.timeout_s = endpoint, timeout_s
    try:
        yield
    finally:
        _target.endpoint, _target.timeout_s = before


def _call(method: str, path: str, json: object = None) -> requests.Response:
    endpoint = _target.endpoint
    if endpoint is None:
        raise ToxiproxyDown("no toxiproxy server was named")
    if _target.session is None:
        _target.session = requests.Session()
        _target.session.trust_env = False
        # A kept connection would be the dead server's after a respawn on the same port.
        _target.session.headers["Connection"] = "close"
    call = f"{method} {path}"
    try:
        response = _target.session.request(
            method,
            f"http://{endpoint}{path}",
            data=None if json is None else msgspec.json.encode(json),
            timeout=_target.timeout_s,
        )
    except requests.Timeout as error:
        raise ToxiproxyTimeout(f"{call}: no answer within {_target.timeout_s:g} s") from error
    except requests.RequestException as error:
        raise ToxiproxyDown(f"{call}: nothing answers on {endpoint}") from error
    if response.status_code >= 400:
        raise ToxiproxyRefused(call, response.status_code, response.text)
    return response


class BoundedConsumer(APIConsumer):
    """Stands in for the package's own consumer."""

    @classmethod
    def get(cls, url: str, params: object = None, **_: object) -> requests.Response:
        return _call("GET", url)

    @classmethod
    def delete(cls, url: str, **_: object) -> requests.Response:
        return _call("DELETE", url)

    @classmethod
    def post(
        cls, url: str, data: object = None, json: object = None, **_: object
    ) -> requests.Response:
        return _call("POST", url, json)


def install() -> None:
    """Put our consumer in the place of the package's; its modules look it up in their globals."""
    for module in (toxiproxy.proxy, toxiproxy.server):
        vars(module)["APIConsumer"] = BoundedConsumer


install()

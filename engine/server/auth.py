"""`KeyGuard`: lets in who has the key, in front of the routes.

Open to anybody: ``/health``, ``/health_generate``, ``/metrics``. An admin's: `ADMIN_PATHS`, and
``/abort_request`` by prefix or for all (its route asks, since its body says so). A user's: the rest.
"""

from __future__ import annotations

from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from engine.server.answers import plain_error
from engine.server.asgi import error_response, header
from engine.server.keys import ApiKeys

ADMIN_PATHS = frozenset({"/flush_cache", "/pause_generation", "/continue_generation", "/ledger"})
_OPEN_PREFIXES = ("/health", "/metrics")
_AUTHORIZATION = b"authorization"


class KeyGuard:
    """A plain ASGI application around another: ``receive`` and ``send`` pass through untouched."""

    def __init__(self, app: ASGIApp, keys: ApiKeys) -> None:
        self._app = app
        self._keys = keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        let_in = scope["type"] != "http" or self._lets_in(scope)
        await (self._app if let_in else refusal(scope))(scope, receive, send)

    def _lets_in(self, scope: Scope) -> bool:
        path: str = scope["path"]
        if path.startswith(_OPEN_PREFIXES):
            return True
        if path in ADMIN_PATHS:
            return may_operate(self._keys, scope)
        return self._keys.may_use(header(scope, _AUTHORIZATION))


def may_operate(keys: ApiKeys, scope: Scope) -> bool:
    """Whether this call may act on everybody's requests."""
    return keys.may_operate(header(scope, _AUTHORIZATION))


def refusal(scope: Scope) -> Response:
    """401 that says what is missing."""
    message = (
        f"{scope['path']}: this call needs a key; send the header Authorization: Bearer KEY with the "
        f"worker's API key, or its admin API key if it is an admin's call"
    )
    response = error_response(plain_error(message, 401, "unauthorized"))
    response.headers["www-authenticate"] = "Bearer"
    return response

"""`make_app`: the routes of a worker's HTTP API. Pure ASGI, no wrapping middleware."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from engine.errors import RequestError, UnavailableError
from engine.server.admin import AdminRoutes
from engine.server.answers import plain_error, request_error, unavailable
from engine.server.asgi import error_response
from engine.server.auth import KeyGuard
from engine.server.generate import GenerateEndpoint
from engine.server.health import HealthRoutes
from engine.server.info import InfoRoutes
from engine.server.keys import ApiKeys


def make_app(
    generate: GenerateEndpoint,
    health: HealthRoutes,
    admin: AdminRoutes,
    info: InfoRoutes,
    keys: ApiKeys,
) -> ASGIApp:
    """All endpoints, SGLang's paths first, behind the keys."""
    get, post = ["GET"], ["POST"]
    app = Starlette(
        routes=[
            Route("/generate", generate, methods=["POST", "PUT"]),
            Route("/abort_request", admin.abort_request, methods=post),
            Route("/health", health.health, methods=get),
            Route("/health_generate", health.health_generate, methods=get),
            Route("/server_info", info.server_info, methods=get),
            Route("/get_server_info", info.server_info, methods=get),
            Route("/model_info", info.model_info, methods=get),
            Route("/get_model_info", info.model_info, methods=get),
            Route("/v1/models", info.models, methods=get),
            Route("/v1/loads", admin.loads, methods=get),
            Route("/metrics", info.metrics, methods=get),
            Route("/pause_generation", admin.pause_generation, methods=post),
            Route("/continue_generation", admin.continue_generation, methods=post),
            Route("/flush_cache", admin.flush_cache, methods=[*get, *post]),
            Route("/ledger", admin.ledger, methods=get),
            Route("/requests/{rid:path}", admin.request_view, methods=get),
        ],
        exception_handlers={
            RequestError: _bad_request,
            UnavailableError: _unavailable,
            ClientDisconnect: _client_left,
            HTTPException: _http_error,
            Exception: _internal_error,
        },
    )
    return KeyGuard(app, keys) if keys.any_set else app


async def _bad_request(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestError)
    return error_response(request_error(error))


async def _unavailable(request: Request, error: Exception) -> Response:
    return error_response(unavailable(str(error)))


async def _client_left(request: Request, error: Exception) -> Response:
    return Response(status_code=499)


async def _http_error(request: Request, error: Exception) -> Response:
    """404 and 405, in the same shape as our own errors."""
    assert isinstance(error, HTTPException)
    return error_response(
        plain_error(f"{request.method} {request.url.path}: {error.detail}", error.status_code)
    )


async def _internal_error(request: Request, error: Exception) -> Response:
    """A bug of ours; the server logs its traceback."""
    return error_response(plain_error(f"internal error: {error!r}; see the log", 500, "internal"))

"""The rendezvous of a prefill worker: where decode finds its control link, and who answers there."""

from __future__ import annotations

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from engine.core.io_struct import SchedulerReady
from engine.server.answers import unavailable
from engine.server.args import ServeArgs
from engine.server.asgi import error_response, json_response
from engine.server.watch import SchedulerWatch


class RouteBody(msgspec.Struct, frozen=True, kw_only=True):
    """Body of ``GET /route``. Decode refuses a pair whose pages or weights do not fit its own."""

    worker_name: str
    incarnation: str
    control_host: str
    control_port: int
    page_size: int
    dtype: str
    fingerprint: str


def make_bootstrap_app(args: ServeArgs, incarnation: str, watch: SchedulerWatch) -> Starlette:
    """``GET /route`` (503 until the scheduler is ready) and ``GET /health``."""

    async def route(request: Request) -> Response:
        if watch.down is not None or watch.ready is None:
            return error_response(unavailable(watch.down or "the model is still loading"))
        return json_response(route_body(args, incarnation, watch.ready))

    async def health(request: Request) -> Response:
        return Response(b"OK", media_type="text/plain")

    return Starlette(routes=[Route("/route", route), Route("/health", health)])


def route_body(args: ServeArgs, incarnation: str, ready: SchedulerReady) -> RouteBody:
    """What decode needs; ``ready.control_endpoint`` is ``tcp://host:port`` or ``host:port``."""
    host, _, port = ready.control_endpoint.removeprefix("tcp://").rpartition(":")
    return RouteBody(
        worker_name=args.worker_name,
        incarnation=incarnation,
        control_host=host or args.host,
        control_port=int(port or args.control_port),
        page_size=ready.page_size,
        dtype=args.dtype,
        fingerprint=ready.fingerprint,
    )

"""A server-side abort is answered with a bare error (after llm-d#2433: the client saw no cause)."""

from __future__ import annotations

import engine.server.generate
from engine.core.codes import http_status
from engine.core.io_struct import AbortInfo
from engine.server.answers import ErrorBody, plain_error


def apply() -> None:
    def bare(abort: AbortInfo, rid: str) -> ErrorBody | None:
        status = http_status(abort.reason, abort.origin)
        return None if status == 200 else plain_error("Internal error", status, "internal_error")

    engine.server.generate.abort_error = bare  # type: ignore[attr-defined]

"""Where an abort by rid can go: every worker, or those of one role."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from loadtest.endpoint import Endpoint, parse_endpoint
from loadtest.history import AbortAt

_FLAG = "--abort-url"
_ROLES = (AbortAt.PREFILL, AbortAt.DECODE)


class AbortUrls(msgspec.Struct, frozen=True, kw_only=True):
    """Workers that take ``/abort_request``; those of a role, where the user said so."""

    all: tuple[Endpoint, ...]
    prefill: tuple[Endpoint, ...] = ()
    decode: tuple[Endpoint, ...] = ()

    def at(self, where: AbortAt) -> tuple[Endpoint, ...]:
        match where:
            case AbortAt.ALL:
                return self.all
            case AbortAt.PREFILL:
                return self.prefill
            case AbortAt.DECODE:
                return self.decode


def parse_abort_urls(texts: Sequence[str], default: Endpoint, api_key: str | None) -> AbortUrls:
    """Each ``[ROLE=]URL``; none at all: ``default``. Raises `UsageError`."""
    found: dict[AbortAt, list[Endpoint]] = {AbortAt.ALL: [], **{role: [] for role in _ROLES}}
    for text in texts:
        role = next((role for role in _ROLES if text.startswith(f"{role}=")), None)
        url = text if role is None else text.removeprefix(f"{role}=")
        endpoint = parse_endpoint(_FLAG, url, api_key)
        found[AbortAt.ALL].append(endpoint)
        if role is not None:
            found[role].append(endpoint)
    return AbortUrls(
        all=tuple(found[AbortAt.ALL]) or (default,),
        prefill=tuple(found[AbortAt.PREFILL]),
        decode=tuple(found[AbortAt.DECODE]),
    )

"""`ApiKeys`: the keys of a worker, and whom they let in (SGLang's ``--api-key`` and ``--admin-api-key``).

The API key is asked for by all but health and metrics. The admin key is asked for by calls that touch or
show the requests of others; it opens everything. Without an admin key the API key opens those too.
"""

from __future__ import annotations

import hmac

import msgspec

from engine.errors import UsageError

_SCHEME = "bearer "


class ApiKeys(msgspec.Struct, frozen=True, kw_only=True):
    """None: not asked for. Never shown: not in a log, not in ``/server_info``, not to the scheduler."""

    api_key: str | None = None
    admin_api_key: str | None = None

    @property
    def any_set(self) -> bool:
        return bool(self.api_key or self.admin_api_key)

    def may_use(self, authorization: str | None) -> bool:
        """Whether a caller with this header may send and abort requests of its own."""
        if self.api_key is None:
            return True
        return _is_one_of(authorization, self.api_key, self.admin_api_key)

    def may_operate(self, authorization: str | None) -> bool:
        """Whether a caller with this header may act on everybody's requests."""
        if self.admin_api_key is not None:
            return _is_one_of(authorization, self.admin_api_key)
        return self.may_use(authorization)


def check_key(flag: str, key: str | None) -> None:
    """Raise `UsageError` for a key that no header can carry. The message does not repeat it."""
    if key is not None and not (key and key.isascii() and key.isprintable() and " " not in key):
        raise UsageError(flag, "must be printable ASCII without spaces, and not empty")


def _is_one_of(authorization: str | None, *wanted: str | None) -> bool:
    text = authorization or ""
    if text[: len(_SCHEME)].lower() != _SCHEME:
        return False
    given = text[len(_SCHEME) :].strip().encode("utf-8")
    return any(hmac.compare_digest(given, key.encode()) for key in wanted if key is not None)

"""A prefill that was lost once is never dialed again (after sglang#13054: one KV error, and a healthy pair
answered 500 for ever)."""

from __future__ import annotations

from engine.transfer.decode_links import DecodeLinks, _Prefill


def apply() -> None:
    resolve = DecodeLinks._resolve

    def resolve_once(self: DecodeLinks, prefill: _Prefill, now_ns: int) -> None:
        if prefill.route is None:
            resolve(self, prefill, now_ns)

    DecodeLinks._resolve = resolve_once  # type: ignore[method-assign]

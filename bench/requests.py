"""Requests and aborts as the HTTP process sends them to a scheduler."""

from __future__ import annotations

import random
import time

from engine.core.codes import AbortOrigin, AbortReason
from engine.core.io_struct import AbortReq, SamplingParams, TokenizedGenerateReqInput


def make_prompt(seed: int, length: int) -> tuple[int, ...]:
    """Bytes, different for each seed."""
    return tuple(random.Random(seed).randbytes(length))


def make_request(rid: str, prompt: tuple[int, ...], max_new: int) -> TokenizedGenerateReqInput:
    """For a unified worker; it ends by length alone."""
    return TokenizedGenerateReqInput(
        rid=rid,
        input_ids=prompt,
        sampling_params=SamplingParams(max_new_tokens=max_new, ignore_eos=True),
        received_ns=time.monotonic_ns(),
    )


def make_abort(rid: str) -> AbortReq:
    """A client's own abort, received now."""
    return AbortReq(
        rid=rid,
        reason=AbortReason.CLIENT_ABORT,
        origin=AbortOrigin.CLIENT,
        received_ns=time.monotonic_ns(),
    )

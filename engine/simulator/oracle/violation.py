"""A broken invariant."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class Law(StrEnum):
    """Every invariant, by name."""

    CONSERVATION = "conservation"
    ONE_OWNER = "one_owner"
    ONE_ANSWER = "one_answer"
    NO_TOKEN_AFTER_ABORT = "no_token_after_abort"
    NO_PAGES_AFTER_ABORT = "no_pages_after_abort"
    NO_TOKEN_WHILE_PAUSED = "no_token_while_paused"
    STOPPED_BY_LAYER = "stopped_by_layer"
    FREED_NEXT_STEP = "freed_next_step"
    LEGAL_END = "legal_end"
    DEADLINE_KEPT = "deadline_kept"
    FLUSH_IS_HONEST = "flush_is_honest"
    RANKS_AGREE = "ranks_agree"
    ABORT_HEEDED = "abort_heeded"
    RIGHT_TOKENS = "right_tokens"
    RELEASED_AT_ANSWER = "released_at_answer"
    ROOM_CLOSED_AT_ANSWER = "room_closed_at_answer"
    LOST_PEER_ACTED_ON = "lost_peer_acted_on"
    FENCED = "fenced"
    NO_CRASH = "no_crash"
    ANSWERED = "answered"
    ALL_RELEASED = "all_released"
    ROOMS_CLOSED = "rooms_closed"
    PEER_TOLD = "peer_told"
    CUT_NOTICED = "cut_noticed"
    ABORT_PROMPT = "abort_prompt"
    NO_STARVATION = "no_starvation"
    BYSTANDER_UNHURT = "bystander_unhurt"
    SERVES_AGAIN = "serves_again"
    BOUNDED_MEMORY = "bounded_memory"
    NO_LIVELOCK = "no_livelock"


class Violation(msgspec.Struct, frozen=True, kw_only=True):
    law: Law
    at_ms: int
    text: str


class BrokenLaw(Exception):
    """Stops a simulation at its first violation."""

    def __init__(self, violation: Violation) -> None:
        super().__init__(f"{violation.law} at {violation.at_ms} ms: {violation.text}")
        self.violation = violation

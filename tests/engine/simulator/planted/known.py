"""Where each planted bug is found: (seed, law), as in docs/simulator.md."""

from __future__ import annotations

from engine.simulator.oracle.violation import Law

KNOWN: dict[str, tuple[int, Law]] = {
    "abort_is_not_told": (3, Law.PEER_TOLD),
    "abort_in_last_chunk_is_lost": (2, Law.NO_PAGES_AFTER_ABORT),
    "aborted_chunk_is_sent": (0, Law.NO_PAGES_AFTER_ABORT),
    "chunk_abort_leaks_pages": (0, Law.RELEASED_AT_ANSWER),
    "commit_is_ignored": (0, Law.ANSWERED),
    "dead_peer_is_blacklisted": (0, Law.SERVES_AGAIN),
    "deadlines_are_not_checked": (0, Law.ANSWERED),
    "early_abort_is_dropped": (20, Law.PEER_TOLD),
    "failed_is_revived": (10, Law.PEER_TOLD),
    "gaps_are_skipped": (35, Law.BYSTANDER_UNHURT),
    "given_up_in_silence": (215, Law.CUT_NOTICED),
    "lost_peer_is_ignored": (0, Law.LOST_PEER_ACTED_ON),
    "metadata_slot_leaks": (5, Law.RELEASED_AT_ANSWER),
    "neighbours_are_aborted": (5, Law.BYSTANDER_UNHURT),
    "no_tombstones": (5, Law.PEER_TOLD),
    "nothing_is_sent_again": (6, Law.SERVES_AGAIN),
    "pages_are_freed_twice": (0, Law.ONE_OWNER),
    "refusal_is_not_told": (16, Law.BYSTANDER_UNHURT),
    "result_is_not_drained": (5, Law.NO_TOKEN_AFTER_ABORT),
    "scatter_into_freed_pages": (232, Law.RIGHT_TOKENS),
    "staging_is_not_freed": (7, Law.ANSWERED),
}

"""Where each planted bug is found: (seed, law), as in docs/simulator.md."""

from __future__ import annotations

from engine.simulator.oracle.violation import Law

KNOWN: dict[str, tuple[int, Law]] = {
    "abort_is_not_told": (3, Law.PEER_TOLD),
    "abort_in_last_chunk_is_lost": (0, Law.NO_PAGES_AFTER_ABORT),
    "aborted_chunk_is_sent": (0, Law.NO_PAGES_AFTER_ABORT),
    "chunk_abort_leaks_pages": (0, Law.RELEASED_AT_ANSWER),
    "commit_is_ignored": (0, Law.ANSWERED),
    "dead_peer_is_blacklisted": (0, Law.SERVES_AGAIN),
    "deadlines_are_not_checked": (0, Law.ANSWERED),
    "early_abort_is_dropped": (20, Law.PEER_TOLD),
    "failed_is_revived": (30, Law.PEER_TOLD),
    "gaps_are_skipped": (55, Law.BYSTANDER_UNHURT),
    "lost_peer_is_ignored": (2, Law.LOST_PEER_ACTED_ON),
    "metadata_slot_leaks": (5, Law.RELEASED_AT_ANSWER),
    "neighbours_are_aborted": (0, Law.BYSTANDER_UNHURT),
    "no_tombstones": (0, Law.PEER_TOLD),
    "nothing_is_sent_again": (5, Law.ANSWERED),
    "pages_are_freed_twice": (0, Law.ONE_OWNER),
    "refusal_is_not_told": (1, Law.BYSTANDER_UNHURT),
    "result_is_not_drained": (4, Law.NO_TOKEN_AFTER_ABORT),
    "scatter_into_freed_pages": (116, Law.RIGHT_TOKENS),
    "staging_is_not_freed": (13, Law.ANSWERED),
}

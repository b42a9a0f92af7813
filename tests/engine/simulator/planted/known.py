"""Where each planted bug is found: (seed, law), as in docs/simulator.md."""

from __future__ import annotations

from engine.simulator.oracle.violation import Law

KNOWN: dict[str, tuple[int, Law]] = {
    "abort_all_spares_the_queue": (28, Law.STOPPED_BY_LAYER),
    "abort_hits_one_room": (11, Law.NO_PAGES_AFTER_ABORT),
    "abort_in_last_chunk_is_lost": (2, Law.STOPPED_BY_LAYER),
    "abort_is_not_told": (0, Law.PEER_TOLD),
    "aborted_chunk_is_sent": (3, Law.NO_PAGES_AFTER_ABORT),
    "cancelled_chunk_counts": (10, Law.RIGHT_TOKENS),
    "cancelled_last_chunk_is_lost": (10, Law.ANSWERED),
    "chunk_abort_leaks_pages": (0, Law.RELEASED_AT_ANSWER),
    "client_deadline_is_ignored": (0, Law.DEADLINE_KEPT),
    "commit_is_ignored": (0, Law.ANSWERED),
    "dead_peer_is_blacklisted": (2, Law.SERVES_AGAIN),
    "deadlines_are_not_checked": (1, Law.ANSWERED),
    "duplicates_are_taken": (79, Law.LEGAL_END),
    "early_abort_is_dropped": (0, Law.PEER_TOLD),
    "failed_is_revived": (1, Law.PEER_TOLD),
    "flush_lies": (8, Law.FLUSH_IS_HONEST),
    "forward_is_deaf": (2, Law.STOPPED_BY_LAYER),
    "gaps_are_skipped": (208, Law.LEGAL_END),
    "given_up_in_silence": (66, Law.CUT_NOTICED),
    "lost_peer_is_ignored": (2, Law.LOST_PEER_ACTED_ON),
    "metadata_slot_leaks": (1, Law.RELEASED_AT_ANSWER),
    "neighbours_are_aborted": (0, Law.LEGAL_END),
    "no_tombstones": (0, Law.PEER_TOLD),
    "nothing_is_sent_again": (0, Law.SERVES_AGAIN),
    "pages_are_freed_twice": (0, Law.ONE_OWNER),
    "pause_is_ignored": (43, Law.NO_TOKEN_WHILE_PAUSED),
    "paused_worker_holds_aborts": (16, Law.PEER_TOLD),
    "rank_hears_abort_late": (3, Law.RANKS_AGREE),
    "refusal_is_not_told": (4, Law.PEER_TOLD),
    "result_is_not_drained": (5, Law.NO_TOKEN_AFTER_ABORT),
    "retracted_keeps_its_count": (7, Law.RIGHT_TOKENS),
    "scatter_into_freed_pages": (294, Law.RIGHT_TOKENS),
    "staging_is_not_freed": (5, Law.ALL_RELEASED),
    "trust_outlives_failure": (0, Law.ANSWERED),
    "waiting_never_ends": (264, Law.LEGAL_END),
}

"""Known bugs, put back one at a time: the simulator must find every one of them."""

from __future__ import annotations

from tests.engine.simulator.planted import (
    abort_in_last_chunk_is_lost,
    abort_is_not_told,
    aborted_chunk_is_sent,
    chunk_abort_leaks_pages,
    commit_is_ignored,
    dead_peer_is_blacklisted,
    deadlines_are_not_checked,
    early_abort_is_dropped,
    failed_is_revived,
    gaps_are_skipped,
    given_up_in_silence,
    lost_peer_is_ignored,
    metadata_slot_leaks,
    neighbours_are_aborted,
    no_tombstones,
    nothing_is_sent_again,
    pages_are_freed_twice,
    refusal_is_not_told,
    result_is_not_drained,
    scatter_into_freed_pages,
    staging_is_not_freed,
)
from tests.engine.simulator.planted.patch import Patch, planted

__all__ = ["PLANTED", "planted"]

PLANTED: dict[str, tuple[Patch, ...]] = {
    "abort_is_not_told": abort_is_not_told.PATCHES,
    "abort_in_last_chunk_is_lost": abort_in_last_chunk_is_lost.PATCHES,
    "aborted_chunk_is_sent": aborted_chunk_is_sent.PATCHES,
    "chunk_abort_leaks_pages": chunk_abort_leaks_pages.PATCHES,
    "commit_is_ignored": commit_is_ignored.PATCHES,
    "dead_peer_is_blacklisted": dead_peer_is_blacklisted.PATCHES,
    "deadlines_are_not_checked": deadlines_are_not_checked.PATCHES,
    "early_abort_is_dropped": early_abort_is_dropped.PATCHES,
    "failed_is_revived": failed_is_revived.PATCHES,
    "gaps_are_skipped": gaps_are_skipped.PATCHES,
    "given_up_in_silence": given_up_in_silence.PATCHES,
    "lost_peer_is_ignored": lost_peer_is_ignored.PATCHES,
    "metadata_slot_leaks": metadata_slot_leaks.PATCHES,
    "neighbours_are_aborted": neighbours_are_aborted.PATCHES,
    "no_tombstones": no_tombstones.PATCHES,
    "nothing_is_sent_again": nothing_is_sent_again.PATCHES,
    "pages_are_freed_twice": pages_are_freed_twice.PATCHES,
    "refusal_is_not_told": refusal_is_not_told.PATCHES,
    "result_is_not_drained": result_is_not_drained.PATCHES,
    "scatter_into_freed_pages": scatter_into_freed_pages.PATCHES,
    "staging_is_not_freed": staging_is_not_freed.PATCHES,
}

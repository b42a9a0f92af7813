"""Polls of rooms: agreement of several ranks, and failures put in for tests.

A poll is an event here: the room table hands over only rooms whose state has changed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from engine.core.codes import KVPoll

INJECTED = "the poll was failed on purpose (SGLANG_TEST_DISAGG_FAILURE_PROB)"


def poll_and_all_reduce_attn_cp_tp_group(
    polls_by_rank: Sequence[Sequence[KVPoll]],
) -> list[KVPoll]:
    """MIN over the ranks, room by room (SGLang has this name): anybody's Failed wins, nobody runs ahead.

    One list a rank, all about the same rooms in the same order; the identity for one rank. Raises
    ValueError if the lists differ in length.
    """
    return [min(states) for states in zip(*polls_by_rank, strict=True)]


class PollFailures:
    """Fails a share of all polls (SGLang `SGLANG_TEST_DISAGG_FAILURE_PROB`), and counts those that it has.

    ``draw`` gives numbers in [0, 1), from a seed. A fault that never fired proves nothing: look at
    ``num_fired``.
    """

    def __init__(self, probability: float, draw: Callable[[], float]) -> None:
        self.probability = probability
        self.num_fired = 0
        self._draw = draw

    def fires(self) -> bool:
        """Does this poll fail?"""
        if self.probability <= 0 or self._draw() >= self.probability:
            return False
        self.num_fired += 1
        return True


def no_poll_failures() -> PollFailures:
    """What a worker has that nobody tests."""
    return PollFailures(0.0, lambda: 1.0)

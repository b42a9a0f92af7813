"""Ids come from the system's randomness, whatever `random` was seeded with."""

from __future__ import annotations

import os
import random

from engine.telemetry.ids import UrandomIdGenerator, pinned_trace_id


def test_seeding_random_does_not_repeat_ids() -> None:
    ids = []
    for _ in range(2):
        random.seed(7)
        generator = UrandomIdGenerator()
        ids += [generator.generate_trace_id(), generator.generate_span_id()]
    assert len(set(ids)) == 4


def test_ids_are_unique_and_in_range() -> None:
    generator = UrandomIdGenerator()
    spans = {generator.generate_span_id() for _ in range(5_000)}
    traces = {generator.generate_trace_id() for _ in range(5_000)}

    assert len(spans) == len(traces) == 5_000
    assert max(spans) < 2**64
    assert 2**120 < max(traces) < 2**128  # all 128 bits are used
    assert generator.is_trace_id_random()


def test_a_forked_child_draws_other_ids() -> None:
    generator = UrandomIdGenerator()
    generator.generate_span_id()  # fills the pool that the child would inherit
    read_end, write_end = os.pipe()
    if (pid := os.fork()) == 0:
        os.write(write_end, generator.generate_span_id().to_bytes(8, "big"))
        os._exit(0)
    os.waitpid(pid, 0)

    assert int.from_bytes(os.read(read_end, 8), "big") != generator.generate_span_id()
    os.close(read_end)
    os.close(write_end)


def test_a_pinned_trace_id_holds_within_its_block() -> None:
    generator = UrandomIdGenerator()
    with pinned_trace_id(42):
        assert generator.generate_trace_id() == 42
        assert not generator.is_trace_id_random()
    assert generator.generate_trace_id() != 42

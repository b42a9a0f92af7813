"""Log lines never wait for their reader, and say what was lost."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Iterator

import pytest

from engine.server.log_sink import LogSink
from tests.engine.server.harness import wait_until


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for end in ends:
        os.close(end)


def read_all(fd: int) -> bytes:
    data = b""
    while select.select([fd], [], [], 0.2)[0]:
        data += os.read(fd, 1 << 16)
    return data


def test_lines_arrive_in_order(pipe: tuple[int, int]) -> None:
    sink = LogSink(pipe[1])
    for number in range(100):
        sink.write(f"{number}\n")
    sink.drain(5.0)
    assert read_all(pipe[0]).decode().split() == [str(number) for number in range(100)]


def test_a_reader_that_stopped_costs_lines_and_no_time(pipe: tuple[int, int]) -> None:
    sink = LogSink(pipe[1], max_queued_bytes=100_000)
    began = time.monotonic()
    for _ in range(1_000):
        sink.write("x" * 999 + "\n")
    assert time.monotonic() - began < 1.0
    lost = sink.num_lost
    assert lost > 700  # the pipe holds 64 KB, the sink 100 KB

    held = read_all(pipe[0]).splitlines()

    notices = [line for line in held if b"lost" in line]
    assert notices == [f"({lost} log writes were lost here)".encode()]
    assert len(held) - len(notices) == 1_000 - lost
    assert sink.num_lost == 0


def test_a_full_disk_is_survived(pipe: tuple[int, int]) -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    try:
        sink = LogSink(full)
        sink.write("nobody reads this\n")
        wait_until(lambda: sink.num_lost == 1)
        os.dup2(pipe[1], full)  # there is room again
        sink.write("here\n")
        sink.drain(5.0)
        assert read_all(pipe[0]) == b"(1 log writes were lost here)\nhere\n"
    finally:
        os.close(full)


def test_a_closed_pipe_is_survived() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    sink = LogSink(writing)
    sink.write("nobody reads this\n")
    wait_until(lambda: sink.num_lost == 1)
    os.close(writing)


def test_drain_is_bounded(pipe: tuple[int, int]) -> None:
    sink = LogSink(pipe[1])
    sink.write("x" * 500_000)
    began = time.monotonic()
    sink.drain(0.2)
    assert 0.15 < time.monotonic() - began < 2.0
    read_all(pipe[0])

"""The real loop, I/O thread and model: aborts that arrive while a forward runs."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from bench.loop_bench import LoopBench, loop_bench
from engine.core.batch import Cancelled
from engine.core.codes import Stage
from engine.core.config import SECOND_NS
from engine.core.io_struct import TokenizedGenerateReqInput
from engine.core.peer import Emit
from engine.model.config import TINY
from engine.model.runner import ModelRunner
from engine.server.args import AbortGranularity
from engine.server.inbox import Inbox
from tests.engine.core.twin import make_abort, make_request
from tests.engine.model.drive import make_prompt
from tests.engine.server.harness import wait_until

LENGTH = 700


@pytest.fixture(scope="module")
def runner() -> ModelRunner:
    return ModelRunner(TINY, 400, 16, "float32", seed=0)


def ask(rid: str, index: int = 1, max_new: int = 8) -> TokenizedGenerateReqInput:
    return make_request(rid, None, make_prompt(index, LENGTH), max_new, time.monotonic_ns())


def abort_during_question(bench: LoopBench, rid: str, number: int, forward: int) -> None:
    """The abort arrives while layer ``number`` // 2 of the ``forward``-th forward runs."""

    def on_question(asked: int) -> None:
        if asked == number and len(bench.runner.results) == forward:
            bench.send(make_abort(rid, time.monotonic_ns()))
            wait_until(lambda: bench.io.inbox.num_unread_aborts == 1)

    bench.runner.on_question = on_question


@pytest.mark.parametrize("forward", [1, 2])
def test_abort_in_mid_layer(runner: ModelRunner, tmp_path: Path, forward: int) -> None:
    """The forward stops at that very layer; the next request, on the same pages, is right."""
    with loop_bench(runner, tmp_path, num_pages=50) as bench:
        bench.send(ask("control"))
        expected, _ = bench.answer("control")
        bench.runner.results.clear()
        abort_during_question(bench, "a", 3, forward)
        bench.send(ask("a", index=2))
        tokens, last = bench.answer("a")
        assert bench.runner.results[forward] == Cancelled(num_layers_run=1)
        bench.send(ask("a"))  # the same rid: its abort was for the first one
        got, _ = bench.answer("a")
    assert tokens == []
    assert last.finish is not None
    assert last.finish.abort is not None
    assert last.finish.abort.stage is (Stage.MID_CHUNK, Stage.LAST_CHUNK)[forward - 1]
    assert got == expected
    assert bench.core.ledger_view().holders == ()


def test_chunk_granularity_runs_the_chunk_to_its_end(runner: ModelRunner, tmp_path: Path) -> None:
    with loop_bench(runner, tmp_path, AbortGranularity.CHUNK) as bench:
        bench.send(ask("a"))
        for _ in range(200):
            if bench.core.chunked_req is not None:
                break
            time.sleep(0.001)
        bench.send(make_abort("a", time.monotonic_ns()))
        bench.answer("a")
    assert not any(isinstance(result, Cancelled) for result in bench.runner.results)


def test_the_io_thread_dies_and_the_loop_does_not_stay_green(
    runner: ModelRunner, tmp_path: Path
) -> None:
    """SGLang: an exception in a transfer worker ends it for good while /health stays 200."""
    with loop_bench(runner, tmp_path) as bench:
        bench.send(ask("a", max_new=2))
        bench.answer("a")
        bench.io.submit([Emit(message=object())])  # type: ignore[arg-type]  # cannot be encoded
        assert bench.join(5), "the loop still runs without ears"
        bench.io._to_http.close(0)
        bench.io._from_http.close(0)
    assert bench.died_of == [bench.io.failure]


def test_inbox_peeks_at_aborts_until_they_are_drained() -> None:
    inbox = Inbox()
    first, second = make_abort("a", SECOND_NS), make_abort("b", SECOND_NS)
    inbox.put(make_request("a", None, (1,), 1, SECOND_NS))
    inbox.put(first)
    inbox.put(second)
    assert inbox.unread_aborts() == [first, second]
    assert inbox.unread_aborts(1) == [second]
    assert len(inbox.drain()) == 3
    assert inbox.unread_aborts() == []
    assert inbox.drain(0.001) == []

"""A real scheduler loop with its I/O thread and model, fed over its ipc sockets, in one process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec
import zmq

from engine.core.batch import ForwardItem, ForwardResult, ShouldStop, never
from engine.core.codes import DisaggregationMode
from engine.core.config import SchedulerConfig
from engine.core.factory import make_scheduler
from engine.core.io_struct import FromScheduler, TokenOut, ToScheduler
from engine.core.scheduler import Scheduler
from engine.model.runner import ModelRunner
from engine.server.args import AbortGranularity
from engine.server.io_thread import IoThread
from engine.server.scheduler_loop import SchedulerLoop
from engine.transfer.pulse import LoopPulse


class WatchedRunner:
    """The real runner; ``on_question`` is called with the number of each question of a forward."""

    def __init__(self, runner: ModelRunner) -> None:
        self._runner = runner
        self.page_bytes = runner.page_bytes
        self.on_question: Callable[[int], None] = lambda number: None
        self.results: list[ForwardResult] = []

    def forward(
        self, items: Sequence[ForwardItem], should_stop: ShouldStop = never
    ) -> ForwardResult:
        numbers = iter(range(1_000))

        def ask() -> bool:
            self.on_question(next(numbers))
            return should_stop()

        self.results.append(self._runner.forward(items, ask))
        return self.results[-1]

    def gather_pages(self, page_ids: Sequence[int]) -> bytes:
        return self._runner.gather_pages(page_ids)

    def scatter_pages(self, page_ids: Sequence[int], data: bytes | memoryview) -> None:
        self._runner.scatter_pages(page_ids, data)


class LoopBench:
    """`send` as the HTTP process does; `answers` is what it would get."""

    def __init__(
        self,
        runner: WatchedRunner,
        directory: Path,
        granularity: AbortGranularity,
        num_pages: int,
    ) -> None:
        self.runner = runner
        to_scheduler, from_scheduler = f"ipc://{directory}/to", f"ipc://{directory}/from"
        context: zmq.Context[zmq.Socket[bytes]] = zmq.Context.instance()
        self._push = context.socket(zmq.PUSH)
        self._push.bind(to_scheduler)
        self._pull = context.socket(zmq.PULL)
        self._pull.bind(from_scheduler)
        self._encode = msgspec.msgpack.Encoder().encode
        self._decode = msgspec.msgpack.Decoder(FromScheduler).decode
        pulse = LoopPulse()
        self.io = IoThread(to_scheduler, from_scheduler, pulse, lambda deliver: None)
        config = SchedulerConfig(worker_name="u", incarnation="u-1", num_pages=num_pages)
        self.core: Scheduler = make_scheduler(DisaggregationMode.UNIFIED, config)
        self.loop = SchedulerLoop(self.core, self.runner, self.io, pulse, granularity)
        self.died_of: list[BaseException] = []
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        try:
            self.loop.run()
        except Exception as error:
            self.died_of.append(error)

    def start(self) -> None:
        self.io.start()
        self._thread.start()

    def join(self, timeout_s: float) -> bool:
        """Has the loop ended within that time?"""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def stop(self) -> None:
        self.loop.stop()
        self._thread.join(10)
        self.io.stop()
        self._push.close(0)
        self._pull.close(0)

    def send(self, message: ToScheduler) -> None:
        self._push.send(self._encode(message))

    def outputs(self, timeout_s: float = 10.0) -> Iterator[TokenOut]:
        """Token messages as they come; ends after ``timeout_s`` of silence with an error."""
        while self._pull.poll(int(timeout_s * 1000)):
            message = self._decode(self._pull.recv())
            if isinstance(message, TokenOut):
                yield message
        raise AssertionError("the scheduler is silent")

    def answer(self, rid: str) -> tuple[list[int], TokenOut]:
        """Every token of a request, and its last message."""
        tokens: list[int] = []
        for out in self.outputs():
            if out.rid == rid:
                tokens += [token.token_id for token in out.tokens]
                if out.finish is not None:
                    return tokens, out
        raise AssertionError("unreachable")


@contextmanager
def loop_bench(
    runner: ModelRunner | WatchedRunner,
    directory: Path,
    granularity: AbortGranularity = AbortGranularity.LAYER,
    num_pages: int = 400,
) -> Iterator[LoopBench]:
    watched = runner if isinstance(runner, WatchedRunner) else WatchedRunner(runner)
    bench = LoopBench(watched, directory, granularity, num_pages)
    bench.start()
    try:
        yield bench
    finally:
        bench.stop()

"""The scheduler process: ``python -m engine.server.scheduler_process ARGS_FILE``.

A child of the HTTP process; it ends when its parent ends, and the parent answers for it when it ends.
"""

from __future__ import annotations

import ctypes
import logging
import os
import random
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import msgspec

from engine.core.codes import DisaggregationMode
from engine.core.config import SECOND_NS, SchedulerConfig
from engine.core.factory import make_scheduler
from engine.core.io_struct import SchedulerReady
from engine.core.peer import Emit, Inbound
from engine.core.polling import PollFailures
from engine.model.torch_threads import limit_torch_threads
from engine.server.args import SchedulerArgs
from engine.server.io_thread import IoThread
from engine.server.log_sink import stderr_sink
from engine.server.scheduler_loop import SchedulerLoop
from engine.transfer.decode_links import DecodeLinks
from engine.transfer.links import Links
from engine.transfer.prefill_links import PrefillLinks
from engine.transfer.pulse import LoopPulse
from engine.transfer.route import AddressMap
from engine.transfer.session import Identity

log = logging.getLogger(__name__)
PR_SET_PDEATHSIG = 1


def die_with_parent(parent_pid: int) -> None:
    """Ask the kernel for SIGKILL when the parent ends; leave at once if it already has."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent_pid:
        sys.exit("the HTTP process is gone")


def make_config(args: SchedulerArgs, eos_token_id: int) -> SchedulerConfig:
    return SchedulerConfig(
        worker_name=args.worker_name,
        incarnation=args.incarnation,
        num_pages=args.max_total_tokens // args.page_size,
        page_size=args.page_size,
        chunked_prefill_size=args.chunked_prefill_size,
        max_running_requests=args.max_running_requests,
        max_queued_requests=args.max_queued_requests,
        eos_token_id=eos_token_id,
        bootstrap_timeout_ns=int(args.bootstrap_timeout_s * SECOND_NS),
        transfer_timeout_ns=int(args.transfer_timeout_s * SECOND_NS),
        request_waiting_timeout_ns=int(args.request_waiting_timeout_s * SECOND_NS),
        request_running_timeout_ns=int(args.request_running_timeout_s * SECOND_NS),
        optimistic_prefill_attempts=args.optimistic_prefill_attempts,
    )


def make_poll_failures(args: SchedulerArgs) -> PollFailures:
    """Failures of polls as the environment asked for them, from its seed; normally none."""
    if args.test_disagg_failure_prob:
        log.warning(
            "polls of rooms fail on purpose: probability %g, seed %d",
            args.test_disagg_failure_prob,
            args.test_disagg_failure_seed,
        )
    draw = random.Random(args.test_disagg_failure_seed)
    return PollFailures(args.test_disagg_failure_prob, draw.random)


def make_links(
    args: SchedulerArgs,
    fingerprint: str,
    page_bytes: int,
    pulse: LoopPulse,
    deliver: Callable[[Inbound], None],
) -> Links | None:
    """The links of the role; a unified worker has none."""
    identity = Identity(
        worker_name=args.worker_name,
        incarnation=args.incarnation,
        fingerprint=fingerprint,
        page_bytes=page_bytes,
        dead_after_ns=int(args.peer_dead_after_s * SECOND_NS),
    )
    dial = AddressMap(args.link_map)
    match args.mode:
        case DisaggregationMode.PREFILL:
            address = f"{args.host}:{args.control_port}"
            return PrefillLinks(identity, address, dial, deliver, pulse)
        case DisaggregationMode.DECODE:
            address = f"{args.host}:{args.kv_port}"
            return DecodeLinks(identity, address, dial, deliver, pulse)
        case DisaggregationMode.UNIFIED:
            return None


def serve(args: SchedulerArgs) -> None:
    """Load the model, open the links, say ready, and run the loop until SIGTERM."""
    limit_torch_threads()
    from engine.model.runner import load_runner  # imports torch, after the thread limit

    num_pages = args.max_total_tokens // args.page_size
    runner = load_runner(
        args.model_path, num_pages, args.page_size, args.dtype, args.random_seed, args.device
    )
    pulse = LoopPulse()
    io = IoThread(
        args.to_scheduler,
        args.from_scheduler,
        pulse,
        lambda deliver: make_links(args, runner.fingerprint, runner.page_bytes, pulse, deliver),
    )
    core = make_scheduler(
        args.mode, make_config(args, runner.eos_token_id), make_poll_failures(args)
    )
    loop = SchedulerLoop(core, runner, io, pulse, args.abort_granularity)

    def on_term(_signum: int, _frame: FrameType | None) -> None:
        loop.stop()

    signal.signal(signal.SIGTERM, on_term)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the HTTP process's to handle
    endpoint = io.links.control_endpoint if isinstance(io.links, PrefillLinks) else ""
    ready = SchedulerReady(
        incarnation=args.incarnation,
        fingerprint=runner.fingerprint,
        vocab_size=runner.vocab_size,
        eos_token_id=runner.eos_token_id,
        num_pages=num_pages,
        page_size=args.page_size,
        context_length=args.context_length,
        control_endpoint=endpoint,
    )
    io.submit([Emit(message=ready)])
    io.start()
    try:
        loop.run()
    finally:
        io.stop()


def main(argv: list[str]) -> int:
    args = msgspec.json.decode(Path(argv[1]).read_bytes(), type=SchedulerArgs)
    die_with_parent(args.parent_pid)
    logging.basicConfig(
        level=args.log_level.upper(),
        format=f"%(asctime)s {args.worker_name} scheduler %(levelname)s %(message)s",
        stream=stderr_sink(),
    )
    serve(args)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))

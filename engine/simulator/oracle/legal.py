"""May a request end like this? Every reason has a cause that the schedule and the clients' history show."""

from __future__ import annotations

from engine.core.codes import AbortOrigin, AbortReason, AbortVia
from engine.core.io_struct import AbortInfo
from engine.core.polling import INJECTED
from engine.simulator.clock import MS_NS
from engine.simulator.history import HalfRecord, History
from engine.simulator.schedule import Topology


class LegalEnds:
    """Reasons that no schedule of ours can cause are illegal: pages are never damaged on our wires, no
    worker shuts down in order, and memory is reserved before anything runs."""

    def __init__(self, topology: Topology, history: History) -> None:
        self._topology = topology
        self._history = history

    def whats_wrong(self, record: HalfRecord, abort: AbortInfo, now_ns: int) -> str | None:
        """None: this end is possible."""
        match abort.reason:
            case AbortReason.CLIENT_ABORT | AbortReason.CLIENT_DISCONNECT:
                half = self._where(record, abort)
                is_asked = half is not None and half.abort_ns
                return None if is_asked else "no client asked for it"
            case AbortReason.DEADLINE:
                return self._wrong_deadline(record, abort, now_ns)
            case AbortReason.QUEUE_FULL:
                return None if self._topology.max_queued else "no queue has a limit"
            case AbortReason.INPUT_TOO_LONG:
                return None if self._is_too_long(record) else "it fits"
            case AbortReason.PEER_DEAD | AbortReason.BOOTSTRAP_TIMEOUT:
                return None
            case AbortReason.TRANSFER_TIMEOUT:
                return None
            case AbortReason.TRANSFER_FAILED if INJECTED in abort.message:
                return None if self._topology.poll_failure_percent else "no poll fails on purpose"
            case _:
                return "nothing in a schedule can cause it"

    def _where(self, record: HalfRecord, abort: AbortInfo) -> HalfRecord | None:
        """The half whose decision it was."""
        if abort.via is AbortVia.LOCAL:
            return record
        request = record.request
        other = f"d{request.decode}" if record.worker[0] == "p" else f"p{request.prefill}"
        return self._history.halves.get((other, request.rid, request.room))

    def _wrong_deadline(self, record: HalfRecord, abort: AbortInfo, now_ns: int) -> str | None:
        topology, half = self._topology, self._where(record, abort)
        if half is None:
            return "the other half never came"
        if abort.origin is AbortOrigin.CLIENT:
            limits_ms = [record.request.deadline_ms]
        else:
            limits_ms = [topology.running_timeout_ms]
            if not half.tokens:  # it may still wait
                limits_ms.append(topology.waiting_timeout_ms)
        set_ms = [limit_ms for limit_ms in limits_ms if limit_ms]
        passed_ns = now_ns - half.arrived_ns
        if set_ms and passed_ns >= min(set_ms) * MS_NS:
            return None
        return f"no deadline of it has passed after {passed_ns // MS_NS} ms"

    def _is_too_long(self, record: HalfRecord) -> bool:
        request, topology = record.request, self._topology
        at_prefill = -(-request.num_tokens // topology.page_size)
        at_decode = -(-(request.num_tokens + request.max_new_tokens) // topology.page_size)
        return at_prefill > topology.prefill_pages or at_decode > topology.decode_pages

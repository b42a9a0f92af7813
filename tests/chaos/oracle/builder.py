"""`HealthyRun`: a run directory that passes every check, through the real structs; tests then break it.

Times are seconds since the first request was due. Three faults: a stall and a blackhole of kv and control,
and a kill of d0, as in `chaos/scenarios/pd-partition.yaml`.
"""

from __future__ import annotations

import copy
import functools
import sqlite3
import tempfile
from collections.abc import Iterable
from pathlib import Path

import msgspec
import yaml

from chaos.codes import CutMode, ProcessMode
from chaos.fault_spec import LinkFaultSpec, ProcessFaultSpec
from chaos.records import (
    EventKind,
    FaultEvent,
    FaultRecord,
    LedgerSample,
    ResourceCount,
    RunEvent,
    RunInfo,
    WorkerLedger,
)
from chaos.scenario import Scenario, dump_scenario
from chaos.spec import Step
from dashboards.spans import SCHEMA, Span
from loadtest.history import AbortFired, AbortKind, AbortPlan, End, HistoryRecord, Outcome, Sent
from tests.chaos.oracle.spans_builder import CLOCK, HOST, Codes, SpanMaker, mono, wall

RUN_ID = "run-1"
PERIOD_S = 0.25
NUM_REQUESTS = 152
NUM_CONTROL = 14
LINKS = ("kv:p0-d0", "control:p0-d0")
Fault = tuple[str, str, str, tuple[str, ...], tuple[str, ...], float, float]
"""Id, kind, mode, links, workers, begin, end."""
FAULTS: tuple[Fault, ...] = (
    ("f0", "link", "stall", LINKS, (), 5.0, 8.0),
    ("f1", "link", "blackhole", LINKS, (), 14.0, 17.0),
    ("f2", "process", "kill", (), ("d0",), 23.5, 27.0),
)
SHORT_FAULTS: tuple[Fault, ...] = (("f0", "link", "blackhole", LINKS, (), 5.0, 5.8), *FAULTS[1:])
"""The first cut is too short to be a death: nobody is hurt by it."""
PERMITS = (
    "bootstrap_timeout",
    "client_disconnect",
    "peer_dead",
    "transfer_failed",
    "transfer_timeout",
)
PHASES = {
    "setup": -30.0,
    "baseline": -12.0,
    "warmup": -9.0,
    "load": -1.0,
    "drain": 42.0,
    "final": 44.0,
    "probe": 46.0,
    "control": 48.0,
    "teardown": 52.0,
    "done": 53.0,
}
PAGES, PAGE_SIZE = 1024, 16
TOTALS = {"kv_pages": PAGES, "req_slots": 16, "metadata_slots": 32, "staging_pages": 4096}
KIND_OF = {
    AbortKind.DISCONNECT: (Outcome.ABORTED_DISCONNECT, "client_disconnect"),
    AbortKind.RID: (Outcome.ABORTED_RID, "client_abort"),
    AbortKind.DEADLINE: (Outcome.ABORTED_DEADLINE, "client_disconnect"),
}
STAGES = (("mid_chunk", "prealloc"), ("transfer", "decode_transfer"), (None, "running"))


class HealthyRun:
    """Lists of records, to be changed and then written."""

    def __init__(self, *, faults: bool = True, short: bool = False) -> None:
        self.faults_on = faults
        self.script = SHORT_FAULTS if short else FAULTS
        self.history: list[HistoryRecord] = []
        self.control: list[HistoryRecord] = []
        self.faults: list[FaultRecord] = []
        self.samples: list[LedgerSample] = []
        self.events: list[RunEvent] = []
        self.maker = SpanMaker()
        self.expect: dict[str, float] = {}
        self.info = _info()
        self._warm_up()
        for index in range(NUM_REQUESTS):
            self._request(index)
        self._control()
        if faults:
            self._faults()
        self._ledgers()
        self._events()

    def copy(self) -> HealthyRun:
        """Lists of its own; the records in them are frozen."""
        other = copy.copy(self)
        other.history, other.control = list(self.history), list(self.control)
        other.faults, other.samples = list(self.faults), list(self.samples)
        other.events, other.expect = list(self.events), dict(self.expect)
        other.maker = copy.copy(self.maker)
        other.maker.spans = list(self.maker.spans)
        return other

    @property
    def spans(self) -> list[Span]:
        return self.maker.spans

    @spans.setter
    def spans(self, spans: list[Span]) -> None:
        self.maker.spans = spans

    # ---- writing ------------------------------------------------------------------------------

    def write(self, directory: Path) -> Path:
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "run.json").write_bytes(msgspec.json.encode(self.info))
        scenario = scenario_text(self.faults_on, self.script, tuple(self.expect.items()))
        (directory / "scenario.resolved.yaml").write_text(scenario)
        write_lines(directory / "history.jsonl", self.history)
        write_lines(directory / "control.jsonl", self.control)
        if self.faults_on:
            write_lines(directory / "faults.jsonl", self.faults)
        write_lines(directory / "ledger.jsonl", self.samples)
        write_lines(directory / "events.jsonl", self.events)
        write_spans(directory / "spans.sqlite", self.spans)
        return directory

    # ---- requests -----------------------------------------------------------------------------

    def _warm_up(self) -> None:
        for index in range(3):
            trace_id = f"{0xAAAA0000 + index:032x}"
            root = self.maker.root(f"warm-{index}", trace_id, -8, -7, "completed", None)
            self._complete_halves(f"warm-{index}", trace_id, root, -8.0)

    def _request(self, index: int) -> None:
        rid, trace_id, at = f"r{index:04d}", f"{index + 1:032x}", index * PERIOD_S
        hit = self._fault_at(at)
        kind = list(AbortKind)[index % 3] if index % 5 in (1, 3) else None
        if hit == "kill":
            self._killed(rid, trace_id, index, at)
        elif hit is not None:
            self._server_aborted(rid, trace_id, index, at)
        elif kind is not None:
            self._client_aborted(rid, trace_id, index, at, kind)
        else:
            self._completed(rid, trace_id, index, at)

    def _fault_at(self, at: float) -> str | None:
        """The fault that a request sent at ``at`` runs into; a healthy one takes 0.9 s."""
        for _, kind, mode, _, _, begin, end in self.script if self.faults_on else ():
            if begin - 0.9 < at < end and end - begin > 1:
                return mode if kind == "process" else kind
        return None

    def _completed(self, rid: str, trace_id: str, index: int, at: float) -> None:
        self._sent(rid, trace_id, index, at)
        self._end(rid, at + 0.9, Outcome.COMPLETED, tokens=24, first_s=at + 0.5)
        root = self.maker.root(rid, trace_id, at, at + 0.9, "completed", None)
        self._complete_halves(rid, trace_id, root, at)

    def _complete_halves(self, rid: str, trace_id: str, root: str, at: float) -> None:
        self._half(rid, trace_id, root, "prefill", at, at + 0.5, PREFILL_STAGES, None)
        self._half(rid, trace_id, root, "decode", at, at + 0.89, DECODE_STAGES, None)

    def _client_aborted(
        self, rid: str, trace_id: str, index: int, at: float, kind: AbortKind
    ) -> None:
        """Prefill's or decode's stage by turns; one half decides, the other hears of it."""
        outcome, reason = KIND_OF[kind]
        stage, decode_stage = STAGES[index // 5 % 3]
        fired = at + (0.8 if stage is None else 0.3)
        tokens = 20 if stage is None else 0
        self._sent(rid, trace_id, index, at, AbortPlan(kind=kind, after_ms=(fired - at) * 1000))
        self._end(rid, fired + 0.02, outcome, tokens=tokens, first_s=at + 0.5, fired=(kind, fired))
        root_codes = Codes("deadline" if kind is AbortKind.DEADLINE else reason, "local", "", fired)
        root = self.maker.root(rid, trace_id, at, fired + 0.02, "aborted", root_codes)
        if stage is None:
            self._half(rid, trace_id, root, "prefill", at, at + 0.5, PREFILL_STAGES, None)
        else:
            codes = Codes(reason, "local", stage, fired + 0.005)
            self._half(rid, trace_id, root, "prefill", at, fired + 0.02, PREFILL_STAGES[:3], codes)
        via = "local" if stage is None else "peer"
        codes = Codes(reason, via, decode_stage, fired + 0.008)
        stages = DECODE_STAGES if stage is None else DECODE_STAGES[:3]
        self._half(rid, trace_id, root, "decode", at, fired + 0.02, stages, codes)

    def _server_aborted(self, rid: str, trace_id: str, index: int, at: float) -> None:
        begin = next(f[5] for f in self.script if f[5] - 0.9 < at < f[6])
        ended = max(at, begin) + 1.6
        self._sent(rid, trace_id, index, at)
        self._end(rid, ended, Outcome.ABORTED_SERVER, status=503, error="peer_dead")
        codes = Codes("peer_dead", "local", "bootstrap", ended - 0.02)
        root = self.maker.root(rid, trace_id, at, ended, "aborted", codes)
        waits = [("bootstrap", 0.0, ended - 0.05 - at)]
        self._half(rid, trace_id, root, "prefill", at, ended - 0.01, waits, codes)
        late = Codes("client_disconnect", "local", "prealloc", ended - 0.01)
        self._half(rid, trace_id, root, "decode", at, ended, waits, late)

    def _killed(self, rid: str, trace_id: str, index: int, at: float) -> None:
        ended = max(at, FAULTS[2][5]) + 0.1
        self._sent(rid, trace_id, index, at)
        self._end(rid, ended, Outcome.HTTP_ERROR, status=502)
        root = self.maker.root(rid, trace_id, at, ended, "failed", None)
        codes = Codes("client_disconnect", "local", "mid_chunk", ended - 0.02)
        self._half(rid, trace_id, root, "prefill", at, ended, PREFILL_STAGES[:1], codes)

    def _half(
        self,
        rid: str,
        trace_id: str,
        root: str,
        role: str,
        at: float,
        end_s: float,
        stages: list[tuple[str, float, float]],
        codes: Codes | None,
    ) -> None:
        worker = {"prefill": "p0", "decode": "d0"}[role]
        limit = codes.released_s if codes else end_s
        self.maker.half(
            rid,
            str(10_000 + len(self.history)),
            trace_id,
            root,
            role,
            worker,
            self.incarnation(worker, end_s),
            [(name, at + a, min(at + b, limit)) for name, a, b in stages if at + a < limit],
            codes,
            begin_s=at + 0.004,
            end_s=end_s,
        )

    def incarnation(self, worker: str, at: float) -> str:
        reborn = self.faults_on and worker == "d0" and at > FAULTS[2][5]
        return f"{worker}-second" if reborn else f"{worker}-first"

    def _sent(
        self, rid: str, trace_id: str, index: int, at: float, plan: AbortPlan | None = None
    ) -> None:
        self.history.append(
            Sent(
                rid=rid,
                trace_id=trace_id,
                scheduled_ns=mono(at),
                sent_ns=mono(at + 0.002),
                isl=1024,
                abort_plan=plan,
                index=index,
                prompt_seed=7,
                max_new_tokens=24,
                phase="load",
                host=HOST,
                run_id=RUN_ID,
                wall_ns=wall(at + 0.002),
            )
        )

    def _end(
        self,
        rid: str,
        at: float,
        outcome: Outcome,
        *,
        tokens: int = 0,
        first_s: float = 0.0,
        fired: tuple[AbortKind, float] | None = None,
        status: int | None = 200,
        error: str | None = None,
    ) -> None:
        left = outcome in (Outcome.ABORTED_DISCONNECT, Outcome.ABORTED_DEADLINE)
        ids = tuple((hash_of(rid) + 7 * i) % 256 for i in range(tokens))
        self.history.append(
            End(
                rid=rid,
                headers_ns=mono(first_s) if tokens else None,
                first_ns=mono(first_s) if tokens else None,
                last_ns=mono(at) if tokens else None,
                end_ns=mono(at),
                osl=tokens,
                outcome=outcome,
                status=status,
                finish_reason="length" if outcome is Outcome.COMPLETED else None,
                text_sha256=None,
                abort=AbortFired(kind=fired[0], due_ns=mono(fired[1]), fired_ns=mono(fired[1]))
                if fired
                else None,
                completion_tokens=None if left or status != 200 else tokens,
                num_answers=0 if left else 1,
                output_ids=ids,
                margins=tuple(0.5 for _ in ids),
                error_reason=error,
                error_stage="bootstrap" if error else None,
                error_origin="server" if error else None,
                wall_ns=wall(at),
            )
        )

    def _control(self) -> None:
        """The same prompts on a unified worker: same rids, other traces."""
        completed = {
            r.rid: r for r in self.history if isinstance(r, End) and r.outcome is Outcome.COMPLETED
        }
        sents = [r for r in self.history if isinstance(r, Sent) and r.rid in completed]
        for index, sent in enumerate(sents[:: max(1, len(sents) // NUM_CONTROL)][:NUM_CONTROL]):
            at, trace_id = 48.0 + index * 0.1, f"{0xC0000000 + index:032x}"
            self.control.append(
                msgspec.structs.replace(
                    sent,
                    trace_id=trace_id,
                    scheduled_ns=mono(at),
                    sent_ns=mono(at),
                    phase="control",
                    wall_ns=wall(at),
                )
            )
            end = completed[sent.rid]
            self.control.append(msgspec.structs.replace(end, end_ns=mono(at + 1)))
            root = self.maker.root(sent.rid, trace_id, at, at + 1, "completed", None)
            self.maker.add(
                "request",
                "unified",
                at,
                at + 1,
                trace_id=trace_id,
                parent=root,
                worker="u0",
                incarnation="u0-first",
                attributes={"pd.rid": sent.rid, "pd.outcome": "completed"},
            )

    # ---- the rest -----------------------------------------------------------------------------

    def _faults(self) -> None:
        for fault_id, kind, mode, links, workers, begin, end in self.script:
            for event, at in (
                (FaultEvent.DECLARED, begin - 0.5),
                (FaultEvent.INJECTING, begin),
                (FaultEvent.INJECTED, begin + 0.02),
                (FaultEvent.VERIFIED, begin + 0.05),
                (FaultEvent.HEALING, end - 0.02),
                (FaultEvent.HEALED, end),
            ):
                healed = event is FaultEvent.HEALED
                self.faults.append(
                    FaultRecord(
                        event=event,
                        fault_id=fault_id,
                        kind=kind,
                        mode=mode,
                        links=links,
                        workers=workers,
                        at_ns=mono(at),
                        wall_ns=wall(at),
                        host=HOST,
                        run_id=RUN_ID,
                        ttl_s=5.0,
                        permits=PERMITS,
                        silences=("goodput",),
                        proof="the canary got nothing" if event is FaultEvent.VERIFIED else "",
                        rung="remove_toxics" if healed else None,
                        heal_ms=12.0 if healed else None,
                        incarnations={
                            worker: self.incarnation(worker, begin) for worker in ("p0", "d0")
                        },
                    )
                )

    def _ledgers(self) -> None:
        for worker in ("p0", "d0"):
            self._sample("baseline", worker, -11.0, busy=False)
            for tick in range(80):
                self._sample("load", worker, tick * 0.5, busy=tick % 4 != 0)
            self._sample("final", worker, 45.0, busy=False)
        self.samples.sort(key=lambda sample: sample.at_ns)

    def _sample(self, phase: str, worker: str, at: float, *, busy: bool) -> None:
        down = self.faults_on and worker == "d0" and FAULTS[2][5] <= at < FAULTS[2][6]
        ledger = None if down else make_ledger(worker, self.incarnation(worker, at), busy=busy)
        self.samples.append(
            LedgerSample(
                phase=phase,
                worker=worker,
                at_ns=mono(at),
                wall_ns=wall(at),
                host=HOST,
                run_id=RUN_ID,
                ledger=ledger,
                error="connection refused" if down else None,
            )
        )

    def _events(self) -> None:
        for name, at in PHASES.items():
            self.events.append(make_event(EventKind.PHASE, name, at))
        drained = make_event(EventKind.NOTE, "drained", PHASES["final"] - 0.01)
        self.events.append(msgspec.structs.replace(drained, ok=True))
        probe = make_event(EventKind.PROBE, "capacity:p0-d0", 47.0)
        self.events.append(
            msgspec.structs.replace(probe, ok=True, value=float(PAGES * PAGE_SIZE - 12))
        )


PREFILL_STAGES = [
    ("bootstrap", 0.01, 0.05),
    ("queue", 0.05, 0.1),
    ("prefill.chunk", 0.1, 0.28),
    ("prefill.chunk", 0.28, 0.4),
    ("kv.transfer", 0.28, 0.48),
]
DECODE_STAGES = [
    ("bootstrap", 0.01, 0.03),
    ("queue", 0.03, 0.04),
    ("decode.wait_kv", 0.04, 0.48),
    ("decode", 0.48, 0.88),
]


@functools.cache
def scenario_text(
    faults_on: bool, script: tuple[Fault, ...], expect: tuple[tuple[str, float], ...]
) -> str:
    """A resolved scenario, as the runner writes it, with some expectations changed."""
    steps = (
        Step(
            at_s=5,
            fault=LinkFaultSpec(
                mode=CutMode(script[0][2]), links=LINKS, for_s=round(script[0][6] - script[0][5], 3)
            ),
        ),
        Step(at_s=14, fault=LinkFaultSpec(mode=CutMode.BLACKHOLE, links=LINKS, for_s=3)),
        Step(at_s=23.5, fault=ProcessFaultSpec(mode=ProcessMode.KILL, worker="d0")),
    )
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "scenario.resolved.yaml"
        dump_scenario(Scenario(name="pd", seed=7, method=steps if faults_on else ()), path)
        document = yaml.safe_load(path.read_text())
    document["expect"].update(expect)
    return yaml.safe_dump(document)


def hash_of(rid: str) -> int:
    """A number for a rid, the same in every process."""
    return sum(map(ord, rid)) * 31 % 251


def make_ledger(worker: str, incarnation: str, *, busy: bool) -> WorkerLedger:
    held = {"kv_pages": 130, "req_slots": 2} if busy else {}
    return WorkerLedger(
        worker=worker,
        role="prefill" if worker == "p0" else "decode",
        incarnation=incarnation,
        step=100,
        idle=not busy,
        resources={
            name: ResourceCount(total=total, free=total - held.get(name, 0), held=held.get(name, 0))
            for name, total in TOTALS.items()
        },
        holders=(),
        rooms_open=2 if busy else 0,
        rooms_terminal=9,
        requests=2 if busy else 0,
        rid_to_state=2 if busy else 0,
        queues={"waiting": 1 if busy else 0, "running": 0},
        conservation=(),
    )


def make_event(kind: EventKind, name: str, at: float) -> RunEvent:
    return RunEvent(
        kind=kind, name=name, at_ns=mono(at), wall_ns=wall(at), host=HOST, run_id=RUN_ID
    )


def _info() -> RunInfo:
    return RunInfo(
        schema="severance.run/1",
        run_id=RUN_ID,
        scenario="pd",
        seed=7,
        regression=None,
        argv=("severance", "run"),
        host=HOST,
        commit="",
        versions={},
        environment={},
        router_flags=(),
        clock=CLOCK,
        finished=True,
        duration_s=83.0,
    )


def write_lines(path: Path, records: Iterable[msgspec.Struct]) -> None:
    path.write_bytes(b"".join(msgspec.json.encode(record) + b"\n" for record in records))


def write_spans(path: Path, spans: list[Span]) -> None:
    encode = msgspec.json.encode
    path.unlink(missing_ok=True)
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA synchronous=OFF")
        connection.executescript(SCHEMA)
        connection.executemany(
            "INSERT OR IGNORE INTO spans (trace_id, span_id, parent_span_id, name, kind, service,"
            " instance, start_ns, end_ns, status, status_message, rid, room, reason, attributes,"
            " resource, links) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [
                (
                    one.trace_id,
                    one.span_id,
                    one.parent_span_id,
                    one.name,
                    one.kind,
                    one.service,
                    one.instance,
                    one.start_ns,
                    one.end_ns,
                    one.status,
                    one.status_message,
                    one.text("pd.rid"),
                    one.text("pd.room"),
                    one.text("pd.abort.reason"),
                    encode(one.attributes).decode(),
                    encode(one.resource).decode(),
                    "[]",
                )
                for one in spans
            ],
        )
    connection.close()

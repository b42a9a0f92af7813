"""A synthetic run directory, written through the real structs and the real span writer."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from chaos.records import (
    ClockPair,
    EventKind,
    FaultEvent,
    FaultRecord,
    Holder,
    LedgerSample,
    ResourceCount,
    RunEvent,
    RunInfo,
    WorkerLedger,
)
from chaos.verdict import (
    VERDICT_SCHEMA,
    AbortRow,
    AbortSummary,
    CheckResult,
    CheckStatus,
    Evidence,
    FaultVerdict,
    LedgerSummary,
    Quantiles,
    RequestCounts,
    RunStatus,
    Verdict,
)
from dashboards.spans import Span, SpanLink
from dashboards.spanstore.tally import Tally
from dashboards.spanstore.writer import SpanWriter
from loadtest.history import AbortFired, AbortKind, AbortPlan, End, Outcome, Sent

HOST = "node-a"
RUN_ID = "r-20261201"
MONO = 5_000_000_000_000
WALL = 1_796_000_000_000_000_000
MS = 1_000_000
SECOND = 1_000_000_000
STAGES = ("mid_chunk", "bootstrap", "transfer", "running", "queue")


INSTANCES = {"prefill": "p0", "decode": "d0", "load": "load-0"}


def resource_of(service: str, instance: str) -> dict[str, str]:
    return {
        "service.name": service,
        "service.instance.id": instance,
        "host.id": HOST,
        "ip": "127.0.0.1",
    }


class RunBuilder:
    """Writes one file of a run at a time; times are seconds since the load began."""

    def __init__(self, path: Path, requests: int = 120, seed: int = 7) -> None:
        self.path = path
        self.count = requests
        self.random = random.Random(seed)
        self.history: list[Sent | End] = []
        self.aborts: list[AbortRow] = []
        self.spans: list[Span] = []
        self.hostile = ""
        self.fault_span_id = f"{0xFA:016x}"
        path.mkdir(exist_ok=True)

    def mono(self, at_s: float) -> int:
        return MONO + int(at_s * SECOND)

    def wall(self, at_s: float) -> int:
        return WALL + int(at_s * SECOND)

    def complete(self) -> Path:
        self.run_info()
        self.requests()
        self.faults()
        self.events()
        self.ledger()
        self.verdict()
        return self.path

    def json(self, name: str, value: msgspec.Struct) -> None:
        (self.path / name).write_bytes(msgspec.json.encode(value))

    def lines(self, name: str, values: list) -> None:
        (self.path / name).write_bytes(b"".join(msgspec.json.encode(one) + b"\n" for one in values))

    def run_info(self, **changes: object) -> None:
        info = RunInfo(
            schema="severance.run/1",
            run_id=RUN_ID,
            scenario="pd-partition",
            seed=7,
            regression=None,
            argv=("severance", "run", "chaos/scenarios/pd-partition.yaml"),
            host=HOST,
            commit="0123abc",
            versions={"severance": "0.1.0", "toxiproxy": "2.12.0"},
            environment={"cpus": "2", "note": self.hostile or "none"},
            router_flags=("--pd-disaggregation", "--disable-retries"),
            clock=ClockPair(wall_ns=WALL, mono_ns=MONO),
            finished=True,
            capacity_req_per_s=7.2,
            capacity_tokens_per_s=9100.0,
            request_rate=4.0,
            duration_s=71.4,
        )
        self.json("run.json", msgspec.structs.replace(info, **changes))

    # Requests -------------------------------------------------------------------------------

    def requests(self) -> None:
        at = 0.0
        for index in range(self.count):
            at += self.random.expovariate(4.0)
            self.request(index, at)
        self.spans.append(self.fault_span())
        self.lines("history.jsonl", self.history)
        self.lines("aborts.jsonl", self.aborts)
        self.write_spans()

    def fault_span(self) -> Span:
        return Span(
            trace_id=f"{0xFA17:032x}",
            span_id=self.fault_span_id,
            parent_span_id="",
            name="fault",
            kind="internal",
            service="severance-chaos",
            instance="runner",
            start_ns=self.wall(10.0),
            end_ns=self.wall(13.0),
            status="unset",
            status_message="",
            attributes={
                "pd.fault.id": "f1",
                "pd.fault.kind": "link",
                "pd.links": ["kv:p0-d0", "control:p0-d0"],
            },
            resource=resource_of("severance-chaos", "runner"),
        )

    def write_spans(self) -> None:
        writer = SpanWriter(self.path / "spans.sqlite", Tally())
        assert writer.submit(self.spans) is None
        assert writer.close() is None

    def outcome(self, index: int, at: float) -> Outcome | None:
        if 10 < at < 13.2 or 24 < at < 25.5:
            return (Outcome.ABORTED_SERVER, Outcome.CONN_ERROR, Outcome.HTTP_ERROR)[index % 3]
        if index == 33:
            return None
        return {
            0: Outcome.ABORTED_DISCONNECT,
            2: Outcome.ABORTED_RID,
            4: Outcome.ABORTED_DEADLINE,
        }.get(index % 8, Outcome.COMPLETED)

    def request(self, index: int, at: float) -> None:
        rid, trace_id = f"load-7-{index:04d}", f"{index + 1:032x}"
        outcome = self.outcome(index, at)
        kind = {
            Outcome.ABORTED_DISCONNECT: AbortKind.DISCONNECT,
            Outcome.ABORTED_RID: AbortKind.RID,
            Outcome.ABORTED_DEADLINE: AbortKind.DEADLINE,
        }.get(outcome)
        took = self.random.uniform(0.25, 1.4) if kind is None else self.random.uniform(0.05, 0.5)
        self.history.append(
            Sent(
                rid=rid,
                trace_id=trace_id,
                scheduled_ns=self.mono(at),
                sent_ns=self.mono(at + 0.002),
                isl=self.random.randint(512, 3000),
                abort_plan=AbortPlan(kind=kind, after_ms=took * 1000) if kind else None,
                index=index,
                prompt_seed=7,
                max_new_tokens=64,
                phase="load",
                host=HOST,
                run_id=RUN_ID,
                wall_ns=self.wall(at + 0.002),
            )
        )
        server = outcome is Outcome.ABORTED_SERVER
        reason = (
            "peer_dead"
            if server
            else "client_abort"
            if kind is AbortKind.RID
            else "client_disconnect"
        )
        if outcome is not None:
            acted = self.mono(at + took - 0.01)
            self.history.append(
                End(
                    rid=rid,
                    headers_ns=self.mono(at + took * 0.5),
                    first_ns=self.mono(at + took * 0.6) if outcome is Outcome.COMPLETED else None,
                    last_ns=None,
                    end_ns=self.mono(at + took),
                    osl=64 if outcome is Outcome.COMPLETED else 3,
                    outcome=outcome,
                    status=503 if server else 200,
                    finish_reason=None,
                    text_sha256=None,
                    abort=AbortFired(kind=kind, due_ns=acted, fired_ns=acted, matched=1)
                    if kind
                    else None,
                    error_reason=reason if server else None,
                    error_stage="transfer" if server else None,
                    error_origin="server" if server else None,
                    error_message=(self.hostile or "peer d0 is dead") if server else None,
                )
            )
        if kind:
            self.aborts.append(
                AbortRow(
                    rid=rid,
                    kind=kind.value,
                    stage_seen=STAGES[index % 5],
                    act_to_seen_ms=self.random.uniform(0.4, 9),
                    received_to_released_ms={"prefill": 2.5, "decode": 0.4},
                    wasted_prefill_tokens=256,
                    wasted_decode_tokens=3,
                    trace_id=trace_id,
                    reason=reason,
                )
            )
        aborted = kind is not None or server
        self.trace(index, rid, trace_id, at, took, reason if aborted else None, server)

    def trace(
        self,
        index: int,
        rid: str,
        trace_id: str,
        at: float,
        took: float,
        reason: str | None,
        server: bool,
    ) -> None:
        """Root, both role spans, stages; an abort span with its two children on each role."""
        codes = {
            "pd.rid": rid,
            "pd.room": str(10_000 + index),
            "pd.outcome": "aborted" if reason else "completed",
        }
        stage = STAGES[index % 5]
        if reason:
            codes |= {
                "pd.abort.reason": reason,
                "pd.abort.origin": "server" if server else "client",
                "pd.abort.stage": stage,
            }
        status = "error" if server else "unset"
        number = iter(range(index * 100 + 1, index * 100 + 99))

        def add(
            role: str, name: str, parent: str, start: float, length: float, **more: object
        ) -> str:
            span_id = f"{next(number):016x}"
            extra = {key.replace("__", "."): value for key, value in more.items() if key != "links"}
            self.spans.append(
                Span(
                    trace_id=trace_id,
                    span_id=span_id,
                    parent_span_id=parent,
                    name=name,
                    kind="server" if name == "request" else "internal",
                    service=f"severance-{role}",
                    instance=INSTANCES[role],
                    start_ns=self.wall(start),
                    end_ns=self.wall(start + length),
                    status=status if name in ("request", "abort") else "unset",
                    status_message=self.hostile if name == "abort" else "",
                    attributes={**codes, "pd.role": role, **extra},
                    resource=resource_of(f"severance-{role}", INSTANCES[role]),
                    links=more.get("links", ()),
                )
            )
            return span_id

        root = add("load", "request", "", at, took, gen_ai__usage__input_tokens=1024)
        prefill = add("prefill", "request", root, at + 0.004, took * 0.6)
        decode = add("decode", "request", root, at + 0.005, took * 0.95)
        add("prefill", "tokenize", prefill, at + 0.005, 0.002)
        add("prefill", "queue", prefill, at + 0.007, took * 0.06)
        add("prefill", "bootstrap", prefill, at + 0.007, took * 0.1)
        chunks = 1 if reason else 4
        for chunk in range(chunks):
            add(
                "prefill",
                "prefill.chunk",
                prefill,
                at + took * (0.12 + chunk * 0.1),
                took * 0.09,
                pd__chunk=chunk,
            )
        if not reason:
            add("prefill", "kv.transfer", prefill, at + took * 0.5, took * 0.06, pd__pages=64)
            add("decode", "decode.wait_kv", decode, at + 0.01, took * 0.55)
            add("decode", "decode", decode, at + took * 0.6, took * 0.34)
            return
        link = SpanLink(trace_id=f"{0xFA17:032x}", span_id=self.fault_span_id)
        for role, parent in (("prefill", prefill), ("decode", decode)):
            start = at + took * (0.5 if role == "prefill" else 0.52)
            received = self.mono(start)
            abort = add(
                role,
                "abort",
                parent,
                start,
                0.012,
                pd__abort__via="local" if role == "prefill" else "peer",
                pd__abort__received_ns=received,
                pd__abort__released_ns=received + int(2.25 * MS),
                pd__wasted_tokens=256,
                links=(link,) if server else (),
            )
            add(role, "abort.notify_peer", abort, start, 0.003)
            add(role, "kv.release", abort, start + 0.003, 0.002, pd__pages=17)

    # Faults, events, ledger ------------------------------------------------------------------

    FAULTS = (
        ("f1", "stall", ("kv:p0-d0", "control:p0-d0"), (), 10.0, 13.0),
        ("f2", "blackhole", ("kv:p0-d0", "control:p0-d0"), (), 17.5, 20.5),
        ("f3", "kill", (), ("d0",), 24.0, 26.8),
    )

    def faults(self, healed: bool = True) -> None:
        records = []
        for fault_id, mode, links, workers, start, end in self.FAULTS:
            moments = [(FaultEvent.DECLARED, -1.0), (FaultEvent.INJECTING, start - 0.02)]
            moments += [(FaultEvent.INJECTED, start), (FaultEvent.VERIFIED, start + 0.1)]
            moments += (
                [(FaultEvent.HEALING, end - 0.02), (FaultEvent.HEALED, end)] if healed else []
            )
            for event, at in moments:
                records.append(
                    FaultRecord(
                        event=event,
                        fault_id=fault_id,
                        kind="link" if links else "process",
                        mode=mode,
                        links=links,
                        workers=workers,
                        at_ns=self.mono(at),
                        wall_ns=self.wall(at),
                        host=HOST,
                        run_id=RUN_ID,
                        ttl_s=30,
                        permits=("peer_dead", "transfer_failed"),
                        silences=("stuck",),
                        proof="read back; canary saw no byte for 1.0 s"
                        if event is FaultEvent.VERIFIED
                        else "",
                        rung="remove_toxics" if event is FaultEvent.HEALED else None,
                        heal_ms=18.4 if event is FaultEvent.HEALED else None,
                    )
                )
        self.lines("faults.jsonl", records)

    def events(self) -> None:
        phases = (
            ("setup", -12.0),
            ("baseline", -7.0),
            ("warmup", -5.0),
            ("load", 0.0),
            ("drain", 31.0),
            ("final", 34.0),
        )
        events = [self.event(EventKind.PHASE, name, at) for name, at in phases]
        for step in range(0, 31, 2):
            bad = step == 12
            events.append(
                self.event(
                    EventKind.GUARD,
                    "stuck_requests",
                    step,
                    not bad,
                    6.2 if bad else 1.1,
                    5.0,
                    self.hostile or "oldest open request",
                )
            )
        events.append(
            self.event(EventKind.PROBE, "capacity:p0-d0", 35.0, True, 65536.0, None, "completed")
        )
        self.lines("events.jsonl", events)

    def event(
        self,
        kind: EventKind,
        name: str,
        at: float,
        ok: bool | None = None,
        value: float | None = None,
        limit: float | None = None,
        detail: str = "",
    ) -> RunEvent:
        return RunEvent(
            kind=kind,
            name=name,
            at_ns=self.mono(at),
            wall_ns=self.wall(at),
            host=HOST,
            run_id=RUN_ID,
            ok=ok,
            value=value,
            limit=limit,
            detail=detail,
        )

    def ledger(self) -> None:
        samples = []
        for step in range(-10, 175):
            at = step / 5
            for worker, role in (("p0", "prefill"), ("d0", "decode")):
                dead = worker == "d0" and 24.0 < at < 26.6
                samples.append(
                    LedgerSample(
                        phase="baseline" if at < 0 else "final" if at > 34 else "load",
                        worker=worker,
                        at_ns=self.mono(at),
                        wall_ns=self.wall(at),
                        host=HOST,
                        run_id=RUN_ID,
                        ledger=None if dead else self.worker_ledger(worker, role, at),
                        error="connection refused" if dead else None,
                    )
                )
        self.lines("ledger.jsonl", samples)

    def worker_ledger(self, worker: str, role: str, at: float) -> WorkerLedger:
        busy = 0 < at < 33
        used = int(self.random.uniform(60, 900) * (2 if role == "decode" else 1)) if busy else 0
        leaked = 12 if worker == "p0" and at >= 33 else 0
        return WorkerLedger(
            worker=worker,
            role=role,
            incarnation="2" if worker == "d0" and at > 26 else "1",
            step=int(at * 50) + 500,
            idle=not busy,
            resources={
                "kv_pages": ResourceCount(
                    total=4096, free=4096 - used - leaked, held=used + leaked
                ),
                "req_slots": ResourceCount(total=16, free=16, held=0),
            },
            holders=(
                Holder(resource="kv_pages", owner=self.hostile or "load-7-0008", count=leaked),
            )
            if leaked
            else (),
            rooms_open=0,
            rooms_terminal=0,
            requests=0,
            rid_to_state=0,
            queues={},
            conservation=(),
        )

    # Verdict ---------------------------------------------------------------------------------

    def verdict(
        self,
        status: RunStatus = RunStatus.FAILED,
        checks: tuple[CheckResult, ...] | None = None,
        **changes: object,
    ) -> Verdict:
        ends = [one for one in self.history if isinstance(one, End)]
        sent = len(self.history) - len(ends)

        def tally(*outcomes: Outcome) -> int:
            return sum(one.outcome in outcomes for one in ends)

        verdict = Verdict(
            schema=VERDICT_SCHEMA,
            scenario="pd-partition",
            status=status,
            exit_code={
                RunStatus.PASSED: 0,
                RunStatus.FAILED: 1,
                RunStatus.HALTED: 3,
                RunStatus.INVALID: 4,
            }.get(status, 5),
            seed=7,
            checks=self.checks() if checks is None else checks,
            faults=tuple(
                FaultVerdict(
                    id=fault_id,
                    kind="link" if links else "process",
                    links=links,
                    mode=mode,
                    proven=fault_id != "f2",
                    exposed=11,
                    injected_at=self.mono(start),
                    healed_at=self.mono(end),
                    heal_rung="remove_toxics",
                    heal_ms=18.4,
                    workers=workers,
                    first_success_ms=412.0,
                    goodput_share=0.93,
                )
                for fault_id, mode, links, workers, start, end in self.FAULTS
            ),
            requests=RequestCounts(
                total=sent,
                completed=tally(Outcome.COMPLETED),
                aborted={kind.value: tally(Outcome(f"aborted_{kind}")) for kind in AbortKind},
                aborted_server={"peer_dead": tally(Outcome.ABORTED_SERVER)},
                failed={
                    "conn_error": tally(Outcome.CONN_ERROR),
                    "http_error": tally(Outcome.HTTP_ERROR),
                    "hung": sent - len(ends),
                },
            ),
            aborts=AbortSummary(
                count=len(self.aborts),
                by_stage={"mid_chunk": 9, "transfer": 6, "running": 5},
                act_to_seen_ms=Quantiles(p50=2.1, p99=8.9, max=9.4, count=40),
                received_to_released_ms=Quantiles(p50=0.6, p99=3.1, max=4.4, count=80),
                wasted_tokens=12_345,
            ),
            ledger=LedgerSummary(
                baseline={
                    "p0": {"kv_pages": 4096, "req_slots": 16},
                    "d0": {"kv_pages": 4096, "req_slots": 16},
                },
                workers={
                    "p0": {"kv_pages": 4084, "req_slots": 16},
                    "d0": {"kv_pages": 4096, "req_slots": 16},
                },
            ),
            residue=(),
            duration_s=71.4,
            run_id=RUN_ID,
            reason="counts_at_baseline failed: 12 KV pages of p0 were never released",
        )
        verdict = msgspec.structs.replace(verdict, **changes)
        self.json("verdict.json", verdict)
        return verdict

    def checks(self) -> tuple[CheckResult, ...]:
        evidence = tuple(
            Evidence(rid=f"load-7-{index:04d}", value=f"{index} ms late")
            for index in range(0, 56, 8)
        )
        message = self.hostile or "12 pages of p0 missing, held by load-7-0008"
        return (
            CheckResult(
                id="one_terminal_answer",
                status=CheckStatus.PASS,
                examined=self.count,
                expected="one end each",
                observed="one end each",
                exempted=4,
            ),
            CheckResult(
                id="counts_at_baseline",
                status=CheckStatus.FAIL,
                examined=8,
                expected="free counts equal to the baseline",
                observed=message,
                evidence=(Evidence(rid="load-7-0008", span_id=f"{809:016x}", value=message),),
            ),
            CheckResult(
                id="abort_codes",
                status=CheckStatus.FAIL,
                examined=43,
                expected="permitted codes",
                observed="7 aborts with others",
                evidence=evidence,
            ),
            CheckResult(
                id="tokens_equal_control",
                status=CheckStatus.UNKNOWN,
                examined=0,
                expected="the same tokens as the control run",
                observed="no control run was made",
            ),
            CheckResult(
                id="metrics_agree",
                status=CheckStatus.UNOBSERVABLE,
                examined=0,
                expected="counters equal traces",
                observed="this target has no /metrics",
            ),
            CheckResult(
                id="recovery",
                status=CheckStatus.PASS,
                examined=3,
                expected="first success <= 5 s after heal",
                observed="0.4 s, 0.4 s, 0.4 s",
            ),
        )


@pytest.fixture
def builder(tmp_path: Path) -> RunBuilder:
    return RunBuilder(tmp_path / "run")


class StoreProcess:
    """A span store in its own process, started as a user starts it."""

    def __init__(self, db: Path, *options: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", COMMAND, "spanstore", "--db", str(db), "--port", "0", *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.address = self.process.stdout.readline().rpartition(" ")[2].strip()

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def url(self) -> str:
        return f"http://{self.address}"

    def stop(self, number: signal.Signals = signal.SIGTERM) -> tuple[int, str, str]:
        """Exit code, and what it had printed."""
        self.process.send_signal(number)
        out, err = self.process.communicate(timeout=15)
        return self.process.returncode, out, err


COMMAND = """
import argparse, sys
from dashboards.cli import add_commands
parser = argparse.ArgumentParser(prog="severance")
add_commands(parser.add_subparsers(dest="command", required=True))
args = parser.parse_args()
sys.exit(args.run(args))
"""
"""Mounts this package's commands alone: the tests of one package should not need the others."""


@pytest.fixture
def command() -> str:
    return COMMAND


@pytest.fixture
def start_store() -> Iterator[Callable[..., StoreProcess]]:
    started: list[StoreProcess] = []

    def start(db: Path, *options: str) -> StoreProcess:
        started.append(StoreProcess(db, *options))
        return started[-1]

    yield start
    for store in started:
        if store.process.poll() is None:
            store.process.kill()
        store.process.communicate(timeout=10)


@pytest.fixture
def severance() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run one of this package's commands to its end."""

    def run(*argv: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", COMMAND, *argv],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )

    return run

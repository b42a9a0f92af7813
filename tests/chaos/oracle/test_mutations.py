"""One change to a healthy run at a time: the right check must see it, with the right status and code."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from chaos.oracle.judge import ALL_CHECKS, judge_run
from chaos.records import EventKind, FaultEvent, Holder, ResourceCount
from chaos.verdict import CheckStatus, RunStatus, Verdict
from loadtest.history import AbortKind, End, Outcome, Sent
from tests.chaos.oracle.builder import PAGES, HealthyRun, make_event
from tests.chaos.oracle.mutations import (
    change,
    change_end,
    change_ledger,
    change_span,
    drop,
    end_of,
    final_ledger,
    is_end,
    is_fault,
    is_final,
    is_sent,
    is_span,
    rid_of,
    set_reason,
)
from tests.chaos.oracle.spans_builder import Codes, mono, wall

FAIL, UNKNOWN = CheckStatus.FAIL, CheckStatus.UNKNOWN
Mutation = Callable[[HealthyRun], None]
HEALTHY = HealthyRun()
WITH_SHORT_CUT = HealthyRun(short=True)
CASES: list[tuple[str, CheckStatus, Mutation, HealthyRun]] = []


def breaks(
    check: str, status: CheckStatus, base: HealthyRun = HEALTHY
) -> Callable[[Mutation], Mutation]:
    """This change to ``base`` must be noticed by ``check``."""

    def keep(mutation: Mutation) -> Mutation:
        CASES.append((check, status, mutation, base))
        return mutation

    return keep


# ---- what the client saw ------------------------------------------------------------------------


@breaks("answers", FAIL)
def hung_request(run: HealthyRun) -> None:
    drop(run.history, is_end(rid_of(run, Outcome.COMPLETED)))


@breaks("answers", FAIL)
def second_end(run: HealthyRun) -> None:
    run.history.append(end_of(run, rid_of(run, Outcome.COMPLETED)))


@breaks("answers", FAIL)
def two_answers_on_one_stream(run: HealthyRun) -> None:
    change_end(run, rid_of(run, Outcome.COMPLETED), num_answers=2)


@breaks("answers", FAIL)
def completed_without_an_answer(run: HealthyRun) -> None:
    change_end(run, rid_of(run, Outcome.COMPLETED), num_answers=0)


@breaks("answers", FAIL)
def abort_by_rid_without_an_answer(run: HealthyRun) -> None:
    change_end(run, rid_of(run, Outcome.ABORTED_RID, 0), num_answers=0)


@breaks("answers", UNKNOWN)
def end_without_sent(run: HealthyRun) -> None:
    drop(run.history, is_sent(rid_of(run, Outcome.COMPLETED)))


@breaks("adds_up", FAIL)
def rid_sent_twice(run: HealthyRun) -> None:
    rid = rid_of(run, Outcome.COMPLETED)
    run.history.append(next(r for r in run.history if is_sent(rid)(r)))


@breaks("adds_up", UNKNOWN)
def request_missing_from_the_history(run: HealthyRun) -> None:
    rid = rid_of(run, Outcome.COMPLETED)
    drop(run.history, lambda record: record.rid == rid)


@breaks("adds_up", FAIL)
def request_served_twice(run: HealthyRun) -> None:
    rid = rid_of(run, Outcome.COMPLETED)
    span = next(s for s in run.spans if is_span("request", rid, "decode")(s))
    run.spans.append(replace(span, span_id="f" * 16))


@breaks("whole_answers", FAIL)
def completed_short(run: HealthyRun) -> None:
    rid = rid_of(run, Outcome.COMPLETED, -1)
    ids = end_of(run, rid).output_ids[:9]
    change_end(run, rid, osl=9, completion_tokens=9, output_ids=ids)


@breaks("whole_answers", FAIL)
def completed_with_nothing(run: HealthyRun) -> None:
    change_end(run, rid_of(run, Outcome.COMPLETED, -1), osl=0, completion_tokens=0, output_ids=())


@breaks("late", FAIL)
def answer_after_the_timeout(run: HealthyRun) -> None:
    change_end(run, rid_of(run, Outcome.COMPLETED, -1), end_ns=mono(75))


@breaks("late", FAIL)
def peer_death_noticed_by_a_slow_deadline(run: HealthyRun) -> None:
    """Sent 2.5 s before the stall, ended by the bootstrap deadline instead of the dead verdict."""
    rid = next(r.rid for r in run.history if isinstance(r, Sent) and r.sent_ns > mono(2.4))
    change_end(
        run, rid, outcome=Outcome.ABORTED_SERVER, error_reason="peer_dead", end_ns=mono(10.2)
    )


@breaks("late", FAIL)
def joined_just_before_the_cut_and_not_told(run: HealthyRun) -> None:
    """Too young for the history alone, but its spans show that both halves had met."""
    rid = next(r.rid for r in run.history if isinstance(r, Sent) and r.sent_ns > mono(4.6))
    change_span(run, is_span("bootstrap", rid, "prefill"), name="prefill.chunk")
    change_end(run, rid, end_ns=mono(10.2))


@breaks("late", FAIL)
def a_half_that_joined_in_a_dead_session_waits_on(run: HealthyRun) -> None:
    """Sent after the cut began, before anybody could know; its client heard nothing for long."""
    rid = next(r.rid for r in run.history if isinstance(r, Sent) and r.sent_ns > mono(5.0))
    which = is_span("decode.wait_kv", rid, "decode")
    if not any(which(span) for span in run.spans):
        which = is_span("bootstrap", rid, "decode")
    change_span(run, which, name="decode.wait_kv", start_ns=wall(5.3), end_ns=wall(10.1))


@breaks("late", FAIL)
def hurt_by_one_fault_ended_by_the_next(run: HealthyRun) -> None:
    rid = next(r.rid for r in run.history if isinstance(r, Sent) and r.sent_ns > mono(5.5))
    change_end(run, rid, end_ns=mono(23.6))


@breaks("server_errors", FAIL)
def http_error_without_a_fault(run: HealthyRun) -> None:
    change_end(run, rid_of(run, Outcome.COMPLETED, 2), outcome=Outcome.HTTP_ERROR, status=500)


@breaks("server_errors", FAIL)
def bad_request_during_a_fault(run: HealthyRun) -> None:
    change_end(run, rid_of(run, Outcome.HTTP_ERROR), status=400)


@breaks("server_errors", FAIL)
def error_without_a_reason_during_a_cut_link(run: HealthyRun) -> None:
    rid = rid_of(run, Outcome.ABORTED_SERVER)
    change_end(run, rid, outcome=Outcome.HTTP_ERROR, error_reason=None)


@breaks("server_errors", FAIL)
def lost_connection_during_a_cut_link(run: HealthyRun) -> None:
    change_end(run, rid_of(run, Outcome.ABORTED_SERVER), outcome=Outcome.CONN_ERROR)


@breaks("server_errors", FAIL)
def truncated_without_a_fault(run: HealthyRun) -> None:
    change_end(run, rid_of(run, Outcome.COMPLETED, 2), outcome=Outcome.TRUNCATED)


@breaks("send_lag", UNKNOWN)
def driver_fell_behind(run: HealthyRun) -> None:
    run.history = [
        replace(record, sent_ns=record.scheduled_ns + 600_000_000)
        if isinstance(record, Sent)
        else record
        for record in run.history
    ]


# ---- tokens ---------------------------------------------------------------------------------------


@breaks("no_token_after_abort", FAIL)
def late_tokens(run: HealthyRun) -> None:
    change_end(run, rid_of(run, Outcome.ABORTED_RID, 0), num_late_tokens=1)


@breaks("no_token_after_abort", FAIL)
def more_tokens_than_the_answer_claims(run: HealthyRun) -> None:
    change_end(run, rid_of(run, Outcome.ABORTED_RID, 0), osl=21, completion_tokens=20)


@breaks("no_token_after_abort", FAIL)
def chunk_after_the_release(run: HealthyRun) -> None:
    rid = aborted_in_prefill(run)
    abort = next(s for s in run.spans if is_span("abort", rid, "prefill")(s))
    at = abort.end_ns + 1_000
    change_span(run, is_span("queue", rid, "prefill"), name="prefill.chunk", start_ns=at, end_ns=at)


@breaks("no_token_after_abort", FAIL)
def chunks_go_on_until_the_prompt_ends(run: HealthyRun) -> None:
    """It knew of the abort before its chunks began, and released only after the last one."""
    rid = aborted_in_prefill(run)
    first = min(s.start_ns for s in run.spans if s.name == "bootstrap" and s.text("pd.rid") == rid)
    knew = first - wall(0) + mono(0)
    change_span(run, is_span("abort", rid, "prefill"), {"pd.abort.received_ns": knew})
    for name in ("bootstrap", "queue"):
        which = is_span(name, rid, "prefill")
        change_span(run, which, name="prefill.chunk", start_ns=first + 1_000)


@breaks("no_token_after_abort", UNKNOWN)
def abort_without_stamps(run: HealthyRun) -> None:
    which = is_span("abort", aborted_in_prefill(run), "prefill")
    change_span(run, which, {"pd.abort.released_ns": None})


@breaks("tokens_equal_control", FAIL)
def wrong_token(run: HealthyRun) -> None:
    rid = controlled(run)
    ids = list(end_of(run, rid).output_ids)
    ids[5] += 1
    change_end(run, rid, output_ids=tuple(ids))


@breaks("tokens_equal_control", FAIL)
def missing_token_is_no_near_tie(run: HealthyRun) -> None:
    rid = controlled(run)
    end = end_of(run, rid)
    change_end(run, rid, output_ids=end.output_ids[:-1], margins=(0.0,) * 24)


@breaks("tokens_equal_control", UNKNOWN)
def too_few_pairs(run: HealthyRun) -> None:
    keep = {record.rid for record in run.control[:22]}
    drop(run.control, lambda record: record.rid not in keep)


@breaks("tokens_equal_control", UNKNOWN)
def everything_a_near_tie(run: HealthyRun) -> None:
    for record in list(run.control):
        if isinstance(record, End):
            ids = (255 - record.output_ids[0], *record.output_ids[1:])
            change(run.control, is_end(record.rid), output_ids=ids, margins=(0.0,) * 24)
            change_end(run, record.rid, margins=(0.0,) * 24)


@breaks("tokens_equal_control", UNKNOWN)
def control_of_other_prompts(run: HealthyRun) -> None:
    change(run.control, lambda record: isinstance(record, Sent), prompt_seed=8)


@breaks("tokens_equal_control", UNKNOWN)
def control_not_by_a_unified_worker(run: HealthyRun) -> None:
    drop(run.spans, lambda span: span.service == "severance-unified")


# ---- ledger ---------------------------------------------------------------------------------------


@breaks("ledger_baseline", FAIL)
def leaked_pages(run: HealthyRun) -> None:
    resources = final_ledger(run, "p0").resources
    leaked = ResourceCount(total=PAGES, free=PAGES - 3, held=3)
    change_ledger(
        run,
        is_final("p0"),
        resources={**resources, "kv_pages": leaked},
        holders=(Holder(resource="kv_pages", owner="r0007/10013", count=3),),
    )


@breaks("ledger_baseline", FAIL)
def pages_lost_by_everybody(run: HealthyRun) -> None:
    """The pool itself shrank: free + held is the total, and still pages are gone."""
    resources = final_ledger(run, "d0").resources
    shrunk = ResourceCount(total=PAGES - 3, free=PAGES - 3, held=0)
    change_ledger(run, is_final("d0"), resources={**resources, "kv_pages": shrunk})


@breaks("ledger_baseline", FAIL)
def room_left_open(run: HealthyRun) -> None:
    change_ledger(run, is_final("d0"), rooms_open=1)


@breaks("ledger_baseline", FAIL)
def http_side_keeps_a_request(run: HealthyRun) -> None:
    change_ledger(run, is_final("p0"), rid_to_state=1)


@breaks("ledger_baseline", FAIL)
def queue_not_empty(run: HealthyRun) -> None:
    change_ledger(run, is_final("p0"), queues={"waiting": 1})


@breaks("ledger_baseline", FAIL)
def double_free_in_one_sample(run: HealthyRun) -> None:
    which = next(s for s in run.samples if s.phase == "load" and s.worker == "d0")
    change_ledger(run, lambda sample: sample is which, double_frees=1)


@breaks("ledger_baseline", FAIL)
def books_do_not_balance(run: HealthyRun) -> None:
    which = [s for s in run.samples if s.phase == "load" and s.worker == "p0"][30]
    odd = ResourceCount(total=PAGES, free=PAGES - 2, held=1)
    change_ledger(run, lambda sample: sample is which, resources={"kv_pages": odd})


@breaks("ledger_baseline", FAIL)
def broken_law(run: HealthyRun) -> None:
    which = [s for s in run.samples if s.phase == "load" and s.worker == "p0"][30]
    change_ledger(run, lambda sample: sample is which, conservation=("page 7 is free and held",))


@breaks("ledger_baseline", FAIL)
def worker_restarted_by_itself(run: HealthyRun) -> None:
    change_ledger(run, lambda s: s.worker == "p0" and s.at_ns > mono(20), incarnation="p0-second")


@breaks("ledger_baseline", UNKNOWN)
def no_final_sample(run: HealthyRun) -> None:
    drop(run.samples, is_final("d0"))


@breaks("ledger_baseline", UNKNOWN)
def final_sample_without_an_answer(run: HealthyRun) -> None:
    change(run.samples, is_final("d0"), ledger=None, error="timed out")


@breaks("ledger_baseline", UNKNOWN)
def no_baseline_sample(run: HealthyRun) -> None:
    drop(run.samples, lambda sample: sample.phase == "baseline" and sample.worker == "p0")


@breaks("ledger_baseline", UNKNOWN)
def final_sample_taken_too_early(run: HealthyRun) -> None:
    change(run.samples, is_final("d0"), at_ns=mono(30), wall_ns=wall(30))


@breaks("ledger_baseline", UNKNOWN)
def no_sample_during_the_load(run: HealthyRun) -> None:
    drop(run.samples, lambda sample: sample.phase == "load" and sample.worker == "d0")


@breaks("ledger_baseline", UNKNOWN)
def resource_not_listed_at_the_end(run: HealthyRun) -> None:
    resources = dict(final_ledger(run, "p0").resources)
    del resources["kv_pages"]
    change_ledger(run, is_final("p0"), resources=resources)


@breaks("capacity_probe", FAIL)
def probe_failed(run: HealthyRun) -> None:
    change(run.events, lambda event: event.kind is EventKind.PROBE, ok=False, detail="no answer")


@breaks("capacity_probe", UNKNOWN)
def probe_too_small(run: HealthyRun) -> None:
    change(run.events, lambda event: event.kind is EventKind.PROBE, value=4000.0)


@breaks("capacity_probe", UNKNOWN)
def probe_without_a_result(run: HealthyRun) -> None:
    change(run.events, lambda event: event.kind is EventKind.PROBE, ok=None)


@breaks("capacity_probe", UNKNOWN)
def no_probe(run: HealthyRun) -> None:
    drop(run.events, lambda event: event.kind is EventKind.PROBE)


# ---- abort spans ----------------------------------------------------------------------------------


def aborted_in_prefill(run: HealthyRun) -> str:
    """A client's abort that prefill took and decode heard of."""
    own = {r.rid for r in run.history if isinstance(r, End) and r.outcome is Outcome.ABORTED_RID}
    return next(
        s.text("pd.rid") or ""
        for s in run.spans
        if s.name == "abort" and s.text("pd.rid") in own and s.text("pd.role") == "prefill"
    )


def controlled(run: HealthyRun) -> str:
    return run.control[0].rid


@breaks("abort_spans", FAIL)
def abort_span_missing_on_decode(run: HealthyRun) -> None:
    drop(run.spans, is_span("abort", aborted_in_prefill(run), "decode"))


@breaks("abort_spans", FAIL)
def released_twice_for_one_abort(run: HealthyRun) -> None:
    which = is_span("kv.release", aborted_in_prefill(run), "prefill")
    run.spans.append(replace(next(s for s in run.spans if which(s)), span_id="c" * 16))


@breaks("abort_spans", FAIL)
def two_abort_spans(run: HealthyRun) -> None:
    span = next(s for s in run.spans if is_span("abort", aborted_in_prefill(run), "prefill")(s))
    run.spans.append(replace(span, span_id="e" * 16))


@breaks("abort_spans", FAIL)
def reason_that_nobody_permits(run: HealthyRun) -> None:
    """A server-side reason at second 0.5, with no fault near."""
    set_reason(run, rid_of(run, Outcome.ABORTED_RID, 0), "prefill", "peer_dead", error=True)


@breaks("abort_spans", FAIL)
def reason_that_the_fault_does_not_permit(run: HealthyRun) -> None:
    set_reason(run, rid_of(run, Outcome.ABORTED_SERVER), "prefill", "kv_exhausted", error=True)


@breaks("abort_spans", FAIL)
def client_abort_for_a_disconnect(run: HealthyRun) -> None:
    rid = rid_of(run, Outcome.ABORTED_DISCONNECT, 0)
    for role in ("prefill", "decode"):
        set_reason(run, rid, role, "client_abort", error=False)


@breaks("abort_spans", FAIL)
def abort_nobody_asked_for(run: HealthyRun) -> None:
    rid = rid_of(run, Outcome.COMPLETED, 2)
    which = is_span("request", rid, "prefill")
    change_span(run, which, {"pd.outcome": "aborted"})


@breaks("abort_spans", FAIL)
def completed_for_the_client_aborted_on_decode(run: HealthyRun) -> None:
    rid = rid_of(run, Outcome.COMPLETED)
    span = next(s for s in run.spans if is_span("request", rid, "decode")(s))
    at = (span.end_ns - wall(0)) / 1e9
    codes = Codes("client_disconnect", "local", "running", at).attributes()
    change_span(run, is_span("request", rid, "decode"), {"pd.outcome": "aborted", **codes})


@breaks("abort_spans", FAIL)
def both_halves_say_the_other_decided(run: HealthyRun) -> None:
    rid = aborted_in_prefill(run)
    for name in ("request", "abort"):
        change_span(run, is_span(name, rid, "prefill"), {"pd.abort.via": "peer"})


@breaks("abort_spans", FAIL)
def told_another_reason(run: HealthyRun) -> None:
    """via peer means the same reason; decode heard client_abort and says client_disconnect."""
    set_reason(run, aborted_in_prefill(run), "decode", "client_disconnect", error=False)


@breaks("abort_spans", FAIL)
def origin_does_not_fit(run: HealthyRun) -> None:
    rid = aborted_in_prefill(run)
    for name in ("request", "abort"):
        change_span(run, is_span(name, rid, "prefill"), {"pd.abort.origin": "server"})


@breaks("abort_spans", FAIL)
def stage_of_the_other_role(run: HealthyRun) -> None:
    rid = aborted_in_prefill(run)
    for name in ("request", "abort"):
        change_span(run, is_span(name, rid, "prefill"), {"pd.abort.stage": "running"})


@breaks("abort_spans", FAIL)
def own_cancel_marked_as_an_error(run: HealthyRun) -> None:
    which = is_span("abort", aborted_in_prefill(run), "prefill")
    change_span(run, which, {"error.type": "client_abort"}, status="error")


@breaks("abort_spans", FAIL)
def server_abort_not_marked_as_an_error(run: HealthyRun) -> None:
    which = is_span("abort", rid_of(run, Outcome.ABORTED_SERVER), "prefill")
    change_span(run, which, {"error.type": None}, status="unset")


@breaks("abort_spans", FAIL)
def codes_not_copied_to_the_role_span(run: HealthyRun) -> None:
    which = is_span("request", aborted_in_prefill(run), "decode")
    change_span(run, which, {"pd.abort.stage": None})


@breaks("abort_spans", FAIL)
def root_says_completed(run: HealthyRun) -> None:
    which = is_span("request", aborted_in_prefill(run), "load")
    change_span(run, which, {"pd.outcome": "completed"})


@breaks("abort_spans", FAIL)
def root_has_another_reason(run: HealthyRun) -> None:
    which = is_span("request", rid_of(run, Outcome.ABORTED_SERVER), "load")
    change_span(run, which, {"pd.abort.reason": "transfer_failed"})


@breaks("abort_spans", FAIL)
def half_ran_on_after_the_abort(run: HealthyRun) -> None:
    rid = aborted_in_prefill(run)
    fired = end_of(run, rid).abort
    assert fired is not None
    drop(run.spans, is_span("abort", rid, "decode"))
    late = fired.fired_ns - mono(0) + wall(0) + 6_000_000_000
    which = is_span("request", rid, "decode")
    change_span(run, which, {"pd.outcome": "completed"}, end_ns=late)


@breaks("abort_spans", FAIL)
def decode_ignores_a_client_that_left(run: HealthyRun) -> None:
    """It goes on to its last token, 0.7 s later, and calls that completed."""
    rid = rid_of(run, Outcome.ABORTED_DISCONNECT, -1)
    fired = end_of(run, rid).abort
    assert fired is not None
    drop(run.spans, is_span("abort", rid, "decode"))
    late = fired.fired_ns - mono(0) + wall(0) + 700_000_000
    which = is_span("request", rid, "decode")
    change_span(run, which, {"pd.outcome": "completed"}, end_ns=late)


@breaks("abort_spans", UNKNOWN)
def client_left_nobody_knows_when(run: HealthyRun) -> None:
    change_end(run, rid_of(run, Outcome.ABORTED_DISCONNECT, 0), abort=None)


@breaks("abort_spans", UNKNOWN)
def root_span_missing(run: HealthyRun) -> None:
    drop(run.spans, is_span("request", aborted_in_prefill(run), "load"))


@breaks("abort_spans", UNKNOWN)
def role_span_of_an_aborted_request_missing(run: HealthyRun) -> None:
    rid = rid_of(run, Outcome.ABORTED_SERVER)
    drop(run.spans, lambda s: s.text("pd.rid") == rid and s.text("pd.role") == "decode")


@breaks("abort_latency", FAIL)
def abort_seen_late(run: HealthyRun) -> None:
    rid = aborted_in_prefill(run)
    fired = end_of(run, rid).abort
    assert fired is not None
    at = fired.fired_ns + 3_000_000_000
    stamps = {"pd.abort.received_ns": at, "pd.abort.released_ns": at + 1}
    change_span(run, is_span("abort", rid, "decode"), dict(stamps))


@breaks("abort_latency", FAIL)
def released_late(run: HealthyRun) -> None:
    which = is_span("abort", aborted_in_prefill(run), "prefill")
    span = next(s for s in run.spans if which(s))
    received = span.attributes["pd.abort.received_ns"]
    assert isinstance(received, int)
    change_span(run, which, {"pd.abort.released_ns": received + 6_000_000_000})


@breaks("min_aborts", UNKNOWN)
def too_few_aborts_in_decode(run: HealthyRun) -> None:
    run.expect["min_decode"] = 200


@breaks("pool_used", UNKNOWN)
def the_pool_was_never_that_full(run: HealthyRun) -> None:
    """Somebody's pool was, for a moment only."""
    run.expect["min_pool_used"] = 0.9
    which = next(s for s in run.samples if s.phase == "load" and s.ledger is not None)
    full = ResourceCount(total=PAGES, free=0, held=PAGES)
    change_ledger(run, lambda sample: sample is which, resources={"kv_pages": full})


# ---- faults ---------------------------------------------------------------------------------------


@breaks("faults_proven", UNKNOWN)
def fault_not_verified(run: HealthyRun) -> None:
    drop(run.faults, is_fault("f1", FaultEvent.VERIFIED))


@breaks("faults_proven", UNKNOWN)
def fault_said_to_be_unproven(run: HealthyRun) -> None:
    change(run.faults, is_fault("f1", FaultEvent.VERIFIED), event=FaultEvent.UNPROVEN)


@breaks("faults_proven", UNKNOWN)
def fault_not_healed(run: HealthyRun) -> None:
    drop(run.faults, is_fault("f1", FaultEvent.HEALED))


@breaks("faults_proven", UNKNOWN)
def fault_never_recorded(run: HealthyRun) -> None:
    drop(run.faults, is_fault("f0"))


@breaks("faults_proven", UNKNOWN)
def fault_only_declared(run: HealthyRun) -> None:
    drop(run.faults, lambda r: r.fault_id == "f2" and r.event is not FaultEvent.DECLARED)


@breaks("faults_proven", UNKNOWN)
def fault_lines_twice(run: HealthyRun) -> None:
    run.faults.extend([r for r in run.faults if is_fault("f0")(r)])


@breaks("faults_proven", UNKNOWN)
def another_fault_than_planned(run: HealthyRun) -> None:
    change(run.faults, is_fault("f1"), mode="stall")


@breaks("faults_proven", UNKNOWN)
def fault_hit_another_link(run: HealthyRun) -> None:
    change(run.faults, is_fault("f0"), links=("bootstrap:p0-d0",))


@breaks("faults_proven", UNKNOWN)
def fault_healed_at_once(run: HealthyRun) -> None:
    which = is_fault("f0", FaultEvent.HEALING, FaultEvent.HEALED)
    change(run.faults, which, at_ns=mono(5.3), wall_ns=wall(5.3))


@breaks("faults_proven", UNKNOWN)
def nobody_was_exposed(run: HealthyRun) -> None:
    run.expect["min_exposed"] = 100


@breaks("faults_proven", UNKNOWN)
def killed_worker_is_the_same_process(run: HealthyRun) -> None:
    change_ledger(run, lambda sample: sample.worker == "d0", incarnation="d0-first")


@breaks("faults_proven", UNKNOWN)
def kill_of_an_unknown_process(run: HealthyRun) -> None:
    change(run.faults, is_fault("f2"), incarnations={"p0": "p0-first", "d0": "somebody"})


@breaks("heal_time", FAIL)
def heal_took_long(run: HealthyRun) -> None:
    change(run.faults, is_fault("f0", FaultEvent.HEALED), heal_ms=9000.0)


@breaks("recovery", FAIL)
def nothing_succeeds_after_the_heal(run: HealthyRun) -> None:
    fail_completed(run, 17.0, 23.5)


@breaks("recovery", FAIL)
def goodput_stays_low(run: HealthyRun) -> None:
    fail_completed(run, 18.2, 23.5)


@breaks("recovery", UNKNOWN)
def load_ends_at_the_heal(run: HealthyRun) -> None:
    late = {r.rid for r in run.history if isinstance(r, Sent) and r.sent_ns > mono(27)}
    drop(run.history, lambda record: record.rid in late)


def fail_completed(run: HealthyRun, from_s: float, to_s: float) -> None:
    """Requests due then are aborted by the server instead of completed."""
    due = {
        r.rid
        for r in run.history
        if isinstance(r, Sent) and mono(from_s) <= r.scheduled_ns < mono(to_s)
    }
    change(
        run.history,
        lambda r: isinstance(r, End) and r.rid in due and r.outcome is Outcome.COMPLETED,
        outcome=Outcome.ABORTED_SERVER,
        error_reason="peer_dead",
    )


# ---- who was not to be hurt -------------------------------------------------------------------------


def hit_by_the_short_cut(run: HealthyRun) -> str:
    """Sent just before the cut of 0.8 s, completed just after it began."""
    return next(
        r.rid
        for r in run.history
        if isinstance(r, End)
        and r.outcome is Outcome.COMPLETED
        and mono(5.0) < r.end_ns < mono(5.8)
    )


@breaks("harmless_cuts", FAIL, WITH_SHORT_CUT)
def aborted_by_a_blip(run: HealthyRun) -> None:
    """The fault permits peer_dead, and still it was no death."""
    rid = hit_by_the_short_cut(run)
    change_end(run, rid, outcome=Outcome.ABORTED_SERVER, error_reason="peer_dead")


@breaks("harmless_cuts", FAIL, WITH_SHORT_CUT)
def hung_by_a_blip(run: HealthyRun) -> None:
    drop(run.history, is_end(hit_by_the_short_cut(run)))


@breaks("harmless_cuts", UNKNOWN, WITH_SHORT_CUT)
def a_blip_that_was_none(run: HealthyRun) -> None:
    """Meant to be short; the machine made it long."""
    which = is_fault("f0", FaultEvent.HEALING, FaultEvent.HEALED)
    change(run.faults, which, at_ns=mono(6.6), wall_ns=wall(6.6))


@breaks("harmless_cuts", UNKNOWN, WITH_SHORT_CUT)
def nobody_was_in_the_blip(run: HealthyRun) -> None:
    met = {r.rid for r in run.history if isinstance(r, Sent) and mono(3.9) < r.sent_ns < mono(6)}
    drop(run.history, lambda record: record.rid in met)


@breaks("bystanders", FAIL)
def bystanders_wait_for_their_first_token(run: HealthyRun) -> None:
    slow_down(run, first_s=0.4)


@breaks("bystanders", FAIL)
def bystanders_get_their_tokens_slowly(run: HealthyRun) -> None:
    slow_down(run, last_s=0.4)


@breaks("bystanders", UNKNOWN)
def too_few_bystanders(run: HealthyRun) -> None:
    run.expect["min_bystanders"] = 200


@breaks("bystanders", UNKNOWN)
def no_baseline_to_compare_with(run: HealthyRun) -> None:
    run.expect["min_bystanders"] = 12
    early = {r.rid for r in run.history if isinstance(r, Sent) and r.sent_ns < mono(3.5)}
    drop(run.history, lambda record: record.rid in early)


def slow_down(run: HealthyRun, first_s: float = 0.0, last_s: float = 0.0) -> None:
    """Every completed request that ends after second 8 is later than it was."""
    run.expect["min_bystanders"] = 12
    for index, end in enumerate(run.history):
        if not isinstance(end, End) or end.outcome is not Outcome.COMPLETED:
            continue
        if end.end_ns > mono(8) and end.first_ns and end.last_ns:
            run.history[index] = replace(
                end,
                first_ns=end.first_ns + round(first_s * 1e9),
                last_ns=end.last_ns + round((first_s + last_s) * 1e9),
                end_ns=end.end_ns + round((first_s + last_s) * 1e9),
            )


@breaks("pairs_recover", FAIL)
def the_pair_stays_broken(run: HealthyRun) -> None:
    fail_completed(run, 17.0, 23.5)


@breaks("pairs_recover", UNKNOWN)
def nobody_tries_the_pair_again(run: HealthyRun) -> None:
    late = {r.rid for r in run.history if isinstance(r, Sent) and r.sent_ns > mono(27)}
    drop(run.history, lambda record: record.rid in late)


@breaks("late", FAIL)
def decode_looks_for_its_prefill_for_ever(run: HealthyRun) -> None:
    rid = rid_of(run, Outcome.COMPLETED, 2)
    change_span(run, is_span("bootstrap", rid, "decode"), end_ns=wall(9.5))


@breaks("abort_spans", FAIL)
def halves_disagree_though_the_link_is_up(run: HealthyRun) -> None:
    """Two reasons of a broken link, no link was broken, and a second is time enough to be told."""
    rid = aborted_in_prefill(run)
    set_reason(run, rid, "prefill", "transfer_failed", error=True)
    set_reason(run, rid, "decode", "bootstrap_timeout", error=True)
    which = is_span("abort", rid, "decode")
    span = next(s for s in run.spans if which(s))
    released = span.attributes["pd.abort.released_ns"]
    assert isinstance(released, int)
    late = {"pd.abort.via": "local", "pd.abort.released_ns": released + 2_000_000_000}
    change_span(run, which, dict(late))
    change_span(run, is_span("request", rid, "decode"), {"pd.abort.via": "local"})


@breaks("tokens_equal_control", FAIL)
def sure_of_a_wrong_token(run: HealthyRun) -> None:
    """The control was unsure there; rounding still does not make anybody sure of the other token."""
    rid = controlled(run)
    ids = (255 - end_of(run, rid).output_ids[0], *end_of(run, rid).output_ids[1:])
    change_end(run, rid, output_ids=ids)
    change(run.control, is_end(rid), margins=(0.0,) * 24)


@breaks("tokens_equal_control", FAIL)
def unsure_of_a_wrong_token(run: HealthyRun) -> None:
    """A wrong cache may be near a tie; the control was sure, so it is no rounding."""
    rid = controlled(run)
    end = end_of(run, rid)
    ids = (*end.output_ids[:7], 255 - end.output_ids[7], *end.output_ids[8:])
    change_end(run, rid, output_ids=ids, margins=(0.0,) * len(ids))


# ---- spans ----------------------------------------------------------------------------------------


@breaks("spans_complete", UNKNOWN)
def span_number_missing(run: HealthyRun) -> None:
    drop(run.spans, is_span("queue", rid_of(run, Outcome.COMPLETED), "prefill"))


@breaks("spans_complete", UNKNOWN)
def a_cut_link_excuses_no_lost_span(run: HealthyRun) -> None:
    """Whatever the fault says that it silences: it is no fault of telemetry."""
    change(run.faults, is_fault("f0"), silences=("spans",))
    rid = next(r.rid for r in run.history if isinstance(r, Sent) and r.sent_ns > mono(5.5))
    drop(run.spans, is_span("abort", rid, "prefill"))


@breaks("spans_complete", UNKNOWN)
def role_span_missing(run: HealthyRun) -> None:
    drop(run.spans, is_span("request", rid_of(run, Outcome.COMPLETED), "decode"))


@breaks("spans_complete", UNKNOWN)
def spans_without_numbers(run: HealthyRun) -> None:
    change_span(run, lambda span: span.service == "severance-decode", {"pd.seq": None})


@breaks("spans_complete", UNKNOWN)
def spans_of_an_unknown_process(run: HealthyRun) -> None:
    change_span(
        run,
        lambda span: span.service == "severance-prefill",
        resource={"service.instance.incarnation": "another", "host.id": "node-a"},
    )


@breaks("spans_complete", UNKNOWN)
def orphan_span(run: HealthyRun) -> None:
    which = is_span("queue", rid_of(run, Outcome.COMPLETED), "prefill")
    change_span(run, which, parent_span_id="d" * 16)


@breaks("spans_complete", UNKNOWN)
def last_spans_of_a_living_worker(run: HealthyRun) -> None:
    """No later number shows a gap, but a completed request has lost its stages."""
    last = max(
        index
        for index, span in enumerate(run.spans)
        if span.service == "severance-decode" and span.name == "decode"
    )
    del run.spans[last]


@breaks("trace_joined", FAIL)
def decode_in_another_trace(run: HealthyRun) -> None:
    rid = rid_of(run, Outcome.COMPLETED)
    change_span(
        run,
        lambda s: s.text("pd.rid") == rid and s.text("pd.role") == "decode",
        trace_id="9" * 32,
    )


@breaks("trace_joined", FAIL)
def role_span_under_no_root(run: HealthyRun) -> None:
    which = is_span("request", rid_of(run, Outcome.COMPLETED), "prefill")
    change_span(run, which, parent_span_id="")


# ---- the run itself -------------------------------------------------------------------------------


@breaks("run_complete", UNKNOWN)
def runner_died(run: HealthyRun) -> None:
    run.info = replace(run.info, finished=False)


@breaks("run_complete", UNKNOWN)
def phase_missing(run: HealthyRun) -> None:
    drop(run.events, lambda event: event.name == "final")


@breaks("run_complete", UNKNOWN)
def records_of_another_run(run: HealthyRun) -> None:
    change(run.samples, is_final("p0"), run_id="run-2")


@breaks("run_complete", UNKNOWN)
def records_of_another_host(run: HealthyRun) -> None:
    change(run.faults, is_fault("f0"), host="node-b")


@breaks("run_complete", UNKNOWN)
def wall_clock_jumped(run: HealthyRun) -> None:
    change(run.events, lambda event: event.name == "drain", wall_ns=wall(142))


@breaks("run_complete", UNKNOWN)
def guard_tripped_in_silence(run: HealthyRun) -> None:
    run.events.append(replace(make_event(EventKind.GUARD, "stuck_request", 20), ok=False))


@breaks("run_complete", UNKNOWN)
def load_far_too_short(run: HealthyRun) -> None:
    drop(run.history, lambda r: isinstance(r, Sent) and r.sent_ns > mono(12))


# ---- a target without a ledger ------------------------------------------------------------------

NO_LEDGER = HealthyRun()
NO_LEDGER.info = replace(NO_LEDGER.info, cannot_show=("ledger",))


@breaks("drained", FAIL, NO_LEDGER)
def a_worker_has_a_request_for_ever(run: HealthyRun) -> None:
    change(run.events, lambda event: event.name == "drained", ok=False, detail="not idle")


@breaks("drained", UNKNOWN, NO_LEDGER)
def nobody_waited_for_the_workers(run: HealthyRun) -> None:
    drop(run.events, lambda event: event.name == "drained")


@breaks("drained", UNKNOWN, NO_LEDGER)
def waited_before_the_last_request_was_over(run: HealthyRun) -> None:
    change(run.events, lambda event: event.name == "drained", at_ns=mono(12))


def check_of(verdict: Verdict, check_id: str) -> CheckStatus:
    return next(check.status for check in verdict.checks if check.id == check_id)


@pytest.mark.parametrize(
    ("check", "status", "mutation", "base"), CASES, ids=[case[2].__name__ for case in CASES]
)
def test_mutation_is_caught(
    check: str, status: CheckStatus, mutation: Mutation, base: HealthyRun, tmp_path: Path
) -> None:
    run = base.copy()
    mutation(run)
    verdict = judge_run(run.write(tmp_path))
    assert check_of(verdict, check) is status, [c for c in verdict.checks if c.id == check]
    failed = any(one.status is FAIL for one in verdict.checks)
    assert verdict.exit_code == (1 if failed else 4)
    assert verdict.status is (RunStatus.FAILED if failed else RunStatus.INVALID)
    assert verdict.reason


def test_every_check_is_broken_both_ways_or_known_not_to_be() -> None:
    """Each check of a full run is caught failing or unknown by at least one mutation."""
    assert {kind.value for kind in AbortKind} == {"disconnect", "rid", "deadline"}
    assert {check for check, *_ in CASES} == {check.id for check in ALL_CHECKS}

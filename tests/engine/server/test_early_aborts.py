"""Aborts that overtake their request, and those that come after its end."""

from __future__ import annotations

from engine.server.early_aborts import KEEP_NS, MAX_RIDS, EarlyAborts
from tests.engine.server.harness import WorkerProcess, script


def test_is_remembered_for_a_while() -> None:
    early = EarlyAborts()
    assert early.note_abort("a", 0)
    assert early.was_aborted("a", KEEP_NS)
    assert not early.was_aborted("b", KEEP_NS)
    assert not early.was_aborted("a", KEEP_NS + 1)
    assert len(early) == 0


def test_an_abort_after_the_end_does_not_hit_the_next_use() -> None:
    early = EarlyAborts()
    early.note_end("a", 0)
    assert not early.note_abort("a", 1)
    assert not early.was_aborted("a", 2)


def test_the_answer_wipes_it_out() -> None:
    early = EarlyAborts()
    early.note_abort("a", 0)
    early.note_end("a", 1)
    assert not early.was_aborted("a", 2)


def test_is_bounded() -> None:
    early = EarlyAborts()
    for number in range(MAX_RIDS + 5):
        early.note_abort(str(number), 0)
        early.note_end(f"e{number}", 0)
    assert len(early) == 2 * MAX_RIDS
    assert not early.was_aborted("4", 0)
    assert early.was_aborted("5", 0)


def test_request_is_aborted_when_it_arrives(worker: WorkerProcess) -> None:
    first = worker.post("/abort_request", {"rid": "overtaken"})
    answer = worker.post("/generate", {"rid": "overtaken", "text": script(hold=True)})
    assert first.json == {
        "matched": 0,
        "message": "no open request matches overtaken; one that arrives within 2 s will be aborted",
    }
    assert answer.status == 200
    assert answer.json["meta_info"]["finish_reason"]["reason"] == "client_abort"
    assert answer.json["output_ids"] == []
    assert len(worker.seen("aborts", "overtaken")) == 1


def test_both_halves_hear_of_it(prefill: WorkerProcess) -> None:
    """The scheduler gets the request and its abort, so that the peer is told."""
    prefill.post("/abort_request", {"rid": "over"})
    body = {"rid": "over", "text": script(hold=True), "bootstrap_room": 77}
    assert prefill.post("/generate", body).json["meta_info"]["finish_reason"]["type"] == "abort"
    assert prefill.seen("generates", "over")[0]["bootstrap_room"] == 77


def test_same_rid_again_after_its_abort(worker: WorkerProcess) -> None:
    worker.post("/abort_request", {"rid": "twice"})
    body = {"rid": "twice", "text": script(tokens=2)}
    assert worker.post("/generate", body).json["meta_info"]["finish_reason"]["type"] == "abort"
    again = worker.post("/generate", body).json["meta_info"]["finish_reason"]
    assert again["type"] == "length"


def test_abort_after_finish_is_a_no_op_that_says_so(worker: WorkerProcess) -> None:
    body = {"rid": "done", "text": script(tokens=2)}
    worker.post("/generate", body)
    late = worker.post("/abort_request", {"rid": "done"})
    assert late.json["message"] == "no open request matches done; nothing to abort"
    again = worker.post("/generate", body).json["meta_info"]["finish_reason"]
    assert again["type"] == "length"


def test_prefix_and_abort_all_are_not_remembered(worker: WorkerProcess) -> None:
    worker.post("/abort_request", {"rid": "pre", "prefix": True})
    worker.post("/abort_request", {"abort_all": True})
    answer = worker.post("/generate", {"rid": "prefixed", "text": script(tokens=1)})
    assert answer.json["meta_info"]["finish_reason"]["type"] == "length"

"""SGLang's PD abort tests, with what they lack: page counts, reuse of freed pages, no token after.

(After `test_disaggregation_chunked_prefill_abort.py` and `test_disaggregation_peer_liveness_abort.py`.)
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

import pytest
import requests

from chaos.local import LocalDeployment
from tests.e2e.client import Front, prompt_of, wait_until

pytestmark = [pytest.mark.e2e]


def in_stage(front: Front, worker: str, rid: str, *stages: str) -> Callable[[], bool]:
    return lambda: front.stage(worker, rid) in stages


def test_unified_abort_in_mid_chunk(front: Front) -> None:
    doomed = front.send_unified(prompt_of(3_500))
    wait_until(lambda: front.unified_stage(doomed.rid) == "mid_chunk", 10, "in mid-chunk")
    assert front.abort_unified(doomed.rid) == 1
    answer = doomed.result()
    assert (answer.status, answer.finish, answer.output_ids) == (200, "abort", ())
    assert front.send_unified("The capital of France is", 4).result().finish == "length"


def test_pair_decodes_what_unified_decodes(front: Front) -> None:
    prompt = prompt_of(900, "parity")
    answer = front.send(prompt, 24).result()
    assert (answer.status, answer.finish) == (200, "length")
    assert answer.output_ids == front.expected(prompt, 24)


def test_abort_in_mid_chunk_and_the_freed_pages_serve_the_next(front: Front) -> None:
    """The pool holds one such prompt, so the next request gets the very pages that were freed."""
    doomed = front.send(prompt_of(3_900))
    wait_until(in_stage(front, "p0", doomed.rid, "mid_chunk"), 10, "in mid-chunk")
    assert front.ledger("p0").resources["kv_pages"].free < front.baseline_pages
    assert front.abort(doomed.rid, "p0", "d0") >= 1
    answer = doomed.result()
    assert (answer.status, answer.finish, answer.completion_tokens) == (200, "abort", 0)
    released_s = wait_until(lambda: front.is_clean("p0") and front.is_clean("d0"), 5, "released")
    assert released_s < 1.0
    prompt = prompt_of(3_800, "next")
    assert front.send(prompt, 12).result().output_ids == front.expected(prompt, 12)


def test_prefill_abort_ends_decode_in_under_a_second(front: Front) -> None:
    """sglang#28651: decode held each slot for 300 s."""
    doomed = front.send(prompt_of(3_900))
    wait_until(in_stage(front, "p0", doomed.rid, "mid_chunk"), 10, "in mid-chunk")
    assert front.abort(doomed.rid, "p0") == 1
    assert wait_until(lambda: front.stage("d0", doomed.rid) is None, 5, "gone from decode") < 1.0
    assert doomed.result().finish == "abort"


def test_decode_abort_stops_prefill(front: Front) -> None:
    """sglang#28236: no more chunks for nobody."""
    doomed = front.send(prompt_of(3_900))
    wait_until(in_stage(front, "p0", doomed.rid, "mid_chunk"), 10, "in mid-chunk")
    assert front.abort(doomed.rid, "d0") == 1
    assert wait_until(lambda: front.stage("p0", doomed.rid) is None, 5, "gone from prefill") < 1.0
    assert doomed.result().finish == "abort"


def test_no_token_after_an_abort_in_decode(front: Front) -> None:
    prompt = prompt_of(300, "running")
    doomed = front.send(prompt, 2_000)
    wait_until(in_stage(front, "d0", doomed.rid, "running"), 10, "running")
    assert front.abort(doomed.rid, "d0") == 1
    answer = doomed.result()
    assert answer.finish == "abort"
    count = len(answer.output_ids)
    assert count == answer.completion_tokens
    assert answer.output_ids == front.expected(prompt, max(count, 1))[:count]


def test_client_disconnect_frees_both_halves(front: Front) -> None:
    body = {"rid": "gone", "text": prompt_of(3_900), "sampling_params": {"max_new_tokens": 8}}
    url = f"{front._router}/generate"
    with pytest.raises(requests.Timeout):
        requests.post(url, json=body, timeout=0.4)
    released_s = wait_until(lambda: front.is_clean("p0") and front.is_clean("d0"), 5, "released")
    assert released_s < 2.0


def test_abort_of_an_unknown_rid_is_a_no_op(front: Front) -> None:
    assert front.abort("nobody", "p0", "d0") == 0


def test_peer_death_and_clean_recovery(front: Front, deployment: LocalDeployment) -> None:
    """SIGKILL of decode in mid-chunk: prefill stops within 2 s, and the pair serves again."""
    doomed = front.send(prompt_of(3_900))
    wait_until(in_stage(front, "p0", doomed.rid, "mid_chunk", "transfer"), 10, "in mid-chunk")
    deployment.kill_worker("d0")
    assert wait_until(lambda: front.is_clean("p0"), 10, "prefill clean") < 3.0
    assert doomed.result().status >= 500
    deployment.restart_worker("d0")
    wait_until(lambda: front.send("again", 2).result().status == 200, 10, "serving again")
    prompt = prompt_of(1_500, "recovered")
    assert front.send(prompt, 12).result().output_ids == front.expected(prompt, 12)


def test_abort_spans_stand_on_both_roles(front: Front, deployment: LocalDeployment) -> None:
    doomed = front.send(prompt_of(3_900))
    wait_until(in_stage(front, "p0", doomed.rid, "mid_chunk"), 10, "in mid-chunk")
    front.abort(doomed.rid, "p0", "d0")
    assert doomed.result().finish == "abort"
    query = (
        "SELECT service, json_extract(attributes, '$.\"pd.abort.reason\"') FROM spans"
        " WHERE name = 'abort' AND rid = ?"
    )

    def both() -> bool:
        with sqlite3.connect(f"file:{deployment._spans_db}?mode=ro", uri=True) as database:
            found = set(database.execute(query, (doomed.rid,)).fetchall())
        database.close()
        return found == {
            ("severance-prefill", "client_abort"),
            ("severance-decode", "client_abort"),
        }

    wait_until(both, 5, "in the span store")

"""`KNOWN`: every bug of this package: what it does, after which public incident, and what must catch it."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class Process(StrEnum):
    """The two processes of a worker."""

    HTTP = "http"
    SCHEDULER = "scheduler"


class Known(Struct, frozen=True, kw_only=True):
    """``scenario``: file name (without .yaml) in ``chaos/scenarios/regress``. ``caught_by``: one of these
    checks must fail; others may fail too."""

    name: str
    what: str
    incident: str
    scenario: str
    caught_by: tuple[str, ...]
    processes: tuple[Process, ...] = (Process.SCHEDULER,)


_HTTP = (Process.HTTP,)
KNOWN = (
    Known(
        name="leak_pages_on_chunked_abort",
        what="an abort in mid-chunk keeps one KV page",
        incident="sglang#36926",
        scenario="aborts",
        caught_by=("ledger_baseline",),
    ),
    Known(
        name="chunked_abort_waits",
        what="an aborted prefill computes all its chunks to the end",
        incident="sglang#28086",
        scenario="aborts",
        caught_by=("no_token_after_abort",),
    ),
    Known(
        name="abort_in_last_chunk_is_lost",
        what="an abort that meets the last chunk in flight is noted and never carried out",
        incident="sglang#35255",
        scenario="last-chunk",
        caught_by=("ledger_baseline", "answers"),
    ),
    Known(
        name="metadata_slot_leaks",
        what="an abort keeps its metadata slot",
        incident="sglang#27374",
        scenario="aborts",
        caught_by=("ledger_baseline",),
    ),
    Known(
        name="pages_are_freed_twice",
        what="an abort of a running request frees its pages a second time",
        incident="sglang#29834",
        scenario="aborts",
        caught_by=("ledger_baseline",),
    ),
    Known(
        name="tokens_go_on_after_the_abort",
        what="tokens of the forward in flight are streamed after the abort was accepted",
        incident="sglang#34149",
        scenario="aborts",
        caught_by=("no_token_after_abort",),
        processes=(Process.HTTP, Process.SCHEDULER),
    ),
    Known(
        name="zombie_after_disconnect",
        what="a client that went away is not noticed; its request runs to the end",
        incident="sglang#36333, dynamo#13691",
        scenario="aborts",
        caught_by=("abort_spans",),
        processes=_HTTP,
    ),
    Known(
        name="disconnect_is_polled",
        what="a disconnect is noticed only at the next look, every 4 s",
        incident="sglang#36333",
        scenario="aborts",
        caught_by=("abort_spans", "abort_latency"),
        processes=_HTTP,
    ),
    Known(
        name="rid_matched_by_prefix",
        what="an abort also hits rids that only begin alike",
        incident="sglang#24070",
        scenario="aborts",
        caught_by=("abort_spans",),
        processes=_HTTP,
    ),
    Known(
        name="rid_to_state_leaks",
        what="the HTTP process keeps the state of an aborted request",
        incident="sglang#34570",
        scenario="aborts",
        caught_by=("ledger_baseline",),
        processes=_HTTP,
    ),
    Known(
        name="abort_without_span",
        what="an aborted request has no abort span",
        incident="vllm#32162",
        scenario="aborts",
        caught_by=("abort_spans",),
        processes=_HTTP,
    ),
    Known(
        name="own_cancel_is_an_error",
        what="a client's own cancel is traced as a server error",
        incident="any-llm#909",
        scenario="aborts",
        caught_by=("abort_spans",),
        processes=_HTTP,
    ),
    Known(
        name="two_final_answers",
        what="a stream ends twice",
        incident="sglang#34570",
        scenario="aborts",
        caught_by=("answers",),
        processes=_HTTP,
    ),
    Known(
        name="no_beat_under_load",
        what="heartbeats stop while requests are open, though the links are fine",
        incident="vllm#53095",
        scenario="aborts",
        caught_by=("abort_spans",),
    ),
    Known(
        name="foreign_page",
        what="now and then a page of one request is overwritten by another's",
        incident="sglang#24527",
        scenario="tokens",
        caught_by=("tokens_equal_control",),
    ),
    Known(
        name="pages_never_written",
        what="success is reported, and the last pages were not written",
        incident="TensorRT-LLM#19545",
        scenario="tokens",
        caught_by=("tokens_equal_control",),
    ),
    Known(
        name="pages_reused_before_the_copy",
        what="prefill frees its pages before they were copied out, and the next request's KV is sent",
        incident="sglang#32564",
        scenario="tokens",
        caught_by=("tokens_equal_control",),
    ),
    Known(
        name="blip_is_death",
        what="a cut of a few hundred milliseconds counts as the peer's death",
        incident="sglang#25287",
        scenario="blip",
        caught_by=("harmless_cuts",),
    ),
    Known(
        name="lost_frames_are_not_resent",
        what="frames that a short blackhole swallowed are never sent again",
        incident="vllm#50754",
        scenario="blip",
        caught_by=("harmless_cuts", "late"),
    ),
    Known(
        name="peer_death_unnoticed",
        what="a dead peer's rooms are left to wait for their own timeouts",
        incident="sglang#28651",
        scenario="long-cut",
        caught_by=("late",),
    ),
    Known(
        name="error_without_a_reason",
        what="a server-side abort is answered with a bare error",
        incident="llm-d#2433",
        scenario="long-cut",
        caught_by=("server_errors",),
        processes=_HTTP,
    ),
    Known(
        name="pair_stays_failed",
        what="a prefill that was lost once is never dialed again",
        incident="sglang#13054",
        scenario="reconnect",
        caught_by=("recovery", "pairs_recover"),
    ),
    Known(
        name="staging_kept_after_peer_death",
        what="memory staged for a dead peer is not given back",
        incident="vllm#58063",
        scenario="reconnect",
        caught_by=("ledger_baseline",),
    ),
)

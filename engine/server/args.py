"""What ``severance serve`` was told: `ServeArgs`, its checks, and the scheduler child's share of it."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from enum import StrEnum
from urllib.parse import urlsplit

import msgspec

from engine.core.codes import DisaggregationMode
from engine.errors import UsageError
from engine.server.keys import ApiKeys, check_key

_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
_LINK = re.compile(r"(bootstrap|control|kv):(.+):(\d+)=(.+):(\d+)")
FAILURE_PROB = "SGLANG_TEST_DISAGG_FAILURE_PROB"
FAILURE_SEED = "SEVERANCE_TEST_DISAGG_FAILURE_SEED"
_DEFAULT_NAMES = {
    DisaggregationMode.UNIFIED: "u0",
    DisaggregationMode.PREFILL: "p0",
    DisaggregationMode.DECODE: "d0",
}


class AbortGranularity(StrEnum):
    """When a forward whose requests were all aborted stops: before its next layer, or at its end."""

    LAYER = "layer"
    CHUNK = "chunk"


class _Shared(msgspec.Struct, frozen=True, kw_only=True):
    """Flags that both processes of a worker need. Ports of 0 are picked by the system.

    ``test_disagg_failure_prob`` and its seed come from the environment, as SGLang has it.
    """

    mode: DisaggregationMode = DisaggregationMode.UNIFIED
    model_path: str = "tiny"
    random_seed: int = 0
    dtype: str = "float32"
    device: str = "cpu"
    page_size: int = 16
    chunked_prefill_size: int = 256
    max_running_requests: int = 16
    max_queued_requests: int = 0
    max_total_tokens: int = 65_536
    context_length: int = 65_536
    worker_name: str = "u0"
    host: str = "127.0.0.1"
    control_port: int = 0
    kv_port: int = 0
    bootstrap_port: int = 0
    link_map: dict[str, str] = {}
    bootstrap_timeout_s: float = 5.0
    peer_dead_after_s: float = 1.5
    transfer_timeout_s: float = 10.0
    request_waiting_timeout_s: float = 0.0
    request_running_timeout_s: float = 0.0
    abort_granularity: AbortGranularity = AbortGranularity.LAYER
    optimistic_prefill_attempts: int = 0
    test_disagg_failure_prob: float = 0.0
    test_disagg_failure_seed: int = 0
    log_level: str = "info"


class ServeArgs(_Shared, frozen=True, kw_only=True):
    """Everything ``severance serve`` was told."""

    port: int = 30_000
    otlp_traces_endpoint: str | None = None
    keys: ApiKeys = ApiKeys()


class SchedulerArgs(_Shared, frozen=True, kw_only=True):
    """What the scheduler child reads from its ARGS_FILE (JSON).

    ``to_scheduler`` and ``from_scheduler`` are the ipc addresses that the HTTP process has bound.
    ``link_map`` maps ``kind:host:port`` to the ``host:port`` to dial instead. ``parent_pid``: the HTTP
    process, without which the child must not live.
    """

    to_scheduler: str
    from_scheduler: str
    incarnation: str
    parent_pid: int


def make_serve_args(
    *,
    bootstrap_port: int | None,
    context_length: int,
    worker_name: str | None,
    link_maps: list[str],
    mode: str,
    environment: Mapping[str, str] | None = None,
    keys: ApiKeys | None = None,
    **plain: str | int | float | None,
) -> ServeArgs:
    """Resolve defaults that depend on other flags, and check the whole. Raises `UsageError`.

    ``environment``: of the process; `FAILURE_PROB` and `FAILURE_SEED` are read from it.
    """
    role = DisaggregationMode.UNIFIED if mode == "null" else DisaggregationMode(mode)
    if role is DisaggregationMode.PREFILL and bootstrap_port is None:
        raise UsageError(
            "--disaggregation-bootstrap-port",
            "a prefill worker needs one; give the port decode workers dial, e.g. 8998",
        )
    fields = {
        **plain,
        "mode": role,
        "bootstrap_port": bootstrap_port or 0,
        "context_length": context_length or plain["max_total_tokens"],
        "worker_name": worker_name or _DEFAULT_NAMES[role],
        "link_map": _parse_links(link_maps),
        **_failure_injection(environment or {}),
        "keys": keys or ApiKeys(),
    }
    args = msgspec.convert(fields, ServeArgs)
    check_args(args)
    return args


def make_scheduler_args(
    args: ServeArgs,
    *,
    bootstrap_port: int,
    to_scheduler: str,
    from_scheduler: str,
    incarnation: str,
) -> SchedulerArgs:
    """The child's share of ``args``, with the bootstrap port that was really bound."""
    shared = msgspec.structs.asdict(args)
    del shared["port"], shared["otlp_traces_endpoint"], shared["keys"]
    shared |= {"bootstrap_port": bootstrap_port, "incarnation": incarnation}
    shared |= {"to_scheduler": to_scheduler, "from_scheduler": from_scheduler}
    shared["parent_pid"] = os.getpid()
    return msgspec.convert(shared, SchedulerArgs)


def check_args(args: ServeArgs) -> None:
    """Raise `UsageError` for the first setting that cannot work."""
    _check_sizes(args)
    _check_times(args)
    if not args.model_path:
        raise UsageError("--model-path", "is empty; give a model directory, or tiny")
    if not _NAME.fullmatch(args.worker_name):
        raise UsageError(
            "--worker-name", f"{args.worker_name!r} has other characters than A-Z a-z 0-9 . _ -"
        )
    check_key("--api-key", args.keys.api_key)
    check_key("--admin-api-key", args.keys.admin_api_key)
    if args.otlp_traces_endpoint is not None:
        _check_endpoint(args.otlp_traces_endpoint)


def _check_sizes(args: ServeArgs) -> None:
    at_least_one = {
        "--page-size": args.page_size,
        "--chunked-prefill-size": args.chunked_prefill_size,
        "--max-running-requests": args.max_running_requests,
        "--max-total-tokens": args.max_total_tokens,
        "--context-length": args.context_length,
    }
    for flag, value in at_least_one.items():
        if value < 1:
            raise UsageError(flag, f"{value} is too small; give 1 or more")
    for flag, value in {
        "--max-queued-requests": args.max_queued_requests,
        "--random-seed": args.random_seed,
        "--optimistic-prefill-attempts": args.optimistic_prefill_attempts,
    }.items():
        if value < 0:
            raise UsageError(flag, f"{value} is negative; give 0 or more")
    for flag, value in {
        "--chunked-prefill-size": args.chunked_prefill_size,
        "--max-total-tokens": args.max_total_tokens,
    }.items():
        if value % args.page_size:
            raise UsageError(
                flag, f"{value} is no multiple of --page-size {args.page_size}; choose a multiple"
            )
    if args.context_length > args.max_total_tokens:
        raise UsageError(
            "--context-length",
            f"{args.context_length} is more than the KV pool holds (--max-total-tokens "
            f"{args.max_total_tokens}); lower one or raise the other",
        )


def _check_times(args: ServeArgs) -> None:
    for flag, seconds in {
        "--disaggregation-bootstrap-timeout": args.bootstrap_timeout_s,
        "--disaggregation-transfer-timeout": args.transfer_timeout_s,
    }.items():
        if not 0 < seconds < float("inf"):
            raise UsageError(flag, f"{seconds:g} is no time; give seconds above 0")
    for flag, seconds in {
        "--request-waiting-timeout": args.request_waiting_timeout_s,
        "--request-running-timeout": args.request_running_timeout_s,
    }.items():
        if not 0 <= seconds < float("inf"):
            raise UsageError(flag, f"{seconds:g} is no time; give seconds, or 0 for no limit")
    if not 0.3 <= args.peer_dead_after_s < float("inf"):
        raise UsageError(
            "--peer-dead-after",
            f"{args.peer_dead_after_s:g} s is under three beats of 0.1 s; give 0.3 or more",
        )


def _check_endpoint(endpoint: str) -> None:
    parts = urlsplit(endpoint)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise UsageError(
            "--otlp-traces-endpoint",
            f"{endpoint!r} is no HTTP URL; give one such as http://127.0.0.1:4318/v1/traces",
        )


def _failure_injection(environment: Mapping[str, str]) -> dict[str, float | int]:
    """The test settings that SGLang takes from the environment; a wrong one is refused, not ignored."""
    probability = _number(environment, FAILURE_PROB)
    seed = _number(environment, FAILURE_SEED)
    if not 0 <= probability <= 1:
        raise UsageError(FAILURE_PROB, f"{probability:g} is no probability; give 0 to 1")
    if seed < 0 or seed % 1:
        raise UsageError(FAILURE_SEED, f"{seed:g} is no seed; give a whole number of 0 or more")
    return {"test_disagg_failure_prob": probability, "test_disagg_failure_seed": int(seed)}


def _number(environment: Mapping[str, str], name: str) -> float:
    text = environment.get(name, "") or "0"
    try:
        return float(text)
    except ValueError:
        raise UsageError(name, f"{text!r} is no number; unset it, or give one") from None


def _parse_links(link_maps: list[str]) -> dict[str, str]:
    links: dict[str, str] = {}
    for text in link_maps:
        match = _LINK.fullmatch(text)
        if match is None or not all(0 < int(port) < 65_536 for port in match.group(3, 5)):
            raise UsageError(
                "--link-map",
                f"{text!r} is not KIND:HOST:PORT=HOST:PORT with KIND bootstrap, control or kv",
            )
        kind, host, port, via_host, via_port = match.groups()
        links[f"{kind}:{host}:{port}"] = f"{via_host}:{via_port}"
    return links

"""The ``severance serve`` and ``severance simulate`` commands."""

from __future__ import annotations

import argparse
import os
import sys

from engine.errors import UsageError
from engine.server.args import FAILURE_PROB, FAILURE_SEED, ServeArgs, make_serve_args
from engine.server.keys import ApiKeys
from engine.simulator.cli import add_simulate

EXIT_USAGE = 2
_DESCRIPTION = """\
Start one worker: an HTTP process and its scheduler process. Flags follow SGLang.

A unified worker serves alone. Prefill and decode workers serve in pairs behind a router in PD mode:
decode dials prefill's bootstrap and control ports, prefill dials decode's kv port."""
_EPILOG = f"""\
for tests, from the environment:
  {FAILURE_PROB}=P       each poll of a room fails with probability P, as in SGLang;
                                          /ledger and /metrics count the polls that did
  {FAILURE_SEED}=N    seed of these failures (0)"""


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Mount ``serve`` and ``simulate``."""
    add_simulate(commands)
    parser = commands.add_parser(
        "serve",
        help="start a worker (unified, prefill or decode)",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_serve_flags(parser)
    parser.set_defaults(run=run_serve)


def add_serve_flags(parser: argparse.ArgumentParser) -> None:
    """All flags of a worker; `serve_args` reads them back."""
    _add_http(parser.add_argument_group("HTTP"))
    _add_model(parser.add_argument_group("model"))
    _add_limits(parser.add_argument_group("memory and batching"))
    _add_aborts(parser.add_argument_group("aborts"))
    _add_disaggregation(parser.add_argument_group("disaggregation"))
    _add_observability(parser.add_argument_group("observability"))


def serve_args(namespace: argparse.Namespace) -> ServeArgs:
    """The checked settings of a parsed command line. Raises `UsageError`."""
    return make_serve_args(
        host=namespace.host,
        port=namespace.port,
        keys=ApiKeys(api_key=namespace.api_key, admin_api_key=namespace.admin_api_key),
        mode=namespace.disaggregation_mode,
        model_path=namespace.model_path,
        random_seed=namespace.random_seed,
        dtype=namespace.dtype,
        device=namespace.device,
        page_size=namespace.page_size,
        chunked_prefill_size=namespace.chunked_prefill_size,
        max_running_requests=namespace.max_running_requests,
        max_queued_requests=namespace.max_queued_requests,
        max_total_tokens=namespace.max_total_tokens,
        context_length=namespace.context_length,
        bootstrap_port=namespace.disaggregation_bootstrap_port,
        control_port=namespace.disaggregation_control_port,
        kv_port=namespace.disaggregation_kv_port,
        worker_name=namespace.worker_name,
        link_maps=namespace.link_map,
        bootstrap_timeout_s=namespace.disaggregation_bootstrap_timeout,
        transfer_timeout_s=namespace.disaggregation_transfer_timeout,
        peer_dead_after_s=namespace.peer_dead_after,
        otlp_traces_endpoint=namespace.otlp_traces_endpoint,
        request_waiting_timeout_s=namespace.request_waiting_timeout,
        request_running_timeout_s=namespace.request_running_timeout,
        abort_granularity=namespace.abort_granularity,
        optimistic_prefill_attempts=namespace.optimistic_prefill_attempts,
        log_level=namespace.log_level,
        environment=os.environ,
    )


def run_serve(namespace: argparse.Namespace) -> int:
    """Run a worker until it is stopped; returns the exit code."""
    try:
        args = serve_args(namespace)
    except UsageError as error:
        print(f"severance serve: {error}", file=sys.stderr)
        return EXIT_USAGE
    from engine.server.launch import serve

    return serve(args)


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65_535:
        raise argparse.ArgumentTypeError(f"{text!r} is no port; give 0 to 65535 (0: any free one)")
    return int(text)


def _add_http(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--host", default="127.0.0.1", help="address to listen on (%(default)s)")
    group.add_argument(
        "--port", type=_port, default=30_000, help="HTTP port, 0: any free one (%(default)s)"
    )
    group.add_argument(
        "--api-key",
        default=os.environ.get("SEVERANCE_API_KEY") or None,
        metavar="KEY",
        help="ask for this key (Authorization: Bearer KEY) on all but /health and /metrics; better set "
        "$SEVERANCE_API_KEY, which `ps` does not show (off)",
    )
    group.add_argument(
        "--admin-api-key",
        default=os.environ.get("SEVERANCE_ADMIN_API_KEY") or None,
        metavar="KEY",
        help="ask for this key where a call touches or shows the requests of others: /flush_cache, "
        "/pause_generation, /continue_generation, /ledger, /abort_request by prefix or for all; it opens "
        "the rest too; or $SEVERANCE_ADMIN_API_KEY (the API key, if that is set)",
    )
    group.add_argument("--worker-name", help="name in spans and metrics (u0, p0 or d0 by role)")


def _add_model(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--model-path",
        default="tiny",
        metavar="tiny|DIR",
        help="tiny: a small seeded model, nothing is downloaded; else a model directory (tiny)",
    )
    group.add_argument(
        "--random-seed", type=int, default=0, help="seed of the tiny model's weights (%(default)s)"
    )
    group.add_argument(
        "--dtype", choices=("float32", "bfloat16"), default="float32", help="(%(default)s)"
    )
    group.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="(%(default)s)")


def _add_limits(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--page-size", type=int, default=16, help="tokens a KV page (%(default)s)")
    group.add_argument(
        "--chunked-prefill-size",
        type=int,
        default=256,
        help="tokens a prefill chunk, a multiple of the page size (%(default)s)",
    )
    group.add_argument(
        "--max-running-requests", type=int, default=16, help="requests in a batch (%(default)s)"
    )
    group.add_argument(
        "--max-queued-requests",
        type=int,
        default=0,
        help="answer 503 beyond so many waiting requests, 0: no limit (%(default)s)",
    )
    group.add_argument(
        "--max-total-tokens", type=int, default=65_536, help="tokens in the KV pool (%(default)s)"
    )
    group.add_argument(
        "--context-length",
        type=int,
        default=0,
        help="prompt plus output of one request, 0: the whole pool (%(default)s)",
    )


def _add_aborts(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--abort-granularity",
        choices=("layer", "chunk"),
        default="layer",
        help="a forward whose requests were all aborted stops before its next layer, or runs to its "
        "end (%(default)s)",
    )
    group.add_argument(
        "--request-waiting-timeout",
        type=float,
        default=0.0,
        metavar="SECONDS",
        help="answer 504 to a request that has not begun to compute by then, 0: never (%(default)s)",
    )
    group.add_argument(
        "--request-running-timeout",
        type=float,
        default=0.0,
        metavar="SECONDS",
        help="answer 504 to a request that computes for so long, 0: never (%(default)s)",
    )


def _add_disaggregation(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--disaggregation-mode",
        choices=("unified", "null", "prefill", "decode"),
        default="unified",
        help="role of the worker; null is SGLang's name for unified (%(default)s)",
    )
    group.add_argument(
        "--disaggregation-bootstrap-port",
        type=_port,
        help="prefill: port of the HTTP rendezvous; decode: what a request without one means",
    )
    group.add_argument(
        "--disaggregation-control-port",
        type=_port,
        default=0,
        help="prefill: port of the control link, 0: any free one (%(default)s)",
    )
    group.add_argument(
        "--disaggregation-kv-port",
        type=_port,
        default=0,
        help="decode: port of the KV link, 0: any free one (%(default)s)",
    )
    group.add_argument(
        "--link-map",
        action="append",
        default=[],
        metavar="KIND:HOST:PORT=HOST:PORT",
        help="dial the right-hand address instead of the left-hand one (a proxy); KIND is bootstrap,"
        " control or kv; repeatable",
    )
    group.add_argument(
        "--disaggregation-bootstrap-timeout",
        type=float,
        default=5.0,
        metavar="SECONDS",
        help="give up on a handshake without progress (%(default)s)",
    )
    group.add_argument(
        "--disaggregation-transfer-timeout",
        type=float,
        default=10.0,
        metavar="SECONDS",
        help="give up on a KV transfer without progress (%(default)s)",
    )
    group.add_argument(
        "--optimistic-prefill-attempts",
        type=int,
        default=0,
        metavar="N",
        help="prefill: a request may begin to compute before its decode half is ready, so often; it "
        "starts again if its memory is needed for others meanwhile; 0: never (%(default)s)",
    )
    group.add_argument(
        "--peer-dead-after",
        type=float,
        default=1.5,
        metavar="SECONDS",
        help="a peer without a beat for so long is dead (%(default)s)",
    )


def _add_observability(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--otlp-traces-endpoint",
        metavar="URL",
        help="send spans there, e.g. http://127.0.0.1:4318/v1/traces (off)",
    )
    group.add_argument(
        "--log-level",
        choices=("debug", "info", "warning", "error"),
        default="info",
        help="(%(default)s)",
    )

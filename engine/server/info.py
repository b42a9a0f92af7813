"""What a worker says of itself: `/server_info`, `/model_info`, `/v1/models`, `/metrics`."""

from __future__ import annotations

from pathlib import Path

import msgspec
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.requests import Request
from starlette.responses import Response

from engine.server.args import ServeArgs
from engine.server.asgi import json_response
from engine.server.tokenizer_manager import TokenizerManager
from engine.telemetry.metrics import EngineMetrics


class ServerInfo(msgspec.Struct, frozen=True, kw_only=True):
    """SGLang's field names, so that its router can read them.

    ``model_path`` is empty unless it is a directory: the router looks up any other path on a model hub.
    """

    model_path: str
    served_model_name: str
    disaggregation_mode: str
    disaggregation_bootstrap_port: int
    tp_size: int
    dp_size: int
    page_size: int
    chunked_prefill_size: int
    max_running_requests: int
    max_queued_requests: int
    request_waiting_timeout: float
    request_running_timeout: float
    abort_granularity: str
    optimistic_prefill_attempts: int
    test_disagg_failure_prob: float
    test_disagg_failure_seed: int
    max_total_num_tokens: int
    context_length: int
    dtype: str
    device: str
    random_seed: int
    worker_name: str
    incarnation: str
    fingerprint: str
    control_endpoint: str
    ready: bool


class ModelInfo(msgspec.Struct, frozen=True, kw_only=True):
    """``model_path`` names the model; ``fingerprint`` tells two sets of weights apart."""

    model_path: str
    tokenizer_path: str
    is_generation: bool
    model_type: str
    vocab_size: int
    eos_token_id: int
    context_length: int
    fingerprint: str


class ModelCard(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    object: str = "model"
    owned_by: str = "severance"
    root: str
    max_model_len: int


class ModelList(msgspec.Struct, frozen=True, kw_only=True):
    """OpenAI's list of models."""

    object: str = "list"
    data: tuple[ModelCard, ...]


class InfoRoutes:
    """Read-only routes that ask the scheduler nothing, so they answer while it is busy."""

    def __init__(
        self, args: ServeArgs, incarnation: str, manager: TokenizerManager, metrics: EngineMetrics
    ) -> None:
        self._args = args
        self._incarnation = incarnation
        self._manager = manager
        self._metrics = metrics

    async def server_info(self, request: Request) -> Response:
        """Settings and identity of this worker; answers while the model is loading, too."""
        args, ready = self._args, self._manager.watch.ready
        info = ServerInfo(
            model_path=_directory(args.model_path),
            served_model_name=args.model_path,
            disaggregation_mode=args.mode,
            disaggregation_bootstrap_port=args.bootstrap_port,
            tp_size=1,
            dp_size=1,
            page_size=args.page_size,
            chunked_prefill_size=args.chunked_prefill_size,
            max_running_requests=args.max_running_requests,
            max_queued_requests=args.max_queued_requests,
            request_waiting_timeout=args.request_waiting_timeout_s,
            request_running_timeout=args.request_running_timeout_s,
            abort_granularity=args.abort_granularity,
            optimistic_prefill_attempts=args.optimistic_prefill_attempts,
            test_disagg_failure_prob=args.test_disagg_failure_prob,
            test_disagg_failure_seed=args.test_disagg_failure_seed,
            max_total_num_tokens=ready.num_pages * ready.page_size if ready else 0,
            context_length=ready.context_length if ready else args.context_length,
            dtype=args.dtype,
            device=args.device,
            random_seed=args.random_seed,
            worker_name=args.worker_name,
            incarnation=self._incarnation,
            fingerprint=ready.fingerprint if ready else "",
            control_endpoint=ready.control_endpoint if ready else "",
            ready=ready is not None,
        )
        return json_response(info)

    async def model_info(self, request: Request) -> Response:
        """The loaded model."""
        ready = self._manager.require_serving()
        info = ModelInfo(
            model_path=self._args.model_path,
            tokenizer_path=_directory(self._args.model_path),
            is_generation=True,
            model_type="llama",
            vocab_size=ready.vocab_size,
            eos_token_id=ready.eos_token_id,
            context_length=ready.context_length,
            fingerprint=ready.fingerprint,
        )
        return json_response(info)

    async def models(self, request: Request) -> Response:
        """OpenAI's ``/v1/models``."""
        ready = self._manager.require_serving()
        name = self._args.model_path
        card = ModelCard(id=name, root=name, max_model_len=ready.context_length)
        return json_response(ModelList(data=(card,)))

    async def metrics(self, request: Request) -> Response:
        """Prometheus text."""
        return Response(self._metrics.render(), headers={"content-type": CONTENT_TYPE_LATEST})


def _directory(model_path: str) -> str:
    return model_path if Path(model_path).is_dir() else ""

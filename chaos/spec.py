"""Structs of a scenario file: what to start, how to load it, what to break, what to expect.

Every field has a default except ``name``, so a file says only what matters. Times are seconds,
lengths are tokens. A file holds names and patterns (``kv:*``, ``d0``), never an address or a pid.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, field

from chaos.codes import CutMode, Direction, ProcessMode
from chaos.fault_spec import FaultSpec, LinkFaultSpec, ProcessFaultSpec
from chaos.spec_types import Count, LinkPattern, Natural, NonNegative, Part, Positive, Share

SCHEMA = "severance.scenario/1"


class WorkerSpec(Part, frozen=True, kw_only=True):
    """Flags of every worker (`severance serve`). ``nice``: below the load driver's priority."""

    model_path: str = "tiny"
    chunked_prefill_size: Count = 256
    page_size: Count = 16
    max_total_tokens: Count = 8192
    max_running_requests: Count = 16
    dtype: Literal["float32", "bfloat16"] = "float32"
    random_seed: int = 0
    bootstrap_timeout_s: Positive = 5.0
    peer_dead_after_s: Positive = 1.5
    nice: Annotated[int, Meta(ge=0, le=19)] = 5


class RouterSpec(Part, frozen=True, kw_only=True):
    """The SGLang router in front. ``circuit_breaker`` False: a worker that fails is still tried."""

    policy: Literal["random", "round_robin", "cache_aware", "power_of_two"] = "round_robin"
    retries: Natural = 0
    circuit_breaker: bool = False
    health_check_interval_s: Count = 1
    health_check_timeout_s: Count = 1
    health_failure_threshold: Count = 2
    health_success_threshold: Count = 1
    request_timeout_s: Count = 60


class DeploymentSpec(Part, frozen=True, kw_only=True):
    """``bypass``: links whose workers dial each other past the proxy, as a data path that the proxy
    does not see would (a fault there proves nothing and the run is invalid)."""

    prefill: Count = 1
    decode: Count = 1
    worker: WorkerSpec = WorkerSpec()
    router: RouterSpec = RouterSpec()
    bypass: tuple[LinkPattern, ...] = ()
    ready_within_s: Positive = 60.0


class ArrivalSpec(Part, frozen=True, kw_only=True):
    """``burstiness``: shape of the gamma; below 1 burstier than poisson, above 1 steadier."""

    pattern: Literal["poisson", "gamma", "constant"] = "gamma"
    burstiness: Positive = 4.0


class PromptSpec(Part, frozen=True, kw_only=True):
    isl_min: Count = 512
    isl_max: Count = 3000
    isl_mean: Count = 900


class OutputSpec(Part, frozen=True, kw_only=True):
    min: Count = 16
    max: Count = 64


class AbortMix(Part, frozen=True, kw_only=True, omit_defaults=True):
    """One way to give up: ``after_ms`` from the due time, or ``after_tokens`` received (a range).

    ``at``: a rid abort of one half alone, ``prefill`` or ``decode``; the other must hear of it from its peer.
    """

    kind: Literal["disconnect", "rid", "deadline"]
    weight: Positive = 1.0
    after_ms: tuple[NonNegative, NonNegative] | None = None
    after_tokens: tuple[Natural, Natural] | None = None
    at: Literal["all", "prefill", "decode"] = "all"


class AbortSpec(Part, frozen=True, kw_only=True):
    share: Share = 0.4
    mix: tuple[AbortMix, ...] = (
        AbortMix(kind="disconnect", after_ms=(30, 600)),
        AbortMix(kind="rid", after_ms=(30, 600)),
        AbortMix(kind="deadline", after_ms=(100, 900)),
    )


class LoadSpec(Part, frozen=True, kw_only=True):
    """``capacity_share``: share of the measured capacity that is asked for.

    ``max_request_rate``: requests a second that are not exceeded on a fast machine, so that a seed gives
    the same schedule on all that are fast enough.
    """

    max_request_rate: Positive | None = None
    capacity_share: Annotated[float, Meta(gt=0, le=0.95)] = 0.55
    duration_s: Positive = 38.0
    warmup_s: Positive = 4.0
    warmup_concurrency: Count = 10
    arrival: ArrivalSpec = ArrivalSpec()
    prompts: PromptSpec = PromptSpec()
    osl: OutputSpec = OutputSpec()
    aborts: AbortSpec = AbortSpec()
    request_timeout_s: Positive = 25.0


class SteadySpec(Part, frozen=True, kw_only=True):
    """A fault starts from an empty queue: at most ``max_waiting`` waiting, tried for ``within_s``."""

    max_waiting: Natural = 0
    within_s: NonNegative = 4.0


_EVERY_LINK: tuple[LinkPattern, ...] = ("*:*",)
_DRAWN: tuple[FaultSpec, ...] = (
    LinkFaultSpec(mode=CutMode.STALL, links=_EVERY_LINK, for_s=1),
    LinkFaultSpec(mode=CutMode.BLACKHOLE, links=_EVERY_LINK, for_s=1),
    LinkFaultSpec(mode=CutMode.REFUSE, links=_EVERY_LINK, for_s=1),
    LinkFaultSpec(mode=CutMode.RESET, links=_EVERY_LINK, for_s=1),
    LinkFaultSpec(mode=CutMode.ONE_WAY, links=_EVERY_LINK, for_s=1, direction=Direction.UP),
    LinkFaultSpec(mode=CutMode.ONE_WAY, links=_EVERY_LINK, for_s=1, direction=Direction.DOWN),
    ProcessFaultSpec(mode=ProcessMode.KILL, worker="d0"),
    ProcessFaultSpec(mode=ProcessMode.PAUSE, worker="d0", for_s=1),
)


class DrawSpec(Part, frozen=True, kw_only=True):
    """A method that is drawn from the scenario's seed: ``faults`` of those in ``of``, each on some of its
    links or on any worker, for a time within ``for_s``, at least ``apart_s`` after the heal before it."""

    faults: Count = 3
    of: Annotated[tuple[FaultSpec, ...], Meta(min_length=1)] = _DRAWN
    for_s: tuple[Positive, Positive] = (0.5, 3.0)
    first_at_s: NonNegative = 5.0
    apart_s: Positive = 6.0


class Step(Part, frozen=True, kw_only=True):
    """``at_s`` counts from the start of the load."""

    at_s: NonNegative
    fault: FaultSpec


class StuckRequest(Part, frozen=True, kw_only=True, tag_field="kind", tag="stuck_request"):
    """Trips when a request has been open for longer than this."""

    older_than_s: Positive = 20.0


class NoData(Part, frozen=True, kw_only=True, tag_field="kind", tag="no_data"):
    """Trips when the client history or a worker's ledger says nothing and no fault explains it."""

    for_s: Positive = 6.0


class SloGuard(Part, frozen=True, kw_only=True):
    """What the guards over clients' numbers have in common. A window with fewer than ``min_requests`` says
    nothing. A fault excuses what it silences, and for ``grace_s`` after it, unless ``judge_faults``."""

    min_requests: Count = 10
    judge_faults: bool = False
    grace_s: NonNegative = 5.0


class ErrorRate(SloGuard, frozen=True, kw_only=True, tag_field="kind", tag="error_rate"):
    """Trips when more than ``max_share`` of the requests of a window failed on the server's side."""

    max_share: Share = 0.5
    window_s: Positive = 5.0


class LatencyP99(SloGuard, frozen=True, kw_only=True, tag_field="kind", tag="latency_p99"):
    """Trips when the p99 of a window is over ``max_ms``, or else over ``times_baseline`` the p99 before
    the first fault. ``of`` itl: a request's mean gap between tokens."""

    of: Literal["ttft", "itl"] = "ttft"
    times_baseline: Positive = 10.0
    max_ms: Positive | None = None
    window_s: Positive = 5.0


class Goodput(SloGuard, frozen=True, kw_only=True, tag_field="kind", tag="goodput"):
    """Trips when fewer requests complete than ``min_share`` of the rate before the first fault."""

    min_share: Share = 0.2
    window_s: Positive = 5.0


class BurnRate(SloGuard, frozen=True, kw_only=True, tag_field="kind", tag="burn_rate"):
    """Trips when the error budget of ``objective`` burns more than ``max_rate`` times too fast in the long
    and in the short window."""

    objective: Annotated[float, Meta(gt=0, lt=1)] = 0.99
    max_rate: Positive = 14.4
    long_s: Positive = 20.0
    short_s: Positive = 4.0


class KvExhaustion(Part, frozen=True, kw_only=True, tag_field="kind", tag="kv_exhaustion"):
    """Trips when a worker has less than ``min_free_share`` of its KV pages free for ``for_s``."""

    min_free_share: Share = 0.02
    for_s: NonNegative = 5.0
    judge_faults: bool = False
    grace_s: NonNegative = 5.0


class Residue(Part, frozen=True, kw_only=True, tag_field="kind", tag="residue"):
    """Trips when a worker's own ledger reports more than ``max_broken`` broken laws or double frees."""

    max_broken: Natural = 0


GuardSpec = (
    StuckRequest | NoData | ErrorRate | LatencyP99 | Goodput | BurnRate | KvExhaustion | Residue
)


class Expect(Part, frozen=True, kw_only=True):
    """Limits that the oracle (and the runner's own waits) go by.

    ``min_*`` ask for evidence: so many requests exposed to each fault, so many client aborts in all, of
    each kind, and seen in each stage, such a share of a worker's KV pages once in use. 0 does not ask.
    ``min_bystanders``: so many requests that nothing touched must be no slower than ``bystander_factor``
    times this run's baseline. ``report_only``: checks that are shown and decide nothing, where the router
    retries or opens its breaker.
    """

    recovery_first_success_s: Positive = 5.0
    recovery_goodput_share: Share = 0.8
    recovery_window_s: Positive = 5.0
    min_exposed: Natural = 5
    control_requests: Natural = 12
    heal_ms: Positive = 4000.0
    abort_seen_ms: Positive = 2000.0
    abort_release_ms: Positive = 5000.0
    send_lag_p99_ms: Positive = 500.0
    min_aborts: Natural = 0
    min_per_kind: Natural = 0
    min_mid_chunk: Natural = 0
    min_transfer_or_bootstrap: Natural = 0
    min_decode: Natural = 0
    min_bystanders: Natural = 0
    min_pool_used: Share = 0.0
    report_only: tuple[
        Literal["late", "server_errors", "abort_spans", "recovery", "pairs_recover"], ...
    ] = ()
    bystander_factor: Annotated[float, Meta(ge=1)] = 1.5
    drain_within_s: Positive = 15.0
    probe_within_s: Positive = 30.0


class Scenario(Part, frozen=True, kw_only=True):
    """One scenario file. An empty ``method`` is a run without faults; ``draw`` makes one from the seed.

    ``variables``: values that the file uses as ``${name}`` (`chaos.variables`).
    """

    name: Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9._-]*$")]
    schema: Literal["severance.scenario/1"] = "severance.scenario/1"
    description: str = ""
    variables: dict[str, str | int | float | bool] = field(default_factory=dict)
    seed: Natural = 0
    deployment: DeploymentSpec = DeploymentSpec()
    load: LoadSpec = LoadSpec()
    steady_state: SteadySpec = SteadySpec()
    method: tuple[Step, ...] = ()
    draw: DrawSpec | None = None
    guards: tuple[GuardSpec, ...] = (StuckRequest(), NoData())
    expect: Expect = Expect()

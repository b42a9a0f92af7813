"""Names that faults declare: what they silence, and which abort reasons they explain.

The reasons repeat the engine's wire vocabulary (DESIGN 2.4); chaos reads it from spans and files and
imports nothing of the engine.
"""

from __future__ import annotations

from enum import StrEnum


class LinkKind(StrEnum):
    """The three TCP links between a prefill and a decode worker (DESIGN 2.1)."""

    BOOTSTRAP = "bootstrap"
    CONTROL = "control"
    KV = "kv"


class CutMode(StrEnum):
    """How a link is cut; the name carries what the heal does (DESIGN 4)."""

    STALL = "stall"
    BLACKHOLE = "blackhole"
    REFUSE = "refuse"
    RESET = "reset"
    ONE_WAY = "one_way"
    TRICKLE = "trickle"
    LATENCY = "latency"
    CUT_AFTER = "cut_after"
    FLAP = "flap"


class Direction(StrEnum):
    """Which bytes of a link. Decode dials ``bootstrap`` and ``control``, prefill dials ``kv``."""

    UP = "up"
    """From the worker that dials to the one that listens."""
    DOWN = "down"
    BOTH = "both"


class ProcessMode(StrEnum):
    """What happens to a worker process."""

    KILL = "kill"
    PAUSE = "pause"
    RESTART = "restart"
    SLOW = "slow"


class TelemetryMode(StrEnum):
    """What happens to the run's span store."""

    COLLECTOR_DOWN = "collector_down"
    COLLECTOR_STALL = "collector_stall"


class Lost(StrEnum):
    """What of the bytes sent while a link was cut never arrives, not even after the heal."""

    NOTHING = "nothing"
    IN_FLIGHT = "in flight"
    """What was on its way when the connection broke; the rest waits at its sender."""
    ALL = "all"


class AbortReason(StrEnum):
    """Server-side root causes that a fault may explain."""

    CLIENT_DISCONNECT = "client_disconnect"
    BOOTSTRAP_TIMEOUT = "bootstrap_timeout"
    PEER_DEAD = "peer_dead"
    TRANSFER_FAILED = "transfer_failed"
    TRANSFER_TIMEOUT = "transfer_timeout"
    SHUTDOWN = "shutdown"


class Signal(StrEnum):
    """Signals that a fault takes away, so that guards and checks do not judge by them."""

    GOODPUT = "goodput"
    ERRORS = "errors"
    LATENCY = "latency"
    KV = "kv"
    LEDGER = "ledger"
    SPANS = "spans"
    HEALTH = "health"


class HealRung(StrEnum):
    """Steps of the heal ladder, weakest first."""

    REMOVE_TOXICS = "remove_toxics"
    RECREATE_PROXY = "recreate_proxy"
    RESPAWN_SERVER = "respawn_server"
    RESTART_WORKER = "restart_worker"
    CONTINUE_PROCESS = "continue_process"
    RESTART_COLLECTOR = "restart_collector"
    RUN_ENDED = "run_ended"
    NONE = "none"


class ExitCode:
    """Exit codes of `severance run` and `severance check` (DESIGN 4)."""

    PASSED = 0
    FAILED = 1
    USAGE = 2
    HALTED = 3
    INVALID = 4
    RESIDUE = 5
    INTERRUPTED = 130

"""Actions for the Chaos Toolkit. ``target``: path of a target file; ``severance up`` writes one.

Plain types and no keyword-only arguments: its discovery reads the signatures.
"""

from chaos.answer import Answer
from chaos.ctk_session import pd_of
from chaos.held_fault import HeldFault
from chaos.pd import AT_MOST_S

__all__ = [
    "abort_request",
    "blackhole_links",
    "cut_links",
    "generate",
    "heal",
    "kill_worker",
    "pause_worker",
    "stall_links",
]


def cut_links(
    target: str,
    mode: str,
    links: str,
    at_most_s: float = AT_MOST_S,
    latency_ms: int = 0,
    jitter_ms: int = 0,
    direction: str = "",
    of: str = "",
    rate_kb_s: int = 0,
    after_bytes: int = 0,
    period_s: float = 0.0,
    duty: float = 0.0,
) -> str:
    """Cut links (names or patterns, with commas between) until `heal`; fails if the cut is not seen to bite.

    The settings are those of a scenario file; what is left at 0 or empty is not set.
    """
    held = pd_of(target).cut(
        mode,
        *(name.strip() for name in links.split(",")),
        at_most_s=at_most_s,
        latency_ms=latency_ms or None,
        jitter_ms=jitter_ms or None,
        direction=direction or None,
        of=of or None,
        rate_kb_s=rate_kb_s or None,
        after_bytes=after_bytes or None,
        period_s=period_s or None,
        duty=duty or None,
    )
    return _begin(held)


def stall_links(target: str, links: str, at_most_s: float = AT_MOST_S) -> str:
    """Bytes stop, nothing is lost, the connection survives; until `heal`."""
    return cut_links(target, "stall", links, at_most_s)


def blackhole_links(target: str, links: str, at_most_s: float = AT_MOST_S) -> str:
    """Bytes are acknowledged and lost; until `heal`, which closes the connections."""
    return cut_links(target, "blackhole", links, at_most_s)


def kill_worker(target: str, worker: str, at_most_s: float = AT_MOST_S) -> str:
    """Kill a worker by the command of the target file; `heal` starts it again."""
    return _begin(pd_of(target).kill(worker, at_most_s=at_most_s))


def pause_worker(target: str, worker: str, at_most_s: float = AT_MOST_S) -> str:
    """Stop every process of a worker (SIGSTOP) until `heal`."""
    return _begin(pd_of(target).pause(worker, at_most_s=at_most_s))


def generate(target: str, text: str, max_new_tokens: int = 16, within_s: float = 30.0) -> dict:  # type: ignore[type-arg]
    """One request through the router; its answer, whatever that is."""
    return as_dict(pd_of(target).generate(text, max_new_tokens, within_s=within_s))


def abort_request(target: str, rid: str) -> int:
    """Ask every worker to abort it; how many matched."""
    return pd_of(target).abort(rid)


def heal(target: str) -> bool:
    """End every fault, and see that requests complete again. For ``rollbacks``, and between two faults.

    Fails if something is left, and if a fault that was on proved nothing.
    """
    pd = pd_of(target)
    faults = pd.faults
    pd.mend()
    for fault in faults:
        fault.require_proven()
    return True


def as_dict(answer: Answer) -> dict[str, str | int | None]:
    return {
        "rid": answer.rid,
        "status": answer.status,
        "finish": answer.finish,
        "reason": answer.reason,
        "num_tokens": answer.num_tokens,
        "detail": answer.detail,
    }


def _begin(held: HeldFault) -> str:
    """Its proof so far, in words."""
    held.__enter__()
    return held.proof.text

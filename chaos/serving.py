"""Whether a deployment serves: a small request completes through the router and on every pair."""

from __future__ import annotations

from chaos.deployment import Deployment
from chaos.interrupt import Brake
from chaos.pairs import ask_pair, ask_router, make_ask

_ASK_WITHIN_S = 5.0


def wait_until_serving(deployment: Deployment, brake: Brake, within_s: float) -> str:
    """Returns "" once it serves, or after ``within_s`` what the last try failed with."""
    problem = ["not asked"]

    def serves() -> bool:
        problem[0] = why_not_serving(deployment)
        return not problem[0]

    brake.wait_for(serves, within_s, poll_s=0.2)
    return problem[0]


def why_not_serving(deployment: Deployment) -> str:
    """Asks the router, which knows its workers, then every pair, which know each other; "" if all answer."""
    ask = make_ask(8, seed=0)
    got = ask_router(deployment.router, ask, within_s=_ASK_WITHIN_S)
    if not got.ok:
        return f"router: {got.detail}"
    for pair in deployment.pairs:
        got = ask_pair(pair, make_ask(8, seed=0), within_s=_ASK_WITHIN_S)
        if not got.ok:
            return f"{pair}: {got.detail}"
    return ""

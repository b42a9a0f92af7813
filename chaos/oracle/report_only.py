"""Checks that a scenario wants reported, not judged: what a router's retries and open breaker decide.

A router that retries repeats a rid, takes its own time, and answers errors of its own while every worker
is well. Only these checks can be left to it, and only where it does retry or open its breaker; tokens,
books, single answers and proof of the faults are judged in every run.
"""

from __future__ import annotations

import msgspec

from chaos.oracle.plan import Plan
from chaos.verdict import CheckResult, CheckStatus

ROUTERS_OWN = frozenset({"late", "server_errors", "abort_spans", "recovery", "pairs_recover"})


def reported(plan: Plan, result: CheckResult) -> CheckResult:
    """The same result, or one that nothing follows from."""
    is_asked = result.id in plan.expect.report_only and result.id in ROUTERS_OWN
    if not is_asked or not _decides(plan) or result.status is CheckStatus.PASS:
        return result
    return msgspec.structs.replace(
        result,
        status=CheckStatus.REPORTED,
        observed=f"{result.status}, not judged here: {result.observed}",
    )


def _decides(plan: Plan) -> bool:
    router = plan.deployment.router
    return router.retries > 0 or router.circuit_breaker

"""Free KV pages of each worker over time, and every resource against its baseline."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from chaos.records import LedgerSample, ResourceCount, WorkerLedger
from chaos.verdict import LedgerSummary
from dashboards.report import svg
from dashboards.report.clock import RunClock
from dashboards.report.faults import FaultView
from dashboards.report.html import Child, Markup, el
from dashboards.report.parts import DASH, chip, note, number, row, section, table
from dashboards.report.svg import Scale

PAGES = "kv_pages"
HEIGHT = 120
MAX_POINTS = 1500
MAX_HOLDERS = 12
_HEADS = (
    "worker",
    "resource",
    "#total",
    "#baseline free",
    "#final free",
    "balance",
    "still held by",
)


def ledger_charts(
    samples: Sequence[LedgerSample],
    faults: Sequence[FaultView],
    judged: LedgerSummary | None,
    clock: RunClock,
) -> Markup:
    workers: dict[str, list[LedgerSample]] = defaultdict(list)
    for sample in samples:
        workers[sample.worker].append(sample)
    if not workers and judged is None:
        return section("Ledger", "ledger", note("No ledger sample was taken."))
    charts: list[Child] = []
    for worker, members in workers.items():
        charts += [el("h3", _heading(worker, members)), _chart(members, faults, clock)]
    return section("Ledger", "ledger", *charts, _balance(workers, judged))


def _heading(worker: str, samples: Sequence[LedgerSample]) -> str:
    role = next((one.ledger.role for one in samples if one.ledger), "no answer")
    return f"{worker} ({role}): free KV pages"


def _chart(samples: Sequence[LedgerSample], faults: Sequence[FaultView], clock: RunClock) -> Markup:
    times = [clock.wall(one.wall_ns) for one in samples]
    pools = [one.ledger.resources[PAGES] for one in samples if _pages(one) and one.ledger]
    if not pools:
        return note("This worker never answered with its pages.")
    top = max(pool.total for pool in pools)
    scale = svg.time_scale(min(times), max(times))
    height = Scale(0, top, HEIGHT - 4, 8)
    shapes = [
        svg.rect(*_band(fault, scale), "shade", fault.id)
        for fault in faults
        if _within(fault, scale)
    ]
    shapes += svg.time_axis(scale, 4, HEIGHT)
    shapes.append(svg.line(svg.LEFT, height(top), svg.WIDTH - svg.RIGHT, height(top), "total"))
    shapes += [svg.lane_label(height(top) + 4, f"{top:,} pages"), svg.lane_label(HEIGHT - 2, "0")]
    shapes += [svg.path(_steps(part, scale, height, clock), "free") for part in _runs(samples)]
    shapes += _silences(samples, scale, clock)
    return svg.figure(HEIGHT + 20, "Free KV pages over time", shapes)


def _pages(sample: LedgerSample) -> ResourceCount | None:
    return sample.ledger.resources.get(PAGES) if sample.ledger else None


def _runs(samples: Sequence[LedgerSample]) -> list[list[LedgerSample]]:
    """Split where a worker was silent or came back as another incarnation: no line across."""
    runs: list[list[LedgerSample]] = []
    before = ""
    for sample in samples:
        now = sample.ledger.incarnation if sample.ledger and _pages(sample) else ""
        if now and now != before:
            runs.append([])
        if now:
            runs[-1].append(sample)
        before = now
    return [_thin(run) for run in runs]


def _thin(run: list[LedgerSample]) -> list[LedgerSample]:
    """Keep changes alone; past `MAX_POINTS` of them, every n-th and the last."""
    kept = [
        one
        for index, one in enumerate(run)
        if index in (0, len(run) - 1) or _pages(one) != _pages(run[index - 1])
    ]
    step = -(-len(kept) // MAX_POINTS)
    return kept if step <= 1 else [*kept[::step], kept[-1]]


def _steps(
    run: Sequence[LedgerSample], scale: Scale, height: Scale, clock: RunClock
) -> list[tuple[float, float]]:
    points: list[tuple[float, float]] = []
    for sample in run:
        pages = _pages(sample)
        if pages is not None:
            x, y = scale(clock.wall(sample.wall_ns)), height(pages.free)
            points += [(x, points[-1][1]), (x, y)] if points else [(x, y)]
    return points


def _silences(samples: Sequence[LedgerSample], scale: Scale, clock: RunClock) -> list[Markup]:
    return [
        svg.line(x, HEIGHT - 10, x, HEIGHT, "tickmark failed", f"no answer: {one.error}")
        for one in samples
        if one.error is not None
        for x in (scale(clock.wall(one.wall_ns)),)
    ]


def _within(fault: FaultView, scale: Scale) -> bool:
    if fault.start_s is None or fault.start_s > scale.high:
        return False
    return fault.end_s is None or fault.end_s >= scale.low


def _band(fault: FaultView, scale: Scale) -> tuple[float, float, float, float]:
    left = scale(scale.low if fault.start_s is None else fault.start_s)
    right = scale(scale.high if fault.end_s is None else fault.end_s)
    return left, 4.0, max(1.0, right - left), HEIGHT - 4.0


def _balance(workers: dict[str, list[LedgerSample]], judged: LedgerSummary | None) -> Markup | None:
    rows = []
    for worker in dict.fromkeys((*workers, *(judged.workers if judged else ()))):
        samples = [one for one in workers.get(worker, []) if one.ledger]
        baseline = judged.baseline.get(worker, {}) if judged else _free(samples, "baseline")
        final = judged.workers.get(worker, {}) if judged else _free(samples, "final")
        for resource in dict.fromkeys((*baseline, *final)):
            rows.append(_balance_row(worker, resource, samples, baseline, final))
    if not rows:
        return note("No baseline or final sample, so the balance is not known.")
    return table(_HEADS, rows)


def _free(samples: Sequence[LedgerSample], phase: str) -> dict[str, int]:
    counts: dict[str, int] = {}
    for sample in samples:
        if sample.phase == phase and sample.ledger:
            counts = {name: count.free for name, count in sample.ledger.resources.items()}
    return counts


def _balance_row(
    worker: str,
    resource: str,
    samples: Sequence[LedgerSample],
    baseline: dict[str, int],
    final: dict[str, int],
) -> Markup:
    last = samples[-1].ledger if samples else None
    count = last.resources.get(resource) if last else None
    before, after = baseline.get(resource), final.get(resource)
    return row(
        el("td", worker, class_="name"),
        resource,
        number(f"{count.total:,}" if count else DASH),
        number(DASH if before is None else f"{before:,}"),
        number(DASH if after is None else f"{after:,}"),
        _difference(before, after),
        _holders(last, resource) if last and before != after else None,
    )


def _difference(before: int | None, after: int | None) -> Markup:
    if before is None or after is None:
        return chip("not known", "mute")
    if before == after:
        return chip("at baseline", "good")
    return chip(
        f"{before - after:,} missing" if after < before else f"{after - before:,} too many", "bad"
    )


def _holders(ledger: WorkerLedger, resource: str) -> str:
    owners = [f"{one.owner} ({one.count})" for one in ledger.holders if one.resource == resource]
    more = f" and {len(owners) - MAX_HOLDERS} more" if len(owners) > MAX_HOLDERS else ""
    return ", ".join(owners[:MAX_HOLDERS]) + more

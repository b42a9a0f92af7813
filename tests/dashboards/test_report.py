"""The page, parsed as a browser would: what must be on it, what must not get through."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path

import msgspec
import pytest

from chaos.records import EventKind, LedgerSample
from chaos.verdict import CheckStatus, RunStatus
from dashboards.errors import RunNotFound
from dashboards.report.page import write_report
from dashboards.report.span_tree import place
from dashboards.spans import Span
from loadtest.history import End, Outcome, Sent

HOSTILE = """</script></style><script>alert(1)</script><img src=x onerror=alert(2)>"'&<!--"""
VOID = {"meta", "br", "input"}
LOADS = {"src", "srcset", "action", "formaction", "poster", "background", "xlink:href"}


@dataclass
class Page(HTMLParser):
    """Checks nesting while it reads, and keeps what tests ask for."""

    text: list[str] = field(default_factory=list)
    ids: set[str] = field(default_factory=set)
    tags: dict[str, int] = field(default_factory=dict)
    rids: dict[str, list[str]] = field(default_factory=dict)
    links: list[str] = field(default_factory=list)
    attributes: set[str] = field(default_factory=set)
    scripts: list[str] = field(default_factory=list)
    rows: list[tuple[str, str]] = field(default_factory=list)
    _open: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] = self.tags.get(tag, 0) + 1
        values = {key: value or "" for key, value in attrs}
        self.attributes |= values.keys()
        if "id" in values:
            assert values["id"] not in self.ids, f"id {values['id']} twice"
            self.ids.add(values["id"])
        if "data-rid" in values:
            self.rids.setdefault(tag, []).append(values["data-rid"])
        if tag == "a":
            self.links.append(values["href"])
        if tag == "tr":
            self.rows.append((values.get("class", ""), ""))
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open, f"</{tag}> closes nothing"
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "script" in self._open:
            self.scripts.append(data)
            return
        if "style" in self._open:
            return
        self.text.append(data)
        if self.rows and "tr" in self._open:
            kind, seen = self.rows[-1]
            self.rows[-1] = (kind, f"{seen} {data}")

    @property
    def words(self) -> str:
        return " ".join(" ".join(self.text).split())


def parse(path: Path) -> Page:
    page = Page()
    page.feed(path.read_text("utf-8"))
    page.close()
    assert page._open == []
    return page


def test_every_bad_request_and_every_check_is_there(builder) -> None:
    run = builder.complete()
    path = write_report(run)
    assert path == run / "report.html"
    page = parse(path)
    ends = {one.rid: one.outcome for one in builder.history if isinstance(one, End)}
    sent = {one.rid for one in builder.history if isinstance(one, Sent)}
    bad = {rid for rid in sent if ends.get(rid) is not Outcome.COMPLETED}
    assert len(bad) > 40
    in_table = [text for kind, text in page.rows if kind == "abort"]
    assert len(in_table) == len(bad)
    assert all(any(rid in text for text in in_table) for rid in bad)
    assert bad <= set(page.rids["details"])  # a waterfall each
    completed = set(page.rids["details"]) - bad
    assert 3 <= len(completed) <= 15
    for check in builder.checks():
        (row,) = [text for _, text in page.rows if text.split()[:1] == [check.id]]
        assert check.status.value in row
        assert check.observed in row
        assert check.expected in row
    order = [kind.split()[1] for kind, _ in page.rows if kind.startswith("check")]
    assert order == ["fail", "fail", "unknown", "unobservable", "pass", "pass"]


def test_verdict_first(builder) -> None:
    words = parse(write_report(builder.complete())).words
    head = words[: words.index("Checks")]
    assert "failed" in head
    assert "12 KV pages of p0 were never released" in head
    assert "exit code 1" in head
    assert words.index("exit code 1") < words.index("Time line") < words.index("Ledger")


def test_abort_row_has_what_each_side_saw(builder) -> None:
    page = parse(write_report(builder.complete()))
    row = next(text for kind, text in page.rows if kind == "abort" and "load-7-0008" in text)
    (fact,) = [one for one in builder.aborts if one.rid == "load-7-0008"]
    for part in ("disconnect", "client_disconnect", "prefill running", "decode running", "256 + 3"):
        assert part in row
    assert f"{fact.act_to_seen_ms:.2f}" in row
    assert "prefill 2.50" in row
    assert "decode 0.40" in row


def test_server_abort_times_come_from_spans(builder) -> None:
    """No abort row exists for those: stages and release times are read from the abort spans."""
    page = parse(write_report(builder.complete()))
    rows = [text for kind, text in page.rows if kind == "abort" and "aborted_server" in text]
    assert rows
    for text in rows:
        assert "peer_dead" in text
        assert "prefill 2.25" in text
        assert "decode 2.25" in text


def test_waterfall_data(builder) -> None:
    page = parse(write_report(builder.complete()))
    (data,) = [json.loads(text) for text in page.scripts if text.startswith('{"texts"')]
    texts = data["texts"]
    index = page.rids["details"].index("load-7-0039")  # aborted by the server while f1 was on
    shown = [(row[0], texts[row[1]], texts[row[2]]) for row in data["requests"][index]["rows"]]
    assert shown[:3] == [
        (0, "request", "load"),
        (1, "request", "prefill"),
        (2, "tokenize", "prefill"),
    ]
    assert (2, "abort", "decode") in shown
    assert (3, "kv.release", "decode") in shown
    abort = next(row for row in data["requests"][index]["rows"] if texts[row[1]] == "abort")
    pairs = [texts[number] for number in abort[7]]
    assert pairs[pairs.index("caused by fault") + 1] == "f1"
    assert pairs[pairs.index("pd.abort.reason") + 1] == "peer_dead"


def test_links_lead_somewhere(builder) -> None:
    page = parse(write_report(builder.complete()))
    inside = [link for link in page.links if not link.startswith("#w-")]
    assert all(link.startswith("#") and link[1:] in page.ids for link in inside)
    linked = {link[1:] for link in page.links if link.startswith("#w-")}
    assert linked <= page.ids


def test_self_contained_and_small(builder) -> None:
    path = write_report(builder.complete())
    page = parse(path)
    assert not page.attributes & LOADS
    assert not page.tags.keys() & {"link", "img", "iframe", "object", "embed", "base", "form"}
    text = path.read_text("utf-8")
    assert "http://" not in text
    assert "https://" not in text
    assert "@import" not in text
    assert path.stat().st_size < 500_000


def test_hostile_text_stays_text(builder) -> None:
    plain = parse(write_report(builder.complete()))
    builder.hostile = HOSTILE
    builder.history.clear(), builder.aborts.clear(), builder.spans.clear()
    (builder.path / "spans.sqlite").unlink()
    builder.complete()
    builder.verdict(reason=HOSTILE, scenario=HOSTILE, residue=(HOSTILE,))
    page = parse(write_report(builder.path))
    assert page.tags["script"] == plain.tags["script"] == 2
    assert "img" not in page.tags
    assert "onerror" not in page.attributes
    assert page.words.count("<script>alert(1)</script>") >= 4
    data = next(text for text in page.scripts if text.startswith('{"texts"'))
    assert HOSTILE in json.loads(data)["texts"]
    assert "<" not in data


def test_hostile_rid(builder) -> None:
    rid = '"><script>alert(1)</script> \u2028 50%20'
    builder.run_info()
    builder.request(8, 1.0)
    builder.history = [msgspec.structs.replace(one, rid=rid) for one in builder.history]
    builder.lines("history.jsonl", builder.history)
    page = parse(write_report(builder.path))
    assert page.rids["details"] == [rid]
    assert page.tags["script"] == 2
    assert {link for link in page.links if link.startswith("#w-")} == {
        "#w-%22%3E%3Cscript%3Ealert%281%29%3C%2Fscript%3E%20%E2%80%A8%2050%2520"
    }


# Partial runs ---------------------------------------------------------------------------------

FILES = (
    "run.json",
    "verdict.json",
    "history.jsonl",
    "aborts.jsonl",
    "faults.jsonl",
    "ledger.jsonl",
    "events.jsonl",
    "spans.sqlite",
)


@pytest.mark.parametrize("name", FILES)
def test_one_file_missing_is_said_and_the_rest_is_shown(builder, name: str) -> None:
    (builder.complete() / name).unlink()
    words = parse(write_report(builder.path)).words
    assert f"{name} missing: without it, no " in words
    assert "load-7-0008" in words


@pytest.mark.parametrize("name", FILES)
def test_one_file_alone(builder, name: str) -> None:
    run = builder.complete()
    for other in FILES:
        if other != name:
            (run / other).unlink()
    if name == "aborts.jsonl":
        with pytest.raises(RunNotFound, match="not a run directory"):
            write_report(run)
        return
    words = parse(write_report(run)).words
    assert words.count("missing: without it, no") == len(FILES) - 1


@pytest.mark.parametrize("name", FILES)
def test_one_file_broken(builder, name: str) -> None:
    (builder.complete() / name).write_bytes(b'{"broken": \n "x\n' * 60)
    words = parse(write_report(builder.path)).words
    assert f"{name} cannot be read" in words


def test_not_judged_says_how_to(builder) -> None:
    builder.complete()
    (builder.path / "verdict.json").unlink()
    words = parse(write_report(builder.path)).words
    assert "not judged" in words
    assert f"severance check {builder.path}" in words


def test_run_cut_short(builder) -> None:
    """Killed in the middle of a fault: torn last lines, a fault never healed, requests without an end."""
    builder.run_info(finished=False)
    for index in range(20):
        builder.request(index, index * 0.5)
    builder.history = [one for one in builder.history if isinstance(one, Sent)]
    builder.lines("history.jsonl", builder.history)
    with (builder.path / "history.jsonl").open("ab") as file:
        file.write(b'{"event":"end","rid":"load-7-00')
    builder.faults(healed=False)
    page = parse(write_report(builder.path))
    assert "cut short before its end" in page.words
    assert "Hung, sent and never ended: 20." in page.words
    assert "not healed: verified" in page.words
    assert page.words.count("hung: sent") == 0  # that is in the waterfall data, drawn when opened
    assert len(page.rids["details"]) == 20


def test_interrupted_and_halted(builder) -> None:
    builder.run_info(finished=False, interrupted=True, halted_by="stuck_requests")
    builder.verdict(status=RunStatus.HALTED, checks=(), reason="")
    words = parse(write_report(builder.path)).words
    assert "The run was interrupted (halted by stuck_requests)" in words
    assert "A guard stopped the run." in words
    assert "The verdict holds no checks." in words


def test_spans_alone_give_requests(builder) -> None:
    builder.requests()
    (builder.path / "history.jsonl").unlink()
    (builder.path / "aborts.jsonl").unlink()
    page = parse(write_report(builder.path))
    assert "load-7-0039" in page.rids["details"]
    row = next(text for kind, text in page.rows if kind == "abort" and "load-7-0039" in text)
    assert "peer_dead" in row


def test_killed_workers_last_spans_are_orphans(builder) -> None:
    builder.run_info()
    builder.request(8, 1.0)
    builder.lines("history.jsonl", builder.history)
    role = next(
        one for one in builder.spans if one.name == "request" and one.service.endswith("decode")
    )
    builder.spans.remove(role)
    builder.write_spans()
    page = parse(write_report(builder.path))
    data = next(json.loads(text) for text in page.scripts if text.startswith('{"texts"'))
    orphans = [row for row in data["requests"][0]["rows"] if row[6]]
    assert [data["texts"][row[1]] for row in orphans] == ["abort"]
    assert len(data["requests"][0]["rows"]) == len(builder.spans)


def test_requests_disagree_with_the_verdict(builder) -> None:
    builder.complete()
    verdict = builder.verdict()
    counts = msgspec.structs.replace(verdict.requests, total=999)
    builder.verdict(requests=counts)
    words = parse(write_report(builder.path)).words
    assert "The verdict counts 999 requests, the history holds 120." in words


def test_fault_table(builder) -> None:
    page = parse(write_report(builder.complete()))
    rows = {
        text.split()[0]: text
        for _, text in page.rows
        if text.split()[:1] in (["f1"], ["f2"], ["f3"])
    }
    assert " proven " in rows["f1"]
    assert " not proven " in rows["f2"]
    for part in (
        "stall kv:p0-d0 + control:p0-d0",
        "10.0",
        "3.0",
        "remove_toxics",
        "18.4",
        "412",
        "93%",
        "11",
    ):
        assert part in rows["f1"]
    assert "load-7-0039 peer_dead" in " ".join(rows["f1"].split())  # whom it hurt


def test_ledger_table_names_the_leak(builder) -> None:
    page = parse(write_report(builder.complete()))
    row = next(text for _, text in page.rows if text.split()[:2] == ["p0", "kv_pages"])
    assert "12 missing" in row
    assert "load-7-0008 (12)" in row
    assert "at baseline" in next(
        text for _, text in page.rows if text.split()[:2] == ["d0", "kv_pages"]
    )


def test_ledger_without_verdict_uses_its_own_samples(builder) -> None:
    builder.complete()
    (builder.path / "verdict.json").unlink()
    page = parse(write_report(builder.path))
    row = next(text for _, text in page.rows if text.split()[:2] == ["p0", "kv_pages"])
    assert "12 missing" in row


def test_worker_that_never_answered(builder) -> None:
    builder.run_info()
    sample = LedgerSample(
        phase="load",
        worker="d9",
        at_ns=builder.mono(1),
        wall_ns=builder.wall(1),
        host="node-a",
        run_id="r",
        error="refused",
    )
    builder.lines("ledger.jsonl", [sample])
    assert "d9 (no answer)" in parse(write_report(builder.path)).words


def test_guard_that_tripped_is_in_words(builder) -> None:
    page = parse(write_report(builder.complete()))
    row = next(text for _, text in page.rows if "guard stuck_requests" in text)
    assert "not ok" in row
    assert "12.0" in row
    assert "6.2" in row


def test_load_driver_on_another_host_keeps_its_own_clock(builder) -> None:
    """Its monotonic zero is elsewhere: the wall time that came with each record places it."""
    builder.run_info()
    builder.request(8, 2.0)
    shift = 987_654_321_000_000

    def moved(one: Sent | End) -> Sent | End:
        names = [
            name for name in one.__struct_fields__ if name.endswith("_ns") and name != "wall_ns"
        ]
        values = {name: getattr(one, name) for name in names}
        there = {name: value + shift for name, value in values.items() if value is not None}
        if isinstance(one, Sent):
            return msgspec.structs.replace(one, host="load-host", **there)
        abort = msgspec.structs.replace(one.abort, fired_ns=one.abort.fired_ns + shift)
        return msgspec.structs.replace(one, abort=abort, **there)

    builder.lines("history.jsonl", [moved(one) for one in builder.history])
    builder.lines("events.jsonl", [builder.event(EventKind.PHASE, "load", 0.0)])
    page = parse(write_report(builder.path))
    (row,) = [text for kind, text in page.rows if kind == "abort"]
    assert 2.0 < float(row.split()[0]) < 3.0


def test_many_requests_stay_cheap(builder) -> None:
    builder.count = 700
    path = write_report(builder.complete())
    assert path.stat().st_size < 2_000_000
    assert len(parse(path).rids["details"]) > 200


def test_all_passed(builder) -> None:
    builder.complete()
    passed = tuple(one for one in builder.checks() if one.status is CheckStatus.PASS)
    builder.verdict(status=RunStatus.PASSED, checks=passed, reason="")
    words = parse(write_report(builder.path)).words
    assert "Every check passed." in words
    assert "2 pass" in words


def span(number: int, parent: int | None, start: int = 0) -> Span:
    return Span(
        trace_id="1" * 32,
        span_id=f"{number:016x}",
        parent_span_id="" if parent is None else f"{parent:016x}",
        name="n",
        kind="internal",
        service="s",
        instance="",
        start_ns=start,
        end_ns=start + 10,
        status="unset",
        status_message="",
        attributes={},
        resource={},
    )


def test_place_keeps_every_span_of_rings_and_chains() -> None:
    ring = [span(1, 2), span(2, 1), span(3, 3)]
    assert sorted(one.span.span_id for one in place(ring)) == [
        f"{number:016x}" for number in (1, 2, 3)
    ]
    chain = [span(number, number - 1 if number > 1 else None) for number in range(1, 3000)]
    placed = place(chain)
    assert len(placed) == 2999
    assert placed[0].depth == 0
    assert max(one.depth for one in placed) == 12


# In a real browser ------------------------------------------------------------------------------

CHROMIUM = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--virtual-time-budget=2000",
)
CLICKS = """<script>
window.addEventListener("error", (event) => document.body.dataset.error = event.message);
document.querySelector('#aborts a[data-rid="load-7-0039"]').click();
[...document.querySelectorAll(".span")].find((row) => row.textContent.startsWith("abort")).click();
const filter = document.querySelector("input[data-filter]");
filter.value = "peer_dead"; filter.dispatchEvent(new Event("input"));
document.querySelectorAll("table.sortable th")[6].click();
</script>"""


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium here")
def test_in_a_browser(builder, tmp_path: Path) -> None:
    """Open a waterfall, its attributes, filter and sort; the waterfalls nobody opened stay undrawn."""
    builder.hostile = HOSTILE
    report = write_report(builder.complete())
    tried = tmp_path / "tried.html"
    tried.write_text(report.read_text("utf-8").replace("</body>", f"{CLICKS}</body>"), "utf-8")
    done = subprocess.run(
        [CHROMIUM, *FLAGS, f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", tried.as_uri()],
        capture_output=True,
        text=True,
        timeout=45,
        check=True,
    )
    dom = done.stdout
    assert "<body>" in dom  # no data-error
    assert dom.count('<div class="waterfall"></div>') == dom.count('<div class="waterfall">') - 1
    assert '<dl class="attributes">' in dom
    assert "<dt>caused by fault</dt><dd>f1</dd>" in dom
    assert "&lt;img src=x onerror=alert(2)&gt;" in dom
    assert "<img" not in dom
    assert dom.count('<tr class="abort" hidden="">') > 30
    assert 'aria-sort="ascending"' in dom

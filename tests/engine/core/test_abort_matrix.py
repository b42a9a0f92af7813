"""Every cell of the abort matrix comes about, and does what the table says."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.core.abort_matrix import (
    CAUSES,
    NEWS_NS,
    PLACES,
    Cell,
    Told,
    cells,
    may_pair,
    render,
)
from engine.core.codes import AbortOrigin, AbortReason, AbortVia, Stage, http_status
from engine.core.io_struct import AbortInfo
from engine.core.ledger import Resource
from engine.server.answers import abort_error
from tests.engine.core.scene import HITS_BOTH, ROOM, Scene, num_kv_pages
from tests.engine.core.test_abort_paths import assert_clean

DOC = Path(__file__).resolve().parents[3] / "docs" / "abort-matrix.md"
ALL = list(cells())


def name_of(cell: Cell) -> str:
    kind = "-optimistic" if cell.place.optimistic else ""
    return f"{cell.place.role}-{cell.place.stage}{kind}-{cell.cause.name}"


@pytest.mark.parametrize("cell", ALL, ids=name_of)
def test_cell(cell: Cell) -> None:
    scene = Scene(cell)
    scene.reach()
    before = scene.held
    is_refused = cell.place.stage is Stage.QUEUE or cell.cause.name == "room_in_use"
    if not is_refused:
        assert set(cell.place.holds) <= set(before) <= {*cell.place.holds, *cell.place.may_hold}
        assert (scene.worker.core.rooms.get(ROOM) is not None) is cell.place.has_room

    info = scene.strike()

    # the codes, in the answer and on the spans
    cause = cell.cause
    assert (info.stage, info.via) == (cell.place.stage, cause.via)
    assert info.reason is (cause.reason or AbortReason.SHUTDOWN)
    assert cause.origin in (None, info.origin)
    assert cause.status in (None, http_status(info.reason, info.origin))
    error = abort_error(info, "a")
    assert (error is None) is (http_status(info.reason, info.origin) == 200)
    (answer,) = scene.worker.answers("a")
    assert answer.trace is not None
    assert answer.trace.abort == info
    # released
    assert set(scene.held) <= {Resource.STAGING_PAGES}
    released = [s for s in answer.trace.spans if s.name == "kv.release"]
    assert [span.attributes["pd.pages"] for span in released] == [num_kv_pages(before)]
    assert (scene.worker.core.rooms.get(ROOM) is None) is (cause.name != "room_in_use")
    # told
    notices = [s for s in answer.trace.spans if s.name == "abort.notify_peer"]
    is_told = cell.told is Told.AT_ONCE
    assert (scene.num_told, len(notices)) == (is_told, is_told)

    scene.settle()
    _check_other_half(scene)
    for worker in {scene.worker, scene.other, *scene.pair.workers} - {None}:
        assert worker is not None
        if worker in scene.pair.workers or scene.other is None:
            assert_clean(worker)


def _check_other_half(scene: Scene) -> None:
    (mine,) = scene.worker.answers("a")
    answers = scene.other.answers("a") if scene.other is not None else []
    finish = answers[0].finish if answers else None
    abort = finish.abort if finish is not None else None
    if abort is not None and mine.finish is not None and mine.finish.abort is not None:
        info = mine.finish.abort
        link_broke = scene.cause.name in HITS_BOTH
        assert may_pair(info, abort, link_broke=link_broke)
        if scene.is_told_itself():
            assert (abort.reason, abort.via) == (info.reason, AbortVia.PEER)
    elif scene.is_told_itself() and scene.cell.place.stage is not Stage.QUEUE:
        raise AssertionError("the other half never heard of it")


def test_each_reason_has_a_cause_and_each_place_its_aborts() -> None:
    assert {cause.reason for cause in CAUSES} - {None} == set(AbortReason)
    reached = {(cell.place.role, cell.place.stage) for cell in ALL}
    assert reached == {(place.role, place.stage) for place in PLACES}


def info_of(reason: AbortReason, via: AbortVia, at_ns: int = 0) -> AbortInfo:
    return AbortInfo(
        reason=reason,
        origin=AbortOrigin.SERVER,
        via=via,
        stage=Stage.QUEUE,
        message="",
        received_ns=at_ns,
        released_ns=at_ns,
    )


@pytest.mark.parametrize(
    ("vias", "reasons", "apart_ns", "link_broke", "may"),
    [
        ("pp", (AbortReason.SHUTDOWN, AbortReason.SHUTDOWN), 0, False, False),
        ("pl", (AbortReason.SHUTDOWN, AbortReason.SHUTDOWN), 0, False, True),
        ("pl", (AbortReason.SHUTDOWN, AbortReason.PEER_DEAD), 0, True, False),
        ("ll", (AbortReason.SHUTDOWN, AbortReason.PEER_DEAD), NEWS_NS - 1, False, True),
        ("ll", (AbortReason.SHUTDOWN, AbortReason.PEER_DEAD), NEWS_NS, False, False),
        ("ll", (AbortReason.SHUTDOWN, AbortReason.SHUTDOWN), NEWS_NS, False, True),
        ("ll", (AbortReason.QUEUE_FULL, AbortReason.CLIENT_DISCONNECT), NEWS_NS, False, True),
        ("ll", (AbortReason.QUEUE_FULL, AbortReason.BOOTSTRAP_TIMEOUT), NEWS_NS, True, True),
    ],
)
def test_pairs(
    vias: str, reasons: tuple[AbortReason, AbortReason], apart_ns: int, link_broke: bool, may: bool
) -> None:
    via = {"p": AbortVia.PEER, "l": AbortVia.LOCAL}
    one = info_of(reasons[0], via[vias[0]])
    other = info_of(reasons[1], via[vias[1]], apart_ns)
    assert may_pair(one, other, link_broke=link_broke) is may
    assert may_pair(other, one, link_broke=link_broke) is may


def test_the_page_is_up_to_date() -> None:
    """If this fails: python -m engine.core.abort_matrix > docs/abort-matrix.md"""
    assert DOC.read_text() == render()

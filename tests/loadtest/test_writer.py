"""The history file survives its writer, and a disk that is full is an error."""

from __future__ import annotations

from pathlib import Path

import pytest

from loadtest.errors import HistoryError
from loadtest.history import End, Outcome, read_history
from loadtest.writer import HistoryWriter


def end(rid: str) -> End:
    return End(
        rid=rid,
        headers_ns=None,
        first_ns=None,
        last_ns=None,
        end_ns=1,
        osl=0,
        outcome=Outcome.COMPLETED,
        status=None,
        finish_reason=None,
        text_sha256=None,
        abort=None,
    )


def test_each_record_is_in_the_file_when_write_returns(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    with HistoryWriter(path) as writer:
        for count in range(1, 4):
            writer.write(end(str(count)))
            assert len(read_history(path)) == count


def test_appends_and_cuts_a_torn_line(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    with HistoryWriter(path) as writer:
        writer.write(end("a"))
    with path.open("ab") as file:
        file.write(b'{"event":"end","rid":"to')
    with HistoryWriter(path) as writer:
        writer.write(end("b"))
    assert [record.rid for record in read_history(path)] == ["a", "b"]


def test_full_disk() -> None:
    with HistoryWriter(Path("/dev/full")) as writer, pytest.raises(HistoryError, match="No space"):
        writer.write(end("a"))


def test_unwritable_place(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match="choose another --out"):
        HistoryWriter(tmp_path / "missing" / "history.jsonl")

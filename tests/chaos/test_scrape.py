"""Presets on recorded /metrics pages, and a worker that says nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.errors import ChaosError
from chaos.presets import PRESETS
from chaos.scrape import parse, read_load

PAGES = Path(__file__).with_name("metrics")


def page(name: str) -> str:
    return (PAGES / f"{name}.txt").read_text()


def test_a_busy_prefill_of_sglang() -> None:
    load = read_load(page("sglang-prefill"), PRESETS["sglang"].metrics)
    assert (load.running, load.waiting) == (2, 1 + 3 + 4)
    assert (load.kv_usage, load.aborted) == (0.28, 17)
    assert not load.is_idle


def test_an_idle_decode_of_sglang_that_never_counted_an_abort() -> None:
    load = read_load(page("sglang-decode-idle"), PRESETS["sglang"].metrics)
    assert load.is_idle
    assert load.kv_usage == 0
    assert load.aborted is None


def test_vllm_counts_aborts_by_label() -> None:
    load = read_load(page("vllm"), PRESETS["vllm"].metrics)
    assert (load.running, load.waiting, load.kv_usage, load.aborted) == (3, 5, 0.125, 7)


@pytest.mark.parametrize("text", ["", "# nothing\n", page("vllm"), "sglang:num_running_reqs 0\n"])
def test_a_page_without_the_metrics_is_no_idle_worker(text: str) -> None:
    with pytest.raises(ChaosError, match="no metric sglang:num_"):
        read_load(text, PRESETS["sglang"].metrics)


@pytest.mark.parametrize("queue", PRESETS["sglang"].metrics.waiting)
def test_a_request_in_any_queue_is_not_idle(queue: str) -> None:
    text = f'sglang:num_running_reqs 0\nsglang:num_queue_reqs 0\n{queue}{{a="b"}} 1\n'
    assert not read_load(text, PRESETS["sglang"].metrics).is_idle


def escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


@given(
    labels=st.dictionaries(
        st.from_regex(r"[a-z_]{1,8}", fullmatch=True),
        st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), max_size=8)
        | st.just('a"} b,c="d\\e\n'),
    ),
    value=st.floats(allow_nan=False),
)
def test_labels_may_hold_anything(labels: dict[str, str], value: float) -> None:
    inside = ",".join(f'{name}="{escaped(text)}"' for name, text in labels.items())
    (sample,) = parse(f"m{{{inside}}} {value!r} 1700000000000\n")
    assert sample.labels == labels
    assert sample.value == value


@given(st.text())
def test_no_page_breaks_the_parser(text: str) -> None:
    list(parse(text))

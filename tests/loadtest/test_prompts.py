"""Prompts: of exact length, real text, never sharing a first page, the same in every process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from loadtest.prompts import PREFIX_CHARS, derive_seed, make_prompt


@pytest.mark.parametrize("isl", [1, 63, 64, 65, 1100, 3000, 2_500_000])
def test_exact_length(isl: int) -> None:
    prompt = make_prompt(7, 3, isl)
    assert len(prompt) == len(prompt.encode("ascii")) == isl


def test_first_page_is_unique() -> None:
    prefixes = {
        make_prompt(seed, index, 128)[:PREFIX_CHARS] for seed in range(5) for index in range(400)
    }
    assert len(prefixes) == 2000


def test_a_shorter_prompt_is_the_start_of_a_longer_one() -> None:
    assert make_prompt(1, 2, 900).startswith(make_prompt(1, 2, 300))


def test_text_is_real() -> None:
    text = "".join(make_prompt(0, index, 3000)[PREFIX_CHARS:] for index in range(20))
    assert text.count("self.") > 20
    assert text.count("\n") > 500


def test_same_in_another_process() -> None:
    code = "from loadtest.prompts import make_prompt; print(make_prompt(20, 5, 2000), end='')"
    root = Path(__file__).resolve().parents[2]
    other = subprocess.run(
        [sys.executable, "-c", code],
        cwd=root,
        env={**os.environ, "PYTHONHASHSEED": "99"},
        check=True,
        capture_output=True,
        text=True,
        timeout=20,
    )
    assert other.stdout == make_prompt(20, 5, 2000)


def test_phases_have_prompts_of_their_own() -> None:
    assert derive_seed(0, "warmup") != derive_seed(0, "load")
    assert derive_seed(0, "load") == derive_seed(0, "load") < 2**53

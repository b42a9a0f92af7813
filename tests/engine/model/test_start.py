"""What holds before a worker's first batch: threads, names of settings, the fingerprint."""

from __future__ import annotations

import os
import subprocess
import sys

import msgspec
import pytest
import torch

from engine.model.config import TINY
from engine.model.errors import DeviceError, DtypeError
from engine.model.fingerprint import fingerprint
from engine.model.runner import ModelRunner, load_runner
from engine.model.seeded import seeded_source
from engine.model.stable_rows import FALLBACK, find_stable_rows


def run_python(code: str) -> str:
    environment = os.environ | {"OMP_NUM_THREADS": "7"}
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_threads_are_limited_before_torch() -> None:
    code = (
        "import os, sys\n"
        "from engine.model.torch_threads import limit_torch_threads\n"
        "from engine.model.tokenizer import load_tokenizer\n"
        "limit_torch_threads(); load_tokenizer('tiny')\n"
        "print('torch' in sys.modules, os.environ['OMP_NUM_THREADS'])"
    )
    assert run_python(code) == "False 1"


def test_one_thread(runner: ModelRunner) -> None:
    assert torch.get_num_threads() == 1


def test_fingerprint_is_the_same_in_another_process(runner: ModelRunner) -> None:
    code = (
        "from engine.model.config import TINY\n"
        "from engine.model.fingerprint import fingerprint\n"
        "print(fingerprint(TINY, 16, 'float32', 0, ''))"
    )
    assert run_python(code) == runner.fingerprint


def test_fingerprint_tells_apart_what_must_not_meet() -> None:
    other = msgspec.structs.replace(TINY, rope_theta=500_000.0)
    prints = [
        fingerprint(TINY, 16, "float32", 0, ""),
        fingerprint(TINY, 16, "float32", 1, ""),
        fingerprint(TINY, 32, "float32", 0, ""),
        fingerprint(TINY, 16, "bfloat16", 0, ""),
        fingerprint(other, 16, "float32", 0, ""),
        fingerprint(TINY, 16, "float32", 0, "weights"),
    ]
    assert len(set(prints)) == len(prints)


def test_seeded_weights_are_the_same_everywhere() -> None:
    """The first numbers themselves: another machine or version must give the same model."""
    drawn = seeded_source(0)("model.layers.0.self_attn.q_proj.weight", (256, 256))[0, :3]
    assert drawn.tolist() == pytest.approx([-0.18403943, 0.39750159, -0.02663643], rel=1e-6)
    negative = seeded_source(-3)("lm_head.weight", (259, 256))
    assert not torch.equal(negative, seeded_source(3)("lm_head.weight", (259, 256)))


def test_settings_that_are_no_choice() -> None:
    with pytest.raises(DtypeError, match="use float32 or bfloat16"):
        load_runner("tiny", 8, 16, "float16", 0, "cpu")
    with pytest.raises(DeviceError, match="use cpu or cuda"):
        load_runner("tiny", 8, 16, "float32", 0, "tpu")
    if not torch.cuda.is_available():
        with pytest.raises(DeviceError, match="use --device cpu"):
            load_runner("tiny", 8, 16, "float32", 0, "cuda")


def test_stable_rows_hold_for_counts_that_were_not_probed() -> None:
    matrix = seeded_source(1)("layer.weight", (512, 256))
    count = find_stable_rows([matrix])
    assert 1 <= count <= FALLBACK
    rows = torch.randn(400, 256, generator=torch.Generator().manual_seed(3))
    whole = torch.nn.functional.linear(rows, matrix)
    for n in (count, count + 1, 37, 99, 255, 319, 400):
        assert torch.equal(torch.nn.functional.linear(rows[-n:], matrix), whole[-n:])

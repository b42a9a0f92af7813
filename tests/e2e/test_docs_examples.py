"""The examples of the docs pages run as written."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]
HOME = Path(__file__).resolve().parents[2]


def test_the_example_of_the_pytest_page(tmp_path: Path) -> None:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-p", "chaos.pytest_plugin"),
            *("-p", "no:cacheprovider", "-c", os.devnull, f"--rootdir={tmp_path}"),
            f"--basetemp={tmp_path / 'base'}",
            str(HOME / "docs" / "examples" / "test_stall.py"),
        ],
        cwd=HOME,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 passed" in done.stdout

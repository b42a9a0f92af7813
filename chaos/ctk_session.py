"""One attachment for each target file of a Chaos Toolkit process, from its first activity to its end."""

from __future__ import annotations

import atexit
import os
import time
from pathlib import Path

from chaos.attachment import Attachment
from chaos.errors import NotHealed
from chaos.pd import PdDeployment

DIRECTORY = "SEVERANCE_CTK_DIR"
"""Where its records go; ``runs/ctk-TIME`` by default."""
_attached: dict[str, Attachment] = {}


def pd_of(target: str) -> PdDeployment:
    """Attach, or what was attached before. Raises `ChaosError`."""
    if target not in _attached:
        stamp = f"ctk-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}-{len(_attached)}"
        directory = Path(os.environ.get(DIRECTORY, "runs")) / stamp
        _attached[target] = Attachment(Path(target), directory, "ctk")
    return _attached[target].pd


@atexit.register
def _let_go() -> None:
    """An experiment without rollbacks leaves nothing either."""
    for attachment in _attached.values():
        try:
            attachment.close()
        except NotHealed as error:
            print(f"severance: NOT HEALED: {error}")

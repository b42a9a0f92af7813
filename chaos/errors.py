"""Everything that `chaos` raises on purpose.

::

    ChaosError                  exit code 4 unless said otherwise
    ├── UsageError              exit code 2: the user can fix it; the text says how
    │   ├── ScenarioError       a scenario file is wrong (names the field)
    │   ├── OutNotEmpty         --out already holds something
    │   └── ToolMissing         a program or package is not there
    ├── ToxiproxyError
    │   ├── ToxiproxyDown       nothing answers on the control port
    │   ├── ToxiproxyTimeout    no answer within our limit (a hung control API)
    │   ├── ToxiproxyRefused    an HTTP error status
    │   └── ReadBackMismatch    the server holds another toxic than the one we sent
    ├── ProcessFailed           a program ended early or never became ready
    ├── LoadFailed              the load driver could not do its work
    └── Stopped                 the run was stopped on purpose
        ├── Halted              exit code 3: a guard tripped
        └── Interrupted         exit code 130: Ctrl-C or SIGTERM
"""

from __future__ import annotations


class ChaosError(Exception):
    """Root of the tree."""


class UsageError(ChaosError):
    """The user can fix it."""


class ScenarioError(UsageError):
    """``field`` is the path inside the file, e.g. ``method[1].fault.mode``."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}" if field else problem)
        self.field = field
        self.problem = problem


class OutNotEmpty(UsageError):
    """The run directory is in use."""


class ToolMissing(UsageError):
    """A program or package is not there."""


class ToxiproxyError(ChaosError):
    """Any failure of the toxiproxy server or of its control API."""


class ToxiproxyDown(ToxiproxyError):
    """Nothing answers on the control port."""


class ToxiproxyTimeout(ToxiproxyError):
    """No answer within our limit: a back-pressured link hangs the control API."""


class ToxiproxyRefused(ToxiproxyError):
    """The server answered with an error status."""

    def __init__(self, call: str, status: int, body: str) -> None:
        super().__init__(f"toxiproxy refused {call}: HTTP {status} {body.strip()[:200]}")
        self.status = status


class ReadBackMismatch(ToxiproxyError):
    """The server accepted a toxic, but holds another one (it ignores unknown attributes)."""


class ProcessFailed(ChaosError):
    """A program ended early or never became ready; the text ends with the tail of its log."""


class LoadFailed(ChaosError):
    """The load driver could not do its work."""


class Stopped(ChaosError):
    """The run was stopped on purpose, before its end."""


class Halted(Stopped):
    """A guard tripped."""


class Interrupted(Stopped):
    """Ctrl-C or SIGTERM."""

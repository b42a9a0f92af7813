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
    ├── FaultUnproven           a fault that a test made was not seen to be there, or did not stay
    ├── NotHealed               something of a fault is left, or the deployment does not serve after it
    ├── StillHeld               a worker holds a request or memory of one that is over
    ├── FaultCancelled          its heal began while it was still being made
    ├── JournalLost             a record that must be on disk before an act cannot be written
    ├── BrakeOn                 exit code 3: the brake of this machine is on; no run may start
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


class FaultUnproven(ChaosError):
    """A test under a fault that was not there proves nothing."""


class NotHealed(ChaosError):
    """The text says what is left."""


class StillHeld(ChaosError):
    """The text names worker, resource and owner."""


class FaultCancelled(ChaosError):
    """The heal of this fault began while it was still being made."""


class JournalLost(ChaosError):
    """A record that must be on disk before an act cannot be written: the act is not done."""


class BrakeOn(ChaosError):
    """The brake of this machine is on: no run may start."""


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

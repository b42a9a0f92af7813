"""Which requests are aborted, how and when: drawn from a weighted mix before they are sent."""

from __future__ import annotations

import random
from pathlib import Path

import msgspec

from loadtest.errors import UsageError
from loadtest.history import AbortAt, AbortKind, AbortPlan

_FLAG = "--abort-mix"


class AbortChoice(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One way to give up; ranges are inclusive. Exactly one of ``after_ms`` and ``after_tokens``."""

    kind: AbortKind
    weight: float = 1.0
    after_ms: tuple[float, float] | None = None
    after_tokens: tuple[int, int] | None = None
    at: AbortAt = AbortAt.ALL

    def draw(self, rng: random.Random) -> AbortPlan:
        if self.after_ms is not None:
            after_ms = round(rng.uniform(*self.after_ms), 3)
            return AbortPlan(kind=self.kind, after_ms=after_ms, at=self.at)
        if self.after_tokens is not None:
            after_tokens = rng.randint(*self.after_tokens)
            return AbortPlan(kind=self.kind, after_tokens=after_tokens, at=self.at)
        raise UsageError(_FLAG, f"the {self.kind} entry needs after_ms or after_tokens")


DEFAULT_CHOICES = (
    AbortChoice(kind=AbortKind.DISCONNECT, after_ms=(30, 600)),
    AbortChoice(kind=AbortKind.RID, after_ms=(30, 600)),
    AbortChoice(kind=AbortKind.DEADLINE, after_ms=(100, 900)),
)


class AbortMix(msgspec.Struct, frozen=True, kw_only=True):
    """``share`` (0-1) of the requests is aborted, each by one of ``choices``."""

    share: float = 0.0
    choices: tuple[AbortChoice, ...] = DEFAULT_CHOICES

    def draw(self, rng: random.Random) -> AbortPlan | None:
        """Draws the same number of values for every request, so that plans do not shift each other."""
        coin, pick, inner = rng.random(), rng.random(), random.Random(rng.getrandbits(64))
        if coin >= self.share:
            return None
        return self._pick(pick).draw(inner)

    def _pick(self, point: float) -> AbortChoice:
        left = point * sum(choice.weight for choice in self.choices)
        for choice in self.choices:
            left -= choice.weight
            if left < 0:
                return choice
        return self.choices[-1]


def read_choices(path: Path) -> tuple[AbortChoice, ...]:
    """Read a mix file: a JSON list of choices. Raises `UsageError` that names the entry."""
    try:
        choices = msgspec.json.decode(path.read_bytes(), type=tuple[AbortChoice, ...])
    except OSError as error:
        raise UsageError(
            _FLAG, f"cannot read {path} ({error.strerror}); give a JSON file"
        ) from error
    except msgspec.DecodeError as error:
        raise UsageError(_FLAG, f"{path} is not a list of abort entries: {error}") from error
    if not choices:
        raise UsageError(_FLAG, f"{path} lists no entry; add one, or use --abort-share 0")
    for number, choice in enumerate(choices):
        _check(choice, f"{path}, entry {number} ({choice.kind})")
    return choices


def _check(choice: AbortChoice, where: str) -> None:
    trigger = choice.after_ms if choice.after_ms is not None else choice.after_tokens
    if trigger is None or None not in (choice.after_ms, choice.after_tokens):
        raise UsageError(_FLAG, f"{where} needs exactly one of after_ms and after_tokens")
    if choice.kind is AbortKind.DEADLINE and choice.after_ms is None:
        raise UsageError(_FLAG, f"{where} is a time, so it needs after_ms")
    if trigger[0] > trigger[1] or trigger[0] < 0:
        raise UsageError(
            _FLAG, f"{where}: {list(trigger)} must be [low, high] with 0 <= low <= high"
        )
    if choice.after_tokens is not None and choice.after_tokens[0] < 1:
        raise UsageError(_FLAG, f"{where}: after_tokens counts from 1")
    if choice.at is not AbortAt.ALL and choice.kind is not AbortKind.RID:
        raise UsageError(_FLAG, f"{where}: at {choice.at} is for kind rid only")
    if not choice.weight > 0:
        raise UsageError(_FLAG, f"{where}: weight must be above 0")

"""Structs of a target file: a deployment that somebody else started, as the runner needs to know it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import msgspec
import yaml
from msgspec import Meta, Struct

from chaos.codes import LinkKind
from chaos.errors import UsageError
from chaos.links import Endpoint, LinkName
from chaos.presets import PRESETS, Preset

Url = Annotated[str, Meta(pattern=r"^http://[^/\s:]+:\d+$")]
Address = Annotated[str, Meta(pattern=r"^[^/\s:]+:\d+$")]
Argv = Annotated[tuple[str, ...], Meta(min_length=1)]
Name = Annotated[str, Meta(pattern=r"^[pd]\d+$")]


class Part(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A misspelt field is an error."""


class TargetWorker(Part, frozen=True, kw_only=True):
    """``name``: p0, p1, ... for prefill; d0, d1, ... for decode, and for a worker that does both.

    ``metrics``: URL of its /metrics, if that is elsewhere. ``bootstrap``: where decode finds a prefill
    worker; with it each pair is asked past the router. ``kill`` and ``restart``: commands; both must
    return by themselves. ``pausable``: its processes are here, and may be stopped (SIGSTOP).
    """

    name: Name
    role: Literal["prefill", "decode", "unified"]
    url: Url
    metrics: str | None = None
    bootstrap: Address | None = None
    kill: Argv | None = None
    restart: Argv | None = None
    pausable: bool = False


class TargetLink(Part, frozen=True, kw_only=True):
    """``name``: kind:prefill-decode. ``proxy``: which of toxiproxy's proxies stands in it."""

    name: Annotated[str, Meta(pattern=r"^(bootstrap|control|kv):p\d+-d\d+$")]
    proxy: str


class TargetToxiproxy(Part, frozen=True, kw_only=True):
    """``control``: its API. ``log``: file with what it prints; with it a bootstrap link can be proven."""

    control: Address
    log: str | None = None


class Target(Part, frozen=True, kw_only=True):
    """``spans``: SQLite file of a `severance spanstore`; ``traces``: the OTLP endpoint in front of it.
    ``control_run``: a unified worker with the same model, behind no proxy."""

    name: str
    preset: Literal["severance", "sglang", "vllm"]
    router: Url
    workers: Annotated[tuple[TargetWorker, ...], Meta(min_length=1)]
    schema: Literal["severance.target/1"] = "severance.target/1"
    toxiproxy: TargetToxiproxy | None = None
    links: tuple[TargetLink, ...] = ()
    traces: str | None = None
    spans: str | None = None
    control_run: Url | None = None
    ready_within_s: Annotated[float, Meta(gt=0)] = 60.0

    @property
    def knows(self) -> Preset:
        """What its kind of server can do."""
        return PRESETS[self.preset]

    def named(self, role: str) -> list[TargetWorker]:
        """Workers whose names begin like those of this role."""
        return [worker for worker in self.workers if worker.name[0] == role[0]]


def load_target(path: Path) -> Target:
    """Raises `UsageError` naming the field."""
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is not YAML: {error}") from error
    if not isinstance(document, dict):
        raise UsageError(f"{path} holds no target; it must be a mapping that begins with name:")
    try:
        target = msgspec.convert(document, Target)
    except msgspec.ValidationError as error:
        raise UsageError(f"{path}: {error}") from error
    _check(target)
    return target


def dump_target(target: Target, path: Path) -> None:
    plain = msgspec.to_builtins(target, str_keys=True)
    path.write_text(yaml.safe_dump(plain, sort_keys=False, width=100), encoding="utf-8")


def endpoint_of(text: str) -> Endpoint:
    """Of a `Url` or an `Address`."""
    host, _, port = text.removeprefix("http://").rpartition(":")
    return Endpoint(host, int(port))


def link_name(text: str) -> LinkName:
    kind, _, pair = text.partition(":")
    prefill, _, decode = pair.partition("-")
    return LinkName(kind=LinkKind(kind), prefill=prefill, decode=decode)


def _check(target: Target) -> None:
    for letter in "pd":
        names = sorted(worker.name for worker in target.workers if worker.name[0] == letter)
        if names != sorted(f"{letter}{index}" for index in range(len(names))):
            raise UsageError(f"workers: number them from 0 without a gap, not {', '.join(names)}")
    known = {worker.name for worker in target.workers}
    for link in target.links:
        ends = {link_name(link.name).prefill, link_name(link.name).decode}
        if not ends <= known:
            raise UsageError(f"links: {link.name} has an end that is no worker")
    if target.links and target.toxiproxy is None:
        raise UsageError("links: they need toxiproxy.control, the server that holds their proxies")
    for worker in target.workers:
        if (worker.kill is None) != (worker.restart is None):
            raise UsageError(f"workers: {worker.name} needs both kill and restart, or none of them")
        if target.knows.has_ledger and worker.role == "prefill" and worker.bootstrap is None:
            raise UsageError(
                f"workers: {worker.name} needs bootstrap (host:port of its rendezvous)"
            )
        if (worker.role == "prefill") != (worker.name[0] == "p"):
            raise UsageError(f"workers: {worker.name} is {worker.role}; p is prefill, d the others")

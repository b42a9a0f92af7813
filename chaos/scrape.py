"""Reads the few numbers of a worker's /metrics that say whether it is idle."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from urllib.parse import urlsplit

from msgspec import Struct

from chaos.errors import ChaosError
from chaos.http import fetch
from chaos.keys import authorization
from chaos.links import Endpoint
from chaos.presets import MetricNames


class WorkerLoad(Struct, frozen=True, kw_only=True):
    """``kv_usage`` None: this worker does not say. ``aborted``: since its start, summed over all labels."""

    running: float
    waiting: float
    kv_usage: float | None
    aborted: float | None

    @property
    def is_idle(self) -> bool:
        return not self.running and not self.waiting


class Sample(Struct, frozen=True, kw_only=True):
    name: str
    labels: dict[str, str]
    value: float


def scrape(url: str, names: MetricNames, timeout_s: float = 1.0) -> WorkerLoad:
    """Raises `ChaosError` if there is no answer, or one without these metrics."""
    parts = urlsplit(url)
    endpoint = Endpoint(parts.hostname or "", parts.port or 80)
    try:
        reply = fetch(endpoint, parts.path, timeout_s=timeout_s, headers=authorization())
    except (OSError, http.client.HTTPException) as error:
        raise ChaosError(f"{url}: no answer ({type(error).__name__})") from error
    if not reply.ok:
        raise ChaosError(f"{url}: HTTP {reply.status}")
    try:
        return read_load(reply.body.decode("utf-8", "replace"), names)
    except ChaosError as error:
        raise ChaosError(f"{url}: {error}") from error


def read_load(text: str, names: MetricNames) -> WorkerLoad:
    """From Prometheus text. A page without the metrics proves nothing: that is an error, not idleness."""
    # A router's page may repeat a metric for each worker; here it is one worker's, so samples add up.
    samples = list(parse(text))
    found = {sample.name for sample in samples}
    for group in (names.running, names.waiting):
        if not found & set(group):
            raise ChaosError(f"no metric {group[0]}; is it started with its metrics on?")
    labels = dict(names.aborted_labels)
    aborted = [
        one.value
        for one in samples
        if one.name == names.aborted and labels.items() <= one.labels.items()
    ]
    usage = [one.value for one in samples if one.name == names.kv_usage]
    return WorkerLoad(
        running=sum(one.value for one in samples if one.name in names.running),
        waiting=sum(one.value for one in samples if one.name in names.waiting),
        kv_usage=max(usage) if usage else None,
        aborted=sum(aborted) if aborted else None,
    )


def parse(text: str) -> Iterator[Sample]:
    """Samples of the text format 0.0.4. Lines that are none are passed over."""
    for line in text.splitlines():
        if line and not line.startswith("#"):
            sample = _sample(line)
            if sample is not None:
                yield sample


def _sample(line: str) -> Sample | None:
    """``name{a="x",b="y"} value [timestamp]``; a value in quotes may hold anything, braces too."""
    name, brace, rest = line.partition("{")
    labels: dict[str, str] = {}
    if brace:
        read = _labels(rest)
        if read is None:
            return None
        labels, tail = read
    else:
        name, _, tail = line.partition(" ")
    fields = tail.split()
    try:
        return Sample(name=name.strip(), labels=labels, value=float(fields[0]))
    except (IndexError, ValueError):
        return None


def _labels(text: str) -> tuple[dict[str, str], str] | None:
    """Labels and what follows their closing brace; None if they do not end."""
    labels: dict[str, str] = {}
    position = 0
    while position < len(text):
        if text[position] in ", ":
            position += 1
            continue
        if text[position] == "}":
            return labels, text[position + 1 :]
        equals = text.find('="', position)
        if equals < 0:
            return None
        value, end = "", equals + 2
        while end < len(text) and text[end] != '"':
            if text[end] == "\\" and end + 1 < len(text):
                end += 1
                value += {"n": "\n"}.get(text[end], text[end])
            else:
                value += text[end]
            end += 1
        labels[text[position:equals].strip()] = value
        position = end + 1
    return None

"""What `severance up` prints when everything serves: where things are, and what to try."""

from __future__ import annotations

from pathlib import Path

from chaos.endpoints import LinkEndpoint, UpEndpoints
from chaos.keys import strongest

_JSON = "-H 'Content-Type: application/json'"
_GENERATE = (
    '{"rid": "demo", "text": "Tell me everything about lighthouses.",'
    ' "sampling_params": {"max_new_tokens": 2000, "ignore_eos": true}}'
)
_ABORT = '{"rid": "demo"}'


def summary(up: UpEndpoints, file: Path) -> str:
    """Plain text, one block a topic."""
    lines = [
        "",
        *_addresses(up),
        "",
        *_examples(up),
        "",
        *_cutting(up.links[-1]),
        "",
        *_ending(up, file),
    ]
    return "\n".join(lines)


def _addresses(up: UpEndpoints) -> list[str]:
    rows = [("router", up.router)]
    rows += [(f"{worker.name} {worker.role}", worker.url) for worker in up.workers]
    rows += [("toxiproxy", f"{up.toxiproxy}/proxies  ({len(up.links)} links)")]
    rows += [("span store", f"{up.traces}  ({up.directory}/spans.sqlite)")]
    rows += [("logs", f"{up.directory}/logs")]
    return [f"  {name:<12} {where}" for name, where in rows]


def _examples(up: UpEndpoints) -> list[str]:
    key = strongest()
    post = (
        f"curl -s {_JSON}" if key is None else f'curl -s -H "Authorization: Bearer ${key}" {_JSON}'
    )
    workers = " ".join(worker.url for worker in up.workers)
    return [
        "  generate, through the router (some seconds long):",
        f"    {post} {up.router}/generate -d '{_GENERATE}'",
        "  abort it from another terminal (the router has no such call, so ask every worker):",
        f"    for worker in {workers}; do",
        f"      {post} $worker/abort_request -d '{_ABORT}'; done",
    ]


def _cutting(link: LinkEndpoint) -> list[str]:
    post = f"curl -s {_JSON} {link.proxy} -d"
    return [
        f"  cut a link by hand, here {link.name}, and mend it (docs/up.md has other cuts):",
        f"    {post} '{{\"enabled\": false}}'",
        f"    {post} '{{\"enabled\": true}}'",
    ]


def _ending(up: UpEndpoints, file: Path) -> list[str]:
    return [
        f"  for scripts: {file}",
        f"  end it: Ctrl-C here, or kill {up.pid}; if it was killed hard: severance heal {up.directory}",
    ]

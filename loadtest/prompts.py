"""Prompts cut from real text on the machine: the sources of the Python standard library.

The same (seed, index, isl) gives the same prompt on the same machine. The first 64 characters are unique
for each (seed, index), so no two prompts share their first page of KV cache.
"""

from __future__ import annotations

import hashlib
import random
import sys
import sysconfig
from functools import cache
from pathlib import Path

from loadtest.errors import PromptError

PREFIX_CHARS = 64
_CORPUS_CHARS = 1 << 20


def make_prompt(prompt_seed: int, index: int, isl: int) -> str:
    """Prompt number ``index``: exactly ``isl`` ASCII characters (tokens of a byte tokenizer).

    Raises `PromptError` if the machine has no text.
    """
    text = _corpus()
    key = f"prompt:{prompt_seed}:{index}"
    prefix = hashlib.sha256(key.encode()).hexdigest()[:PREFIX_CHARS]
    start = random.Random(key).randrange(len(text))
    wanted = max(0, isl - len(prefix))
    body = text[start : start + wanted]
    while len(body) < wanted:
        body += text[: wanted - len(body)]
    return (prefix + body)[:isl]


def derive_seed(seed: int, phase: str) -> int:
    """Seed of the prompts of one phase, so that a warm-up does not fill caches for the load."""
    digest = hashlib.sha256(f"{seed}:{phase}".encode()).digest()
    return int.from_bytes(digest[:6], "big")


@cache
def _corpus() -> str:
    """The first megabyte of standard library sources in order of their names, ASCII only."""
    pieces: list[str] = []
    size = 0
    for path in sorted(_stdlib().glob("*.py")):
        text = path.read_bytes().decode("ascii", "ignore").replace("\r\n", "\n")
        pieces.append(text)
        size += len(text)
        if size >= _CORPUS_CHARS:
            break
    corpus = "".join(pieces)[:_CORPUS_CHARS]
    if not corpus:
        raise PromptError(
            f"no Python sources in {_stdlib()} to cut prompts from; "
            "use a Python that keeps its standard library as files"
        )
    return corpus


def _stdlib() -> Path:
    """Of the base installation, so that a virtual environment changes nothing."""
    return Path(
        sysconfig.get_path(
            "stdlib", vars={"base": sys.base_prefix, "installed_base": sys.base_prefix}
        )
    )

"""Requests that go to both halves of a pair with a room, as the router sends them."""

from __future__ import annotations

import http.client
import random
import threading
import time
import uuid
from collections.abc import Sequence

import msgspec

from chaos.http import Reply, fetch
from tests.e2e.liveness.pair import Half, Pair, wait_until

TIMEOUT_S = 40.0
TEXT = "The quick brown fox jumps over the lazy dog. Pack my box with five dozen liquor jugs. "


class Spec(msgspec.Struct, frozen=True):
    """Prompt length and new tokens; prompts with different tags share nothing."""

    tag: str
    prompt: int
    new: int

    @property
    def text(self) -> str:
        head = f"{self.tag:<32}"
        return (head + TEXT * (self.prompt // len(TEXT) + 1))[: self.prompt]


class Side:
    """The request at one half: its answer and when it came."""

    def __init__(self, half: Half, body: bytes) -> None:
        self.half = half
        self.reply: Reply | None = None
        self.failure: Exception | None = None
        self.ended_at = 0.0
        self._body = body
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.reply = fetch(
                self.half.http, "/generate", method="POST", body=self._body, timeout_s=TIMEOUT_S
            )
        except (OSError, http.client.HTTPException) as error:
            self.failure = error
        self.ended_at = time.monotonic()

    @property
    def is_open(self) -> bool:
        return self._thread.is_alive()

    def wait(self) -> Side:
        self._thread.join(TIMEOUT_S)
        assert not self.is_open, "the request never ended"
        return self

    @property
    def status(self) -> int:
        """HTTP status; 0: the worker went away."""
        self.wait()
        return self.reply.status if self.reply else 0

    @property
    def reason(self) -> str:
        """Why it was aborted; empty if it was not."""
        self.wait()
        if self.reply is None:
            return ""
        body = msgspec.json.decode(self.reply.body)
        if "error" in body:
            return str(body["error"].get("reason", body["error"].get("message")))
        return str(body["meta_info"]["finish_reason"].get("reason") or "")

    @property
    def tokens(self) -> tuple[int, ...]:
        assert self.status == 200, self.reply.body if self.reply else self.failure
        assert self.reply is not None
        body = msgspec.json.decode(self.reply.body)
        assert body["meta_info"]["finish_reason"]["type"] == "length", body
        return tuple(body["output_ids"])


class Flight:
    """One request at both halves."""

    def __init__(self, pair: Pair, spec: Spec) -> None:
        self.spec = spec
        self.rid = f"{spec.tag}-{uuid.uuid4().hex[:8]}"
        params = {"max_new_tokens": spec.new, "ignore_eos": True, "temperature": 0}
        body = msgspec.json.encode(
            {
                "rid": self.rid,
                "text": spec.text,
                "sampling_params": params,
                "bootstrap_host": pair.bootstrap.host,
                "bootstrap_port": pair.bootstrap.port,
                "bootstrap_room": random.getrandbits(62),
            }
        )
        self.sent_at = time.monotonic()
        self.prefill = Side(pair.prefill, body)
        self.decode = Side(pair.decode, body)

    @property
    def sides(self) -> tuple[Side, Side]:
        return self.prefill, self.decode

    @property
    def is_open(self) -> bool:
        return any(side.is_open for side in self.sides)

    @property
    def ended_at(self) -> float:
        return max(side.wait().ended_at for side in self.sides)

    @property
    def is_whole(self) -> bool:
        """Did both halves complete it?"""
        return all(side.status == 200 and not side.reason for side in self.sides)

    def tokens(self) -> tuple[int, ...]:
        """Decode's tokens, of which prefill's single one is the first."""
        tokens = self.decode.tokens
        assert self.prefill.tokens == tokens[:1]
        assert len(tokens) == self.spec.new
        return tokens


POOL_TOKENS = 6_144
"""Holds two of RUNNING and four of LONG; the rest of LONG waits for memory at decode."""
LONG = [Spec(f"long-{n}", 1_200, 8) for n in range(7)]
RUNNING = [Spec(f"running-{n}", 200, 300) for n in range(2)]
LATE = [Spec(f"late-{n}", 300, 8) for n in range(2)]
SMALL = Spec("small", 100, 4)


class Traffic:
    """Known requests and the tokens that they have without any fault.

    ``had_long_step``: a loop of the pair has been in one step for seconds, and from then on counts as
    dead only after ten times as long.
    """

    def __init__(self, pair: Pair) -> None:
        self.pair = pair
        self.had_long_step = False
        self._expected: dict[Spec, tuple[int, ...]] = {}

    def send(self, specs: Sequence[Spec]) -> list[Flight]:
        return [Flight(self.pair, spec) for spec in specs]

    def expected(self, spec: Spec) -> tuple[int, ...]:
        return self._expected[spec]

    def learn(self, specs: Sequence[Spec] = (*LONG, *RUNNING, *LATE, SMALL)) -> None:
        """Run every request once, while nothing is wrong."""
        for flight in self.send(specs):
            self._expected[flight.spec] = flight.tokens()
        self.pair.wait_clean()

    def fill_every_stage(self) -> list[Flight]:
        """Requests that run, transfer, compute, wait, and wait for decode's memory; all at once."""
        flights = self.send(RUNNING)
        decode = self.pair.decode
        wait_until(lambda: decode.ledger().queues["running"] == len(RUNNING), 10, "running")
        flights += self.send(LONG)
        wait_until(self._is_everywhere, 10, "requests in every stage")
        return flights

    def _is_everywhere(self) -> bool:
        prefill, decode = self.pair.prefill.ledger().queues, self.pair.decode.ledger().queues
        wanted = (
            *(prefill[name] for name in ("bootstrap", "waiting", "chunked")),
            *(decode[name] for name in ("prealloc", "transfer", "running")),
        )
        return all(wanted)

    def check_right(self, flights: Sequence[Flight]) -> None:
        """All completed at both halves, with the tokens that they have without a fault."""
        for flight in flights:
            assert flight.is_whole, [
                (side.half.name, side.status, side.reason, side.failure) for side in flight.sides
            ]
            assert flight.tokens() == self.expected(flight.spec), flight.spec

    def is_right(self, flight: Flight) -> bool:
        """Completed at both halves, with the tokens that it has without a fault."""
        return flight.is_whole and flight.tokens() == self.expected(flight.spec)

    def check_small(self, within_s: float) -> float:
        """A new request completes at once; returns the seconds it took."""
        (flight,) = self.send([SMALL])
        self.check_right([flight])
        took_s = flight.ended_at - flight.sent_at
        assert took_s < within_s, f"a request after the cut took {took_s:.1f} s"
        return took_s

"""Bytes in, bytes out, whatever they are."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from engine.model.config import TINY
from engine.model.tokenizer import ByteTokenizer, load_tokenizer

TOKENIZER = ByteTokenizer()


@settings(deadline=None)
@given(st.text())
def test_round_trip(text: str) -> None:
    assert TOKENIZER.decode(TOKENIZER.encode(text)) == text


@settings(deadline=None)
@given(st.lists(st.integers(0, TOKENIZER.vocab_size - 1)))
def test_every_token_sequence_decodes(token_ids: list[int]) -> None:
    text = TOKENIZER.decode(token_ids)
    assert text == bytes(t for t in token_ids if t < 256).decode(errors="replace")
    assert text.encode().decode() == text


def test_one_token_a_byte_and_no_bos() -> None:
    assert TOKENIZER.encode("aß") == [97, 0xC3, 0x9F]


def test_a_lone_surrogate_is_no_error() -> None:
    assert TOKENIZER.encode("a\ud800b") == list(b"a?b")


def test_fits_the_tiny_model() -> None:
    tokenizer = load_tokenizer("tiny")
    assert tokenizer.vocab_size == TINY.vocab_size
    assert tokenizer.eos_token_id == TINY.eos_token_id

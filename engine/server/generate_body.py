"""The body of ``POST /generate``: `GenerateBody` and `parse_generate`, which names the wrong field."""

from __future__ import annotations

import math
import re
from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta

from engine.core.io_struct import SamplingParams
from engine.errors import RequestError

T = TypeVar("T")
_Count = Annotated[int, Meta(ge=1)]
_Seconds = Annotated[float, Meta(gt=0, le=86_400)]
_Bits63 = Annotated[int, Meta(ge=0, le=2**63 - 1)]

MAX_RID = 128


class SamplingBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """SGLang's sampling parameters. Those that are not served must be absent or neutral.

    ``seed`` is also taken as ``sampling_seed``, SGLang's name, which its router lets through.
    """

    max_new_tokens: _Count | None = None
    temperature: float | None = None
    ignore_eos: bool | None = None
    seed: _Bits63 | None = None
    sampling_seed: _Bits63 | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    repetition_penalty: float | None = None
    min_new_tokens: int | None = None
    n: int | None = None
    stop: str | list[str] | None = None
    stop_token_ids: list[int] | None = None
    stop_regex: str | list[str] | None = None
    json_schema: str | None = None
    regex: str | None = None
    ebnf: str | None = None
    structural_tag: str | None = None
    skip_special_tokens: bool | None = None
    spaces_between_special_tokens: bool | None = None
    no_stop_trim: bool | None = None
    stream_interval: int | None = None
    logit_bias: dict[str, float] | None = None
    custom_params: dict[str, object] | None = None


class GenerateBody(msgspec.Struct, frozen=True, kw_only=True):
    """One request. Fields of SGLang that are not listed are ignored, as routers add their own.

    ``deadline_s``: the server aborts the request so long after its arrival. SGLang's router drops it.
    """

    rid: Annotated[str, Meta(min_length=1, max_length=MAX_RID)] | None = None
    text: str | None = None
    input_ids: list[int] | None = None
    sampling_params: SamplingBody | None = None
    stream: bool | None = None
    return_logprob: bool | None = None
    top_logprobs_num: Annotated[int, Meta(ge=0, le=20)] | None = None
    bootstrap_host: str | None = None
    bootstrap_port: Annotated[int, Meta(ge=1, le=65_535)] | None = None
    bootstrap_room: _Bits63 | None = None
    deadline_s: _Seconds | None = None


class Rendezvous(msgspec.Struct, frozen=True, kw_only=True):
    """What a refused body says about its other half, as far as it says it well."""

    bootstrap_room: _Bits63
    bootstrap_host: str | None = None
    bootstrap_port: Annotated[int, Meta(ge=1, le=65_535)] | None = None


def rendezvous_of(body: bytes) -> Rendezvous | None:
    """The other half of a body that may be wrong anywhere else; None if it cannot be told."""
    try:
        return msgspec.json.decode(body, type=Rendezvous)
    except (msgspec.DecodeError, RecursionError):
        return None


_NEUTRAL: dict[str, tuple[object, ...]] = {
    "min_p": (0.0,),
    "frequency_penalty": (0.0,),
    "presence_penalty": (0.0,),
    "repetition_penalty": (1.0,),
    "min_new_tokens": (0,),
    "n": (1,),
    "stop": ("", []),
    "stop_token_ids": ([],),
    "stop_regex": ("", []),
    "json_schema": (),
    "regex": (),
    "ebnf": (),
    "structural_tag": (),
    "logit_bias": ({},),
    "custom_params": ({},),
}
_NEUTRAL_WHEN_SAMPLING: dict[str, tuple[object, ...]] = {"top_p": (1.0,), "top_k": (-1, 0)}
_PATH = re.compile(r"(.*) - at `\$\.?(.*)`", re.DOTALL)
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)


def decode_body(body: bytes, kind: type[T]) -> T:
    """Decode JSON into a struct. Raises `RequestError` with the path of the wrong field."""
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        raise _name_field(str(error)) from None
    except msgspec.DecodeError as error:
        raise RequestError("", f"the body is not valid JSON: {error}") from None
    except RecursionError:
        raise RequestError("", "the body is nested too deeply") from None


def parse_generate(body: bytes) -> GenerateBody:
    """Decode and check what does not depend on the model. Raises `RequestError`."""
    parsed = decode_body(body, GenerateBody)
    if parsed.rid is not None and not parsed.rid.isprintable():
        raise RequestError("rid", "has characters that cannot be printed")
    _check_prompt(parsed)
    if parsed.top_logprobs_num and not parsed.return_logprob:
        raise RequestError("top_logprobs_num", "needs return_logprob: true")
    if parsed.sampling_params is not None:
        _check_sampling(parsed.sampling_params)
    return parsed


def make_sampling_params(body: SamplingBody | None) -> SamplingParams:
    """Fill in the defaults."""
    defaults = SamplingParams()
    if body is None:
        return defaults
    seed = body.sampling_seed if body.seed is None else body.seed
    return SamplingParams(
        max_new_tokens=body.max_new_tokens or defaults.max_new_tokens,
        temperature=defaults.temperature if body.temperature is None else body.temperature,
        ignore_eos=bool(body.ignore_eos),
        seed=defaults.seed if seed is None else seed,
    )


def _name_field(message: str) -> RequestError:
    located = _PATH.fullmatch(message)
    problem, path = located.groups() if located else (message, "")
    unknown = _UNKNOWN.fullmatch(problem)
    if unknown is None:
        return RequestError(path, problem)
    field = ".".join(part for part in (path, unknown.group(1)) if part)
    known = ", ".join(sorted(SamplingBody.__struct_fields__))
    return RequestError(field, f"is no parameter; known are {known}")


def _check_prompt(body: GenerateBody) -> None:
    if body.text is not None and body.input_ids is not None:
        raise RequestError("input_ids", "give either text or input_ids, not both")
    if body.text is None and body.input_ids is None:
        raise RequestError("text", "is missing; give text or input_ids")
    if body.text == "" or body.input_ids == []:
        raise RequestError("text" if body.text == "" else "input_ids", "is empty")


def _check_sampling(sampling: SamplingBody) -> None:
    temperature = sampling.temperature or 0.0
    if temperature < 0 or not math.isfinite(temperature):
        raise RequestError("sampling_params.temperature", f"{temperature:g} is not 0 or more")
    neutral = _NEUTRAL | (_NEUTRAL_WHEN_SAMPLING if temperature else {})
    for name, value in msgspec.structs.asdict(sampling).items():
        if value is not None and name in neutral and value not in neutral[name]:
            raise RequestError(f"sampling_params.{name}", "is not supported; leave it out")

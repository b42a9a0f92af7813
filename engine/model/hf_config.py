"""config.json of a Hugging Face directory. Free of torch, since the tokenizer side reads it too."""

from __future__ import annotations

from pathlib import Path

import msgspec

from engine.model.config import ModelConfig
from engine.model.errors import ModelPathError, UnsupportedModelError

ARCHITECTURE = "LlamaForCausalLM"
PLAIN_ROPE = "default"


class HfRope(msgspec.Struct, frozen=True, kw_only=True):
    """``rope_parameters`` (transformers 5) or ``rope_scaling`` (before; it had ``type`` once)."""

    rope_type: str | None = None
    type: str | None = None
    rope_theta: float | None = None

    @property
    def kind(self) -> str:
        return self.rope_type or self.type or PLAIN_ROPE


class HfConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What is read of config.json, in Hugging Face's names and with its defaults."""

    architectures: tuple[str, ...]
    num_hidden_layers: int
    hidden_size: int
    num_attention_heads: int
    intermediate_size: int
    vocab_size: int
    eos_token_id: int | tuple[int, ...]
    num_key_value_heads: int | None = None
    head_dim: int | None = None
    rope_theta: float = 10_000.0
    rope_scaling: HfRope | None = None
    rope_parameters: HfRope | None = None
    rms_norm_eps: float = 1e-6
    hidden_act: str = "silu"
    attention_bias: bool = False
    mlp_bias: bool = False
    tie_word_embeddings: bool = False


def read_config(model_path: str) -> ModelConfig:
    """Raises ModelPathError."""
    path = Path(model_path) / "config.json"
    try:
        config = msgspec.json.decode(path.read_bytes(), type=HfConfig)
    except OSError as error:
        raise ModelPathError(
            model_path,
            f"cannot read {path} ({error.strerror}); give tiny for the built-in model, "
            "or a local Hugging Face directory",
        ) from error
    except msgspec.DecodeError as error:
        problem = f"{path}: {error}; save the model anew with transformers"
        raise ModelPathError(model_path, problem) from error
    _check(config, model_path)
    return _model_config(config)


def _check(config: HfConfig, model_path: str) -> None:
    rope = config.rope_parameters or config.rope_scaling or HfRope()
    settings = (
        ("architectures", config.architectures, (ARCHITECTURE,)),
        ("hidden_act", config.hidden_act, "silu"),
        ("attention_bias", config.attention_bias, False),
        ("mlp_bias", config.mlp_bias, False),
        ("rope type", rope.kind, PLAIN_ROPE),
    )
    for name, value, known in settings:
        if value != known:
            raise UnsupportedModelError(
                model_path,
                f"{name} is {value!r}, only {known!r} is known; choose a plain Llama model",
            )
    groups = config.num_attention_heads % (config.num_key_value_heads or 1)
    if groups or (config.head_dim or 2) % 2:
        raise UnsupportedModelError(
            model_path,
            f"config.json has {config.num_attention_heads} heads over {config.num_key_value_heads} "
            f"KV heads of {config.head_dim}: the sizes do not fit each other; check the file",
        )


def _model_config(config: HfConfig) -> ModelConfig:
    heads, eos = config.num_attention_heads, config.eos_token_id
    rope = config.rope_parameters or HfRope()
    return ModelConfig(
        num_hidden_layers=config.num_hidden_layers,
        hidden_size=config.hidden_size,
        num_attention_heads=heads,
        num_key_value_heads=config.num_key_value_heads or heads,
        head_dim=config.head_dim or config.hidden_size // heads,
        intermediate_size=config.intermediate_size,
        vocab_size=config.vocab_size,
        # The scheduler stops at one token; lists begin with the main one.
        eos_token_id=eos if isinstance(eos, int) else eos[0],
        rope_theta=rope.rope_theta or config.rope_theta,
        rms_norm_eps=config.rms_norm_eps,
        tie_word_embeddings=config.tie_word_embeddings,
    )

"""A local Hugging Face directory, and what is said about a broken one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from engine.model.config import TINY
from engine.model.errors import ModelPathError, UnsupportedModelError
from engine.model.runner import ModelRunner, load_runner
from engine.model.seeded import seeded_source
from engine.model.tokenizer import load_tokenizer
from engine.model.weights import build_weights
from tests.engine.model.drive import Request, finish, make_prompt

safetensors_torch = pytest.importorskip("safetensors.torch")

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "num_hidden_layers": 4,
    "hidden_size": 256,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "intermediate_size": 704,
    "vocab_size": 259,
    "eos_token_id": [257, 258],
    "rms_norm_eps": 1e-5,
    "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
    "transformers_version": "5.0.0",
}


def save(directory: Path, *, files: int = 1, **changes: object) -> None:
    """The tiny model, as transformers would write it."""
    tensors: dict[str, torch.Tensor] = {}
    source = seeded_source(0)

    def note(name: str, shape: tuple[int, ...]) -> torch.Tensor:
        tensors[name] = source(name, shape)
        return tensors[name]

    build_weights(TINY, note, torch.float32, torch.device("cpu"))
    names = sorted(tensors)
    for i in range(files):
        part = {name: tensors[name] for name in names[i::files]}
        safetensors_torch.save_file(part, directory / f"model-{i}.safetensors")
    (directory / "config.json").write_text(json.dumps(CONFIG | changes))


def load(directory: Path) -> ModelRunner:
    return load_runner(str(directory), 40, 16, "float32", 1, "cpu")


@pytest.mark.parametrize("files", [1, 3])
def test_loaded_weights_give_the_same_tokens(
    runner: ModelRunner, tmp_path: Path, files: int
) -> None:
    save(tmp_path, files=files)
    loaded = load(tmp_path)
    assert (loaded.eos_token_id, loaded.vocab_size) == (257, 259)
    requests = [Request(make_prompt(1, 300), tuple(range(24)), 16) for _ in range(2)]
    assert finish(loaded, requests[0]) == finish(runner, requests[1])


def test_fingerprint_is_that_of_the_weights(tmp_path: Path) -> None:
    save(tmp_path)
    first = load(tmp_path).fingerprint
    assert load_runner(str(tmp_path), 99, 16, "float32", 2, "cpu").fingerprint == first
    path = tmp_path / "model-0.safetensors"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    assert load(tmp_path).fingerprint != first


def test_tied_embeddings_need_no_lm_head(tmp_path: Path) -> None:
    save(tmp_path, tie_word_embeddings=True)
    pages = tuple(range(24))
    tied = finish(load(tmp_path), Request(make_prompt(1, 40), pages, 4))
    save(tmp_path)
    assert finish(load(tmp_path), Request(make_prompt(1, 40), pages, 4)) != tied


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"architectures": ["Qwen3ForCausalLM"]}, "architectures .* choose a plain Llama"),
        ({"rope_scaling": {"type": "linear"}, "rope_parameters": None}, "rope type is 'linear'"),
        ({"attention_bias": True}, "attention_bias is True"),
        ({"num_key_value_heads": 3}, "8 heads over 3 KV heads"),
        ({"num_hidden_layers": 5}, "no tensor model.layers.4.self_attn"),
        ({"intermediate_size": 705}, r"\[704, 256\], config.json says \[705, 256\]"),
    ],
)
def test_other_models(tmp_path: Path, changes: dict[str, object], message: str) -> None:
    save(tmp_path, **changes)
    with pytest.raises(UnsupportedModelError, match=message):
        load(tmp_path)


def test_no_such_directory(tmp_path: Path) -> None:
    for load_it in (load, lambda path: load_tokenizer(str(path))):
        with pytest.raises(ModelPathError, match=r"--model-path .*config.json .* give tiny"):
            load_it(tmp_path / "nowhere")


def test_broken_files(tmp_path: Path) -> None:
    save(tmp_path)
    weights = tmp_path / "model-0.safetensors"
    weights.write_bytes(weights.read_bytes()[:5_000])
    with pytest.raises(ModelPathError, match="copy it again"):
        load(tmp_path)
    weights.unlink()
    with pytest.raises(ModelPathError, match=r"no .*safetensors in it; save the model anew"):
        load(tmp_path)
    (tmp_path / "config.json").write_text('{"architectures": 3}')
    with pytest.raises(ModelPathError, match="save the model anew"):
        load(tmp_path)


def test_tokenizer_of_a_directory(tmp_path: Path) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    save(tmp_path)
    with pytest.raises(ModelPathError, match=r"no tokenizer\.json"):
        load_tokenizer(str(tmp_path))
    words = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({"a": 0, "b": 1, "?": 2, "</s>": 257}, unk_token="?")
    )
    words.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    words.add_special_tokens(["</s>"])
    words.save(str(tmp_path / "tokenizer.json"))
    tokenizer = load_tokenizer(str(tmp_path))
    assert tokenizer.encode("a b \ud800") == [0, 1, 2]
    assert tokenizer.decode([0, 1, 257]) == "a b"
    assert (tokenizer.eos_token_id, tokenizer.vocab_size) == (257, 259)
    (tmp_path / "tokenizer.json").write_text("{")
    with pytest.raises(ModelPathError, match="copy it again"):
        load_tokenizer(str(tmp_path))

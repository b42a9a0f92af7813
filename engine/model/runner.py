"""`ModelRunner`: runs the scheduler's batches on the model. Used by the scheduler thread alone."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import msgspec
import torch

from engine.core.batch import ForwardItem
from engine.core.io_struct import TokenLogprob
from engine.model.config import TINY, ModelConfig
from engine.model.kv_pool import KvPool
from engine.model.llama import MIN_ROWS, Llama, Span
from engine.model.sampler import sample
from engine.model.tokenizer import ByteTokenizer, check_model_path
from engine.model.weights import seeded_weights

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


class ModelRunner:
    """A model with its KV pool (`engine.core.batch.ForwardRunner`)."""

    eos_token_id = ByteTokenizer.eos_token_id

    def __init__(
        self, config: ModelConfig, num_pages: int, page_size: int, dtype: str, seed: int
    ) -> None:
        torch.set_num_threads(1)
        self._config = config
        self._dtype = DTYPES[dtype]
        self._kv = KvPool(config, num_pages, page_size, DTYPES[dtype])
        weights = seeded_weights(config, seed, DTYPES[dtype])
        self._model = Llama(config, weights, num_pages * page_size)
        self._masks: dict[tuple[int, int], torch.Tensor] = {}
        identity = msgspec.json.encode([config, dtype, seed, page_size])
        self.fingerprint = hashlib.sha256(identity).hexdigest()[:16]

    @property
    def page_bytes(self) -> int:
        return self._kv.page_bytes

    @property
    def vocab_size(self) -> int:
        return self._config.vocab_size

    @torch.inference_mode()
    def forward(self, items: Sequence[ForwardItem]) -> list[TokenLogprob | None]:
        """Run one batch; one entry an item, None where no token was wanted."""
        spans, token_ids, positions = self._lay_out(items)
        hidden = self._model.forward(token_ids, positions, spans, self._kv)
        wanting = [index for index, item in enumerate(items) if item.wants_token]
        result: list[TokenLogprob | None] = [None] * len(items)
        if wanting:
            last_rows = torch.tensor([spans[i].first + spans[i].count - 1 for i in wanting])
            logits = self._model.logits(hidden[last_rows])
            for row, index in enumerate(wanting):
                result[index] = sample(logits[row], items[index])
        return result

    def _lay_out(
        self, items: Sequence[ForwardItem]
    ) -> tuple[list[Span], torch.Tensor, torch.Tensor]:
        """Rows of all items one after the other, padded to the fewest rows a matmul gets."""
        spans: list[Span] = []
        token_ids: list[int] = []
        positions: list[int] = []
        for item in items:
            count = len(item.input_ids)
            num_pages = -(-(item.start + count) // self._kv.page_size)
            pages = torch.tensor(item.page_ids[:num_pages])
            mask = self._mask(item.start, count) if count > 1 else None
            spans.append(Span(len(token_ids), count, item.start, pages, mask))
            token_ids.extend(item.input_ids)
            positions.extend(range(item.start, item.start + count))
        padding = [0] * max(0, MIN_ROWS - len(token_ids))
        return spans, torch.tensor(token_ids + padding), torch.tensor(positions + padding)

    def _mask(self, start: int, count: int) -> torch.Tensor:
        """Additive causal mask of a chunk, once a query head of a group."""
        key = (start, count)
        if key not in self._masks:
            if len(self._masks) > 64:
                self._masks.clear()
            hidden = torch.full((count, start + count), -torch.inf).triu(diagonal=start + 1)
            self._masks[key] = hidden.to(self._dtype).repeat(self._config.group_size, 1)
        return self._masks[key]

    def gather_pages(self, page_ids: Sequence[int]) -> bytes:
        """Copy pages out: len(page_ids) * page_bytes bytes, page-major."""
        return self._kv.gather(page_ids)

    def scatter_pages(self, page_ids: Sequence[int], data: bytes | memoryview) -> None:
        """Copy pages in; the inverse of `gather_pages`."""
        self._kv.scatter(page_ids, data)


def load_runner(
    model_path: str, num_pages: int, page_size: int, dtype: str, seed: int, device: str
) -> ModelRunner:
    """The runner for ``--model-path``. Raises ModelPathError for a model that is not there."""
    check_model_path(model_path)
    if device != "cpu":
        raise ValueError(f"--device {device} is not supported yet; use --device cpu")
    return ModelRunner(TINY, num_pages, page_size, dtype, seed)

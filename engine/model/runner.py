"""`ModelRunner`: the forward runner of the scheduler loop, and how it is loaded.

Call `limit_torch_threads` before this module is imported.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from engine.core.batch import Cancelled, ForwardItem, ForwardResult, ShouldStop, never
from engine.model.batch_plan import make_plan
from engine.model.config import TINY, TINY_MODEL, ModelConfig
from engine.model.device import find_device, find_dtype
from engine.model.fingerprint import fingerprint
from engine.model.kv_pool import KvPool
from engine.model.llama import Llama
from engine.model.rope import Rope
from engine.model.sampler import sample
from engine.model.seeded import seeded_source
from engine.model.stable_rows import find_stable_rows
from engine.model.weights import TensorSource, Weights, build_weights


class ModelRunner:
    """A model, its KV pool and the sampler (`engine.core.batch.ForwardRunner`).

    Without ``source`` the weights are random, from ``seed``. ``checkpoint`` names the weights of
    ``source`` in the fingerprint.
    """

    def __init__(
        self,
        config: ModelConfig,
        num_pages: int,
        page_size: int,
        dtype: str,
        seed: int,
        *,
        device: str = "cpu",
        source: TensorSource | None = None,
        checkpoint: str = "",
    ) -> None:
        torch.set_num_threads(1)
        self.config = config
        self.fingerprint = fingerprint(config, page_size, dtype, seed, checkpoint)
        torch_device, torch_dtype = find_device(device), find_dtype(dtype)
        with torch.inference_mode():
            weights = build_weights(
                config, source or seeded_source(seed), torch_dtype, torch_device
            )
            rope = Rope(config, num_pages * page_size, torch_device)
            self._pool = KvPool(config, num_pages, page_size, torch_dtype, torch_device)
            self._min_rows = find_stable_rows(_shapes(weights))
            self._model = Llama(config, weights, rope, self._pool)

    @property
    def page_bytes(self) -> int:
        """Bytes of one KV page over all layers, K and V."""
        return self._pool.page_bytes

    @property
    def eos_token_id(self) -> int:
        return self.config.eos_token_id

    @property
    def vocab_size(self) -> int:
        return self.config.vocab_size

    def forward(
        self, items: Sequence[ForwardItem], should_stop: ShouldStop = never
    ) -> ForwardResult:
        """Run one batch; one entry an item, None where no token was wanted.

        `Cancelled` if ``should_stop``, asked twice a layer, said yes. Raises PageTableError before
        anything is written.
        """
        if not items:
            return []
        with torch.inference_mode():
            plan = make_plan(items, self._pool, self._min_rows)
            logits = self._model.forward(plan, should_stop)
            if isinstance(logits, Cancelled):
                return logits
            if logits is None:
                return [None] * len(items)
            tokens = iter(sample(logits, [item for item in items if item.wants_token]))
        return [next(tokens) if item.wants_token else None for item in items]

    def gather_pages(self, page_ids: Sequence[int]) -> bytes:
        """Copy pages out: len(page_ids) * page_bytes bytes, page-major. Raises PageTableError."""
        with torch.inference_mode():
            return self._pool.gather_pages(page_ids)

    def scatter_pages(self, page_ids: Sequence[int], data: bytes | memoryview) -> None:
        """Copy pages in; the inverse of `gather_pages`. Raises PageDataError, PageTableError."""
        with torch.inference_mode():
            self._pool.scatter_pages(page_ids, data)


def _shapes(weights: Weights) -> list[torch.Tensor]:
    """One matrix of each shape that rows are multiplied with."""
    layer = weights.layers[0]
    return [layer.qkv, layer.o, layer.gate_up, layer.down, weights.lm_head]


def load_runner(
    model_path: str, num_pages: int, page_size: int, dtype: str, seed: int, device: str
) -> ModelRunner:
    """The runner of ``tiny`` or of a Hugging Face directory. Raises ModelError."""
    if model_path == TINY_MODEL:
        return ModelRunner(TINY, num_pages, page_size, dtype, seed, device=device)
    from engine.model.hf import load_checkpoint

    checkpoint = load_checkpoint(model_path)
    return ModelRunner(
        checkpoint.config,
        num_pages,
        page_size,
        dtype,
        seed,
        device=device,
        source=checkpoint.source,
        checkpoint=checkpoint.digest,
    )

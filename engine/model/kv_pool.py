"""Paged KV tensors. Only the scheduler thread touches them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from engine.model.config import ModelConfig


class KvPool:
    """[layers, K/V, pages, kv_heads, page_size, head_dim]; whole pages are gathered, never tokens."""

    def __init__(
        self, config: ModelConfig, num_pages: int, page_size: int, dtype: torch.dtype
    ) -> None:
        self.page_size = page_size
        self._shape = (config.num_key_value_heads, page_size, config.head_dim)
        self._layers = config.num_hidden_layers
        self._tensor = torch.zeros(self._layers, 2, num_pages, *self._shape, dtype=dtype)

    @property
    def page_bytes(self) -> int:
        per_half = self._shape[0] * self._shape[1] * self._shape[2] * self._tensor.element_size()
        return self._layers * 2 * per_half

    def write(
        self, layer: int, pages: torch.Tensor, offsets: torch.Tensor, kv: torch.Tensor
    ) -> None:
        """Put K and V of some tokens in place. kv: [2, kv_heads, tokens, head_dim]."""
        for half in range(2):
            self._tensor[layer, half][pages, :, offsets] = kv[half].transpose(0, 1)

    def read(self, layer: int, pages: torch.Tensor, num_tokens: int) -> torch.Tensor:
        """K and V of a request's first tokens: [2, kv_heads, num_tokens, head_dim]."""
        found = self._tensor[layer].index_select(1, pages)
        heads, page_size, head_dim = self._shape
        flat = found.transpose(1, 2).reshape(2, heads, len(pages) * page_size, head_dim)
        return flat[:, :, :num_tokens]

    def gather(self, page_ids: Sequence[int]) -> bytes:
        """Page-major copy of pages."""
        found = self._tensor.index_select(2, torch.tensor(page_ids))
        return found.permute(2, 0, 1, 3, 4, 5).contiguous().view(torch.uint8).numpy().tobytes()

    def scatter(self, page_ids: Sequence[int], data: bytes | memoryview) -> None:
        """The inverse of `gather`."""
        array = np.frombuffer(data, dtype=np.uint8).copy()
        pages = torch.from_numpy(array).view(self._tensor.dtype)
        pages = pages.view(len(page_ids), self._layers, 2, *self._shape)
        self._tensor[:, :, torch.tensor(page_ids)] = pages.permute(1, 2, 0, 3, 4, 5)

"""`KvPool`: the paged KV cache."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from engine.model.config import ModelConfig
from engine.model.errors import PageDataError, PageTableError


class KvPool:
    """One tensor [num_pages, layers, 2 (K, V), kv_heads, page_size, head_dim].

    A page is one run of bytes over all layers, so that moving a page is one copy. A *block* is one
    layer's share of a page: number page * layers + layer. A *row* is one head's K or V of one token:
    number ((block * 2 + which) * kv_heads + head) * page_size + offset. Heads before tokens, so
    that blocks copied side by side give each head one run of tokens, which attention reads fastest.
    Touched by the scheduler thread only.
    """

    def __init__(
        self,
        config: ModelConfig,
        num_pages: int,
        page_size: int,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        self.num_pages = num_pages
        self.page_size = page_size
        self.num_layers = config.num_hidden_layers
        self._heads = (2, config.num_key_value_heads)
        num_blocks = num_pages * self.num_layers
        shape = (num_blocks, *self._heads, page_size, config.head_dim)
        self._blocks = torch.zeros(shape, dtype=dtype, device=device)
        self._rows = self._blocks.view(-1, config.head_dim)
        self._pages = self._blocks.view(torch.uint8).view(num_pages, -1)
        self._scratch = self._blocks.new_empty(0)
        heads = torch.arange(self.rows_per_token, device=device) * page_size
        layers = torch.arange(self.num_layers, device=device) * self.rows_per_token * page_size
        self._row_offsets = layers.view(-1, 1, 1) + heads
        self._layer_offsets = torch.arange(self.num_layers, device=device).unsqueeze(1)

    @property
    def page_bytes(self) -> int:
        return self._pages.shape[1]

    @property
    def rows_per_token(self) -> int:
        """K and V of all heads."""
        return self._heads[0] * self._heads[1]

    def index(self, numbers: Sequence[int]) -> torch.Tensor:
        """An index tensor on the pool's device."""
        return torch.tensor(numbers, dtype=torch.int64, device=self._blocks.device)

    def new_full(self, shape: tuple[int, ...], value: float) -> torch.Tensor:
        """A tensor of the pool's dtype and device."""
        return self._blocks.new_full(shape, value)

    def rows_of(self, pages: Sequence[int], offsets: Sequence[int]) -> torch.Tensor:
        """Rows [layers, tokens * rows_per_token] of tokens that stand at ``offsets`` of ``pages``."""
        rows_per_page = self.num_layers * self.rows_per_token * self.page_size
        first = self.index(pages) * rows_per_page + self.index(offsets)
        return (first.unsqueeze(1) + self._row_offsets).flatten(1)

    def blocks_of(self, pages: Sequence[int]) -> torch.Tensor:
        """Blocks [layers, pages] of ``pages``."""
        return self.index(pages) * self.num_layers + self._layer_offsets

    def write(self, rows: torch.Tensor, kv: torch.Tensor) -> None:
        """Store ``kv`` [tokens, 2 * kv_heads * head_dim], all K then all V of a token, at ``rows``."""
        self._rows.index_copy_(0, rows, kv.reshape(-1, self._rows.shape[1]))

    def read(self, blocks: torch.Tensor) -> torch.Tensor:
        """Copy ``blocks`` in order: [2, kv_heads, len(blocks) * page_size, head_dim].

        The result is a buffer that the next `read` overwrites (large fresh tensors cost page faults).
        """
        shape = (*self._heads, len(blocks), *self._blocks.shape[3:])
        size = math.prod(shape)
        if self._scratch.numel() < size:
            self._scratch = self._blocks.new_empty(2 * size)
        out = self._scratch[:size].view(shape)
        torch.index_select(self._blocks.permute(1, 2, 0, 3, 4), 2, blocks, out=out)
        return out.flatten(2, 3)

    def gather_pages(self, page_ids: Sequence[int]) -> bytes:
        """Copy pages out, page after page. Raises PageTableError."""
        self.check_pages(page_ids)
        if not self._pages.is_cpu:
            return self._pages.index_select(0, self.index(page_ids)).cpu().numpy().tobytes()
        pages = self._pages.numpy()
        return b"".join([pages[page].data for page in page_ids])

    def scatter_pages(self, page_ids: Sequence[int], data: bytes | memoryview) -> None:
        """Copy pages in; the inverse of `gather_pages`. Raises PageDataError, PageTableError."""
        self.check_pages(page_ids)
        size = memoryview(data).nbytes
        if size != len(page_ids) * self.page_bytes:
            raise PageDataError(
                f"{size} bytes for {len(page_ids)} pages of {self.page_bytes} bytes: "
                "both workers need the same model, dtype and page size"
            )
        if not page_ids:
            return
        # torch takes writable buffers only, hence the copy. Page by page: index_copy_ moves single bytes
        # and takes 10 times as long.
        pages = torch.frombuffer(bytearray(data), dtype=torch.uint8).to(self._pages.device)
        for page, content in zip(page_ids, pages.view(len(page_ids), -1).unbind(), strict=True):
            self._pages[page].copy_(content)

    def clear(self, page_ids: Sequence[int]) -> None:
        """Zero pages. What is behind a request's last token is masked, but 0 * NaN is NaN: broken
        bytes of a page's former owner must not reach the next one."""
        self._pages.index_fill_(0, self.index(page_ids), 0)

    def check_pages(self, page_ids: Sequence[int]) -> None:
        """Raises PageTableError if a page does not exist."""
        if page_ids and not 0 <= min(page_ids) <= max(page_ids) < self.num_pages:
            raise PageTableError(
                f"pages {min(page_ids)} to {max(page_ids)}: the pool has 0 to {self.num_pages - 1}"
            )

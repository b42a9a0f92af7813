"""`KvPool`: the paged KV cache."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from engine.model.config import ModelConfig
from engine.model.errors import PageDataError, PageTableError


class KvPool:
    """One tensor [num_pages, layers, page_size, 2 (K, V), kv_heads, head_dim].

    A page is one run of bytes over all layers, so that moving a page is one copy; K and V of a token
    are neighbours, so that a layer writes and reads both at once. A *block* is one layer's share of
    a page, number page * layers + layer. A *slot* is one token's share of a block, number
    block * page_size + offset. Touched by the scheduler thread only.
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
        blocks = num_pages * self.num_layers
        token_shape = (2, config.num_key_value_heads, config.head_dim)
        self._blocks = torch.zeros((blocks, page_size, *token_shape), dtype=dtype, device=device)
        self._slots = self._blocks.view(blocks * page_size, -1)
        self._pages = self._blocks.view(torch.uint8).view(num_pages, -1)
        self._scratch = self._blocks.new_empty((0, page_size, *token_shape))

    @property
    def page_bytes(self) -> int:
        return self._pages.shape[1]

    def write(self, slots: torch.Tensor, kv: torch.Tensor) -> None:
        """Store ``kv`` [tokens, 2 * kv_heads * head_dim], K then V of a token, at ``slots``."""
        self._slots.index_copy_(0, slots, kv)

    def read(self, blocks: torch.Tensor) -> torch.Tensor:
        """Copy ``blocks`` in order: [len(blocks) * page_size, 2, kv_heads, head_dim].

        The result is a buffer that the next `read` overwrites (large fresh tensors cost page faults).
        """
        count = blocks.shape[0]
        if self._scratch.shape[0] < count:
            self._scratch = self._blocks.new_empty((2 * count, *self._blocks.shape[1:]))
        out = self._scratch[:count]
        torch.index_select(self._blocks, 0, blocks, out=out)
        return out.flatten(0, 1)

    def gather_pages(self, page_ids: Sequence[int]) -> bytes:
        """Copy pages out, page after page. Raises PageTableError."""
        pages = self._pages.index_select(0, self._page_index(page_ids))
        return pages.cpu().numpy().tobytes()

    def scatter_pages(self, page_ids: Sequence[int], data: bytes | memoryview) -> None:
        """Copy pages in; the inverse of `gather_pages`. Raises PageDataError, PageTableError."""
        index = self._page_index(page_ids)
        size = memoryview(data).nbytes
        if size != len(page_ids) * self.page_bytes:
            raise PageDataError(
                f"{size} bytes for {len(page_ids)} pages of {self.page_bytes} bytes: "
                "both workers need the same model, dtype and page size"
            )
        if page_ids:
            # torch takes writable buffers only, hence the copy.
            pages = torch.frombuffer(bytearray(data), dtype=torch.uint8)
            self._pages.index_copy_(0, index, pages.view(len(page_ids), -1).to(index.device))

    def check_pages(self, page_ids: Sequence[int]) -> None:
        """Raises PageTableError if a page does not exist."""
        if page_ids and not 0 <= min(page_ids) <= max(page_ids) < self.num_pages:
            raise PageTableError(
                f"pages {min(page_ids)} to {max(page_ids)}: the pool has 0 to {self.num_pages - 1}"
            )

    def _page_index(self, page_ids: Sequence[int]) -> torch.Tensor:
        self.check_pages(page_ids)
        return torch.tensor(page_ids, dtype=torch.int64, device=self._pages.device)

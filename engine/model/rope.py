"""Rotary position embedding (Su et al. 2021) as one complex product."""

from __future__ import annotations

import torch

from engine.model.config import ModelConfig


class Rope:
    """Turns of all positions below ``num_positions``: complex [num_positions, 1, head_dim / 2]."""

    def __init__(self, config: ModelConfig, num_positions: int, device: torch.device) -> None:
        half = config.head_dim // 2
        exponents = torch.arange(half, dtype=torch.float64) / half
        speeds = config.rope_theta**-exponents
        angles = torch.outer(torch.arange(num_positions, dtype=torch.float64), speeds)
        turns = torch.polar(torch.ones_like(angles), angles)
        self._turns = turns.to(torch.complex64).unsqueeze(1).to(device)

    def at(self, positions: torch.Tensor) -> torch.Tensor:
        """Turns of ``positions`` [tokens]: complex [tokens, 1, head_dim / 2]."""
        return self._turns[positions]

    @staticmethod
    def rotate_(heads: torch.Tensor, turns: torch.Tensor) -> None:
        """Turn ``heads`` [tokens, heads, head_dim] in place; pairs stand side by side."""
        pairs = (*heads.shape[:2], -1, 2)
        if heads.dtype == torch.float32:
            torch.view_as_complex(heads.view(pairs)).mul_(turns)
            return
        wide = torch.view_as_complex(heads.float().view(pairs))
        heads.copy_(torch.view_as_real(wide.mul_(turns)).flatten(2))

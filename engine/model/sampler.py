"""Next tokens from logits: greedy, or by temperature with a seed."""

from __future__ import annotations

import random
from collections.abc import Sequence

import torch

from engine.core.batch import ForwardItem
from engine.core.io_struct import TokenLogprob


def sample(logits: torch.Tensor, items: Sequence[ForwardItem]) -> list[TokenLogprob]:
    """One token an item from ``logits`` [items, vocab], natural logarithms.

    ``logprob`` and ``top`` are the model's own, before temperature; ``margin`` is always there. Rows
    do not see each other.
    """
    logits = logits.float()
    logprobs = torch.log_softmax(logits, dim=-1)
    best = logits.max(dim=-1)  # several times faster than argmax, and than topk
    second = logits.scatter(1, best.indices.unsqueeze(1), float("-inf")).amax(dim=-1)
    margins = (best.values - second).tolist()
    tokens: list[int] = best.indices.tolist()
    for row, item in enumerate(items):
        if item.sampling_params.temperature > 0:
            tokens[row] = _draw(logits[row], item)
    chosen = logprobs.gather(1, torch.tensor(tokens, device=logits.device).unsqueeze(1))
    tops = _tops(logprobs, items)
    return [
        TokenLogprob(token_id=token, logprob=logprob, margin=margin, top=top)
        for token, logprob, margin, top in zip(
            tokens, chosen[:, 0].tolist(), margins, tops, strict=True
        )
    ]


def _draw(logits: torch.Tensor, item: ForwardItem) -> int:
    """Inverse CDF at a number that depends on the request's seed and the token's index alone."""
    params = item.sampling_params
    # A string seed is hashed whole, so that no two pairs share a number; torch keeps 32 bits of it.
    number = random.Random(f"{params.seed}:{item.output_index}").random()
    weights = torch.softmax(logits.double() / params.temperature, dim=-1)
    cumulated = weights.cumsum(dim=-1)
    token = torch.searchsorted(cumulated, cumulated[-1:] * number, right=True)
    return min(int(token), len(logits) - 1)


def _tops(
    logprobs: torch.Tensor, items: Sequence[ForwardItem]
) -> list[tuple[tuple[int, float], ...]]:
    """Each item's ``top_logprobs_num`` best (token id, logprob), best first."""
    most = max(item.top_logprobs_num for item in items)
    if most == 0:
        return [()] * len(items)
    top = logprobs.topk(min(most, logprobs.shape[1]), dim=-1)
    return [
        tuple(zip(ids[: item.top_logprobs_num], values[: item.top_logprobs_num], strict=True))
        for item, ids, values in zip(items, top.indices.tolist(), top.values.tolist(), strict=True)
    ]

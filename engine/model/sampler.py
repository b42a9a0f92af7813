"""From logits to a token: greedy or by temperature, always with the margin of the two best."""

from __future__ import annotations

import torch

from engine.core.batch import ForwardItem
from engine.core.io_struct import TokenLogprob


def sample(logits: torch.Tensor, item: ForwardItem) -> TokenLogprob:
    """logits: [vocab], fp32. ``margin`` is the difference of the two best logits."""
    count = max(2, item.top_logprobs_num)
    best, best_ids = torch.topk(logits, count)
    normalizer = torch.logsumexp(logits, dim=-1)
    ids, values = best_ids.tolist(), (best - normalizer).tolist()
    if item.sampling_params.temperature > 0:
        token_id = _draw(logits, item)
        logprob = float(logits[token_id] - normalizer)
    else:
        token_id, logprob = ids[0], values[0]
    top = tuple(zip(ids, values, strict=True))[: item.top_logprobs_num]
    return TokenLogprob(
        token_id=token_id, logprob=logprob, margin=float(best[0] - best[1]), top=top
    )


def _draw(logits: torch.Tensor, item: ForwardItem) -> int:
    """The draw depends on the request's seed and the token's index alone."""
    params = item.sampling_params
    seed = (params.seed * 1_000_003 + item.output_index) % (1 << 62)
    generator = torch.Generator().manual_seed(seed)
    weights = torch.softmax(logits / params.temperature, dim=-1)
    return int(torch.multinomial(weights, 1, generator=generator))

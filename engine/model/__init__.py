"""The transformer in eager torch: paged KV cache, sampler, forward runner. CPU first."""

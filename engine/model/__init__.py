"""The model under the scheduler: transformer, paged KV tensors, sampler and forward runner.

Torch lives here alone. ``tokenizer``, ``config``, ``errors`` and ``torch_threads`` do without it.
"""

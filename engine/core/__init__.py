"""Decisions only: scheduler, queues, abort paths, KV state machines, allocators.

Everything from outside comes in as an argument, everything wanted done goes out as a value. No sockets,
threads, clock or torch in here, so every race can be replayed.
"""

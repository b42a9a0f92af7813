"""Chaos runs: links, faults, guards, the heal ladder, scenarios, the oracle and its verdicts."""

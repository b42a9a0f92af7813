"""Benchmarks of the speed targets: `python -m bench`. Each module measures one thing in its own process."""

"""Span store, report and exports; everything here reads a run directory."""

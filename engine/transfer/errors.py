"""Errors of the links.

TransferError
├── FrameError      a frame that is not ours, too new, or malformed (counted and dropped)
└── RouteError      the rendezvous did not answer, or not sensibly
"""

from __future__ import annotations


class TransferError(Exception):
    """Root of the links' errors."""


class FrameError(TransferError):
    """A frame that cannot be read; it is counted and dropped, and never ends the loop."""


class RouteError(TransferError):
    """No route to a prefill; the message says what was asked and what came."""

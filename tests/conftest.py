"""What every test may rely on."""

from __future__ import annotations

import signal

# Started in the background by a script, we ignore Ctrl-C, and every program that a test starts would too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

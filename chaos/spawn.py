"""Starts a program that dies with its parent: ``python -I -S spawn.py PARENT NICE PROGRAM ARG...``.

A file of its own, run by path, so that it imports next to nothing. PR_SET_PDEATHSIG survives the exec.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1
LEADER_VARIABLE = "SEVERANCE_LEADER"
"""Set to this pid for the program and all that it starts, whatever sessions those make for themselves."""


def main() -> None:
    parent, nice, argv = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        # The parent may have died between the fork and the line above; then no signal comes.
        if os.getppid() != parent:
            sys.exit(1)
    if nice:
        os.nice(nice)
    os.environ[LEADER_VARIABLE] = str(os.getpid())
    try:
        os.execvp(argv[0], argv)
    except OSError as error:
        sys.exit(f"cannot start {argv[0]}: {error.strerror}")


if __name__ == "__main__":
    main()

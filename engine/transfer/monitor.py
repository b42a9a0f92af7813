"""Told by zmq when a dialing socket has a connection again: what was on the old one may be lost."""

from __future__ import annotations

from collections.abc import Sequence

import zmq

_EVENT_BYTES = 2


def watch(socket: zmq.Socket[bytes]) -> zmq.Socket[bytes]:
    """A PAIR socket that gets a message for each connection that ``socket`` makes."""
    return socket.get_monitor_socket(zmq.EVENT_HANDSHAKE_SUCCEEDED)


def is_connected_event(frames: Sequence[bytes | memoryview]) -> bool:
    """Anything else (the monitor's own end) is no news."""
    event = int.from_bytes(frames[0][:_EVENT_BYTES], "little") if frames else 0
    return event == zmq.EVENT_HANDSHAKE_SUCCEEDED


def close_watched(socket: zmq.Socket[bytes], monitor: zmq.Socket[bytes]) -> None:
    """Close both, in the order that leaves no thread of zmq talking to a closed monitor; once is enough."""
    if socket.closed:
        return
    socket.disable_monitor()
    monitor.close()
    socket.close()

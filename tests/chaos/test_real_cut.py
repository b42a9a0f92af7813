"""`stall` against a real cut: a cable pulled between two network namespaces, and put back."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
import zmq

FAR = """
import sys, zmq
pull = zmq.Context().socket(zmq.PULL)
pull.bind("tcp://10.213.7.2:5555")
print("up", flush=True)
number = ""
while number != "end":
    number = pull.recv().decode()
    print(number, flush=True)
"""
CUT_S = 1.5


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


@pytest.fixture
def namespace() -> Iterator[str]:
    """A namespace joined to this one by a cable: 10.213.7.1 here, 10.213.7.2 there."""
    name, here, there = f"sev{os.getpid()}", f"svh{os.getpid()}"[:15], f"svt{os.getpid()}"[:15]
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("network namespaces need root and the program ip (iproute2)")
    try:
        ip("netns", "add", name)
    except subprocess.CalledProcessError as error:
        pytest.skip(f"no network namespace can be made here: {error.stderr.decode().strip()}")
    try:
        ip("link", "add", here, "type", "veth", "peer", "name", there, "netns", name)
        ip("addr", "add", "10.213.7.1/30", "dev", here)
        ip("link", "set", here, "up")
        ip("-n", name, "addr", "add", "10.213.7.2/30", "dev", there)
        ip("-n", name, "link", "set", there, "up")
        ip("-n", name, "link", "set", "lo", "up")
        yield name
    finally:
        ip("netns", "del", name)


def test_a_pulled_cable_does_what_stall_does(namespace: str) -> None:
    """Nothing lost, in order, the same connection: what `stall` declares and test_cut_modes measures.

    What differs: TCP's own backoff delays the first byte after the cable is back; a stall's comes at once.
    """
    cable = f"svt{os.getpid()}"[:15]
    command = ["ip", "netns", "exec", namespace, sys.executable, "-c", FAR]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as far,
        zmq.Context() as context,
        context.socket(zmq.PUSH) as push,
    ):
        assert far.stdout is not None
        assert far.stdout.readline() == "up\n"
        events = push.get_monitor_socket(zmq.EVENT_DISCONNECTED | zmq.EVENT_CONNECTED)
        push.linger = 0
        push.connect("tcp://10.213.7.2:5555")
        push.send(b"before")
        assert far.stdout.readline() == "before\n"
        ip("-n", namespace, "link", "set", cable, "down")
        begun, sent = time.monotonic(), 0
        while time.monotonic() < begun + CUT_S:
            push.send(b"%d" % sent)
            sent += 1
            time.sleep(0.01)
        ip("-n", namespace, "link", "set", cable, "up")
        mended = time.monotonic()
        first = far.stdout.readline()
        first_ms = (time.monotonic() - mended) * 1e3
        num_events = 0
        while events.poll(0):
            events.recv_multipart()
            num_events += 1
        push.send(b"end")
        rest = [line.strip() for line in far.stdout]
        push.disable_monitor()
        events.close()
    got = [first.strip(), *rest]
    print(f"MEASURED real cut | sent={sent} got={len(got) - 1} first_ms={first_ms:.0f}")
    assert got == [*map(str, range(sent)), "end"], "lost or out of order"
    assert num_events == 1, "connected once and never disconnected"

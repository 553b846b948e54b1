"""Pauses a virtual machine, lets it go on, and waits for its end.

    python3 tests/vm/pause.py QMP GO    when the guest says so by a byte to the socket GO; it is told so in the end
"""

import json
import socket
import sys
import time


def connected(path):
    """A socket that others may listen at later."""
    while True:
        there = socket.socket(socket.AF_UNIX)
        try:
            there.connect(path)
            return there
        except OSError:
            time.sleep(0.05)  # Time: between two looks.


def main():
    """See above."""
    go = connected(sys.argv[2])
    go.recv(1)
    with connected(sys.argv[1]) as qmp, qmp.makefile("rw") as lines:
        lines.readline()

        def ask(command):
            lines.write(json.dumps({"execute": command}) + "\n")
            lines.flush()
            while "return" not in json.loads(lines.readline()):
                pass

        ask("qmp_capabilities")
        # Time: what was recorded before is handed over in 200 ms, so that no packet is of both sides of the pause.
        time.sleep(2)
        ask("stop")
        # Time: clocks are to be found a second apart.
        time.sleep(1)
        ask("cont")
    # Time: until the clocks were compared again.
    time.sleep(0.5)
    go.sendall(b"g")
    while go.recv(1):
        pass


main()

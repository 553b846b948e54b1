"""Kills a virtual machine when it says so.

    python3 tests/vm/kill.py PID GO    by a byte to the socket GO it says that it is ready, by another one that it is to end
"""

import os
import signal
import socket
import sys
import time


def main():
    """See above."""
    go = socket.socket(socket.AF_UNIX)
    while go.connect_ex(sys.argv[2]):
        time.sleep(0.05)  # Time: between two looks.
    for answer in (b"g", None):
        assert go.recv(1), "it has ended before"
        if answer:
            go.sendall(answer)
    os.kill(int(sys.argv[1]), signal.SIGKILL)


main()

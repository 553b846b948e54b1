"""Pauses a virtual machine, lets it go on, and waits for its end.

    python3 tests/vm/pause.py QMP GO STRATA TRACE    when the guest says so by a byte to the socket GO, and the 100 calls that
                                                     it has made by then are in TRACE; it is told so in the end
"""

import json
import socket
import subprocess
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


def has_all(strata, trace):
    """Is what was recorded before handed over? Then no packet is of both sides of the pause."""
    shown = subprocess.run(
        [strata, "view", "--format", "text", trace], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False
    )
    return shown.stdout.count(b" syscall_exit_getppid: ") >= 100


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
        while not has_all(*sys.argv[3:]):
            time.sleep(0.2)  # Time: between two looks.
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

"""Moves a virtual machine to another hypervisor, and kills that, each time when the machine says so.

    python3 tests/vm/kill.py GO QMP PORT QEMU ARGUMENT...    by a byte to the socket GO it says that it is ready to be moved, and
                                                             is told when it was; by another one that it is to end. QMP: where it
                                                             is asked; PORT: where its recorder's words come from; then the
                                                             command that it was started by
"""

import contextlib
import json
import os
import socket
import subprocess
import sys
import time


def socket_at(path, old=None):
    """Connected to the socket that is there, if it is another one than `old`, or once it is; and which one it is."""
    while True:
        there = socket.socket(socket.AF_UNIX)
        try:
            number = os.stat(path).st_ino
            if number != old:
                there.connect(path)
                return there, number
        except OSError:
            pass
        there.close()
        time.sleep(0.05)  # Time: between two looks.


class Asked:
    """A hypervisor that is asked by QMP."""

    def __init__(self, there):
        self.lines = there.makefile("rw")
        self.lines.readline()
        self.ask("qmp_capabilities")

    def ask(self, command, **arguments):
        """Its answer."""
        self.lines.write(json.dumps({"execute": command, "arguments": arguments}) + "\n")
        self.lines.flush()
        while True:
            answer = json.loads(self.lines.readline())
            assert "error" not in answer, answer
            if "return" in answer:
                return answer["return"]


def moved(source, new, to):
    """The machine is at `new`, which has the same memory."""
    shared = [{"capability": "x-ignore-shared", "state": True}]
    new.ask("migrate-set-capabilities", capabilities=shared)
    source.ask("migrate-set-capabilities", capabilities=shared)
    new.ask("migrate-incoming", uri=f"unix:{to}")
    source.ask("migrate", uri=f"unix:{to}")
    while source.ask("query-migrate").get("status") != "completed":
        assert source.ask("query-migrate").get("status") != "failed", source.ask("query-migrate")
        time.sleep(0.02)  # Time: between two looks.


def connections(path):
    """How many there are to sockets with this name, by the kernel's word."""
    with open("/proc/net/unix", encoding="utf-8", errors="replace") as sockets:
        rows = [line.split() for line in sockets]
    return sum(row[5] == "03" and row[-1] == path for row in rows)


def main():
    """See above."""
    path, qmp, port, *command = sys.argv[1:]
    go, go_number = socket_at(path)
    there, number = socket_at(qmp)
    source = Asked(there)
    assert go.recv(1), "it has ended before"
    # Time: what was recorded before is handed over in 200 ms, so that no packet is of both hypervisors.
    time.sleep(2)
    with subprocess.Popen([*command, "-incoming", "defer"], stdin=subprocess.DEVNULL) as new:
        try:
            moved(source, Asked(socket_at(qmp, number)[0]), f"{path}.moved")
            go, _ = socket_at(path, go_number)
            while connections(port) < 2:
                time.sleep(0.05)  # Time: between two looks, until the host's recorder is at both.
            with contextlib.suppress(ValueError):
                source.ask("quit")
            go.sendall(b"g")
            assert go.recv(1), "it has ended before"
        finally:
            new.kill()
            # If it could not be moved.
            with contextlib.suppress(OSError, ValueError):
                source.ask("quit")


main()

"""Runs a virtual machine, and gives it one CPU more when it says so.

    python3 tests/vm/add_cpu.py QMP CONSOLE COMMAND...    once a line of the file CONSOLE has "guest: wants a CPU"; ends as COMMAND

The kind of CPU, and where it goes, is what QEMU says that can be plugged in.
"""

import json
import os
import socket
import subprocess
import sys
import time


def wanted(console):
    """Has the guest said so?"""
    return os.path.exists(console) and b"guest: wants a CPU" in open(console, "rb").read()


def add_cpu(path):
    """Plugs in the first one that is not there."""
    with socket.socket(socket.AF_UNIX) as qmp:
        qmp.connect(path)
        with qmp.makefile("rw") as lines:
            lines.readline()

            def ask(command, **arguments):
                lines.write(json.dumps({"execute": command, "arguments": arguments}) + "\n")
                lines.flush()
                while True:
                    answer = json.loads(lines.readline())
                    if "error" in answer:
                        sys.exit(f"add_cpu.py: {command}: {answer['error']['desc']}")
                    if "return" in answer:
                        return answer["return"]

            ask("qmp_capabilities")
            free = [one for one in ask("query-hotpluggable-cpus") if "qom-path" not in one]
            if not free:
                sys.exit("add_cpu.py: the machine has no place for another CPU")
            ask("device_add", driver=free[-1]["type"], id="added", **free[-1]["props"])


def main():
    """See above."""
    qmp, console, *command = sys.argv[1:]
    machine = subprocess.Popen(command)
    while machine.poll() is None and not wanted(console):
        time.sleep(0.1)  # Time: between two looks.
    try:
        if machine.poll() is None:
            add_cpu(qmp)
    finally:
        status = machine.wait()
    sys.exit(status if status >= 0 else 128 - status)


main()

"""What QEMU is between the two recorders: a socket for the host's, one for the guest's, and bytes from each to the other.

    python3 tests/channel.py HOST GUEST...   listens at both paths, and at those of further channels of the same machine
    python3 tests/channel.py HOST --say HEX  there is no guest: says these bytes, over and over, to whoever comes

tcp:FILE in the place of a path listens by TCP on this machine, at the port that FILE has then.

Ends when either of them has gone, of each channel, and what it said has been handed on.
"""

import os
import selectors
import socket
import sys
import threading


def listening(path):
    """A socket that others find at once when its name is there."""
    if path.startswith("tcp:"):
        path = path.removeprefix("tcp:")
        there = socket.create_server(("127.0.0.1", 0), backlog=1)
        with open(path + ".new", "w", encoding="ascii") as port:
            print(there.getsockname()[1], file=port)
    else:
        there = socket.socket(socket.AF_UNIX)
        there.bind(path + ".new")
        there.listen(1)
    os.rename(path + ".new", path)
    return there


def forward(one, other):
    """Until one of them has gone."""
    with selectors.DefaultSelector() as ready:
        ready.register(one, selectors.EVENT_READ, other)
        ready.register(other, selectors.EVENT_READ, one)
        while True:
            for key, _ in ready.select():
                try:
                    said = key.fileobj.recv(1 << 16)
                    if not said:
                        return
                    key.data.sendall(said)
                except OSError:
                    return


def main():
    """See above."""
    host = listening(sys.argv[1])
    if sys.argv[2] == "--say":
        peer = host.accept()[0]
        try:
            while True:
                peer.sendall(bytes.fromhex(sys.argv[3]))
        except OSError:
            return
    channels = [(host, listening(sys.argv[2]))]
    channels += [tuple(map(listening, pair)) for pair in zip(sys.argv[3::2], sys.argv[4::2])]
    if channels[1:]:
        # As a hypervisor that says so (debug-threads=on): who listens for several is taken for one machine only then.
        with open("/proc/self/comm", "w", encoding="ascii") as name:
            name.write("ALL CPUs/TCG")
    for host, guest in channels:
        threading.Thread(target=lambda ends: forward(*(end.accept()[0] for end in ends)), args=((host, guest),)).start()


main()

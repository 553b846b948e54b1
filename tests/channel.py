"""What QEMU is between the two recorders: a socket for the host's, one for the guest's, and bytes from each to the other.

    python3 tests/channel.py HOST GUEST      listens at both paths
    python3 tests/channel.py HOST --say HEX  there is no guest: says these bytes, over and over, to whoever comes

Ends when either of them has gone, and what it said has been handed on.
"""

import os
import selectors
import socket
import sys


def listening(path):
    """A socket that others find at once when its name is there."""
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
    guest = listening(sys.argv[2])
    forward(host.accept()[0], guest.accept()[0])


main()

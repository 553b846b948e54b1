"""What QEMU is between the two recorders: a socket for the host's, one for the guest's, and bytes from each to the other.

    python3 tests/channel.py HOST GUEST...   listens at both paths, and at those of further channels of the same machine
    python3 tests/channel.py HOST --say HEX  there is no guest: says these bytes, over and over, to whoever comes
    python3 tests/channel.py HOST GUEST --moves FILE    when FILE has the word "live", another process takes the guest over
                                                        while it runs, and with "restored" a while after this one has ended

tcp:FILE in the place of a path listens by TCP on this machine, at the port that FILE has then.

Ends when either of them has gone, of each channel, and what it said has been handed on.
"""

import contextlib
import os
import selectors
import socket
import sys
import threading
import time


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


def forward(one, other, is_over=lambda: False):
    """Until one of them has gone, or it is over; then nothing is on its way here."""
    with selectors.DefaultSelector() as ready:
        ready.register(one, selectors.EVENT_READ, other)
        ready.register(other, selectors.EVENT_READ, one)
        while not is_over():
            for key, _ in ready.select(0.05):
                try:
                    said = key.fileobj.recv(1 << 16)
                    if not said:
                        return
                    key.data.sendall(said)
                except OSError:
                    return


def moves(path, host, guest, order):
    """As one process until there is the order, then as another one, which listens at the path in its place."""
    one, other = host.accept()[0], guest.accept()[0]
    word = []

    def is_ordered():
        with contextlib.suppress(OSError), open(order, encoding="ascii") as file:
            word[:] = file.read().split()
        return bool(word)

    forward(one, other, is_ordered)
    (here, there), (gone, stays) = os.pipe(), os.pipe()
    if os.fork():
        os.close(stays)
        if word == ["live"]:
            os.close(there)
            # Until the recorder is at the other one.
            os.read(here, 1)
        os._exit(0)
    one.close()
    host.close()
    os.close(gone)
    if word != ["live"]:
        # The first one has ended when nobody reads.
        with contextlib.suppress(BrokenPipeError):
            while True:
                os.write(stays, b"x")
                time.sleep(0.05)  # Time: between two looks.
        time.sleep(0.3)  # Time: nobody is there meanwhile.
    again = listening(path)
    # Time: a recorder that does not come has gone.
    again.settimeout(120)
    one = again.accept()[0]
    one.settimeout(None)
    os.close(there)
    forward(one, other)


def main():
    """See above."""
    host = listening(sys.argv[1])
    if sys.argv[3:4] == ["--moves"]:
        moves(sys.argv[1], host, listening(sys.argv[2]), sys.argv[4])
        return
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

"""What a recorder of a release sends to a relay, kept and sent again.

    recorder.py keep PORT FILE       stand between a recorder and the relay at PORT: prints its own port, and writes what the recorder sends
    recorder.py send PORT FILE       send it to the relay at PORT, and wait until that has all of it in its files

Answers to the relay's questions for the time are of their moment, and are left out: the trace keeps the recorder's times.
"""

import socket
import struct
import sys
import threading

HEADER = struct.Struct("<4sHHI")
PONG, OPEN, ACK = 10, 20, 121


def frames(data):
    """Kind and bytes of each whole frame, and how many bytes these are."""
    at, found = 0, []
    while len(data) - at >= HEADER.size:
        mark, kind, zero, length = HEADER.unpack_from(data, at)
        if mark != b"StRl" or zero:
            raise SystemExit(f"at byte {at} is no frame")
        if len(data) - at < HEADER.size + length:
            break
        found.append((kind, data[at:at + HEADER.size + length]))
        at += HEADER.size + length
    return found, at


def pump(come, go, seen):
    while True:
        try:
            data = come.recv(1 << 16)
        except ConnectionResetError:
            # It has closed without reading the last that came.
            data = b""
        if not data:
            break
        seen.append(data)
        try:
            go.sendall(data)
        except OSError:
            pass
    try:
        go.shutdown(socket.SHUT_WR)
    except OSError:
        # The other one has closed both ways.
        pass


def keep(port, path):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(listener.getsockname()[1], flush=True)
        recorder, _ = listener.accept()
    relay = socket.create_connection(("127.0.0.1", int(port)))
    sent = []
    back = threading.Thread(target=pump, args=(relay, recorder, []), daemon=True)
    back.start()
    pump(recorder, relay, sent)
    back.join()
    data = b"".join(sent)
    found, whole = frames(data)
    if whole != len(data) or not found or found[0][0] != OPEN:
        raise SystemExit(f"the recorder has sent {len(found)} frames, and {len(data) - whole} bytes that are none")
    with open(path, "wb") as file:
        file.write(data)


def send(port, path):
    with open(path, "rb") as file:
        found, _ = frames(file.read())
    numbered = sum(kind not in (OPEN, PONG) for kind, _ in found)
    if numbered < 3:
        raise SystemExit(f"only {numbered} messages are kept")
    relay = socket.create_connection(("127.0.0.1", int(port)), timeout=300)
    relay.sendall(b"".join(data for kind, data in found if kind != PONG))
    data = b""
    while True:
        more = relay.recv(1 << 16)
        if not more:
            raise SystemExit("the relay has closed the connection")
        data += more
        said, whole = frames(data)
        data = data[whole:]
        for kind, frame in said:
            if kind == ACK and struct.unpack_from("<Q", frame, HEADER.size)[0] >= numbered:
                print(f"{numbered} messages of a recorder are in the relay's files")
                return
            if kind in (123, 124):
                raise SystemExit(f"the relay refuses: {frame[HEADER.size:].decode(errors='replace')}")


{"keep": keep, "send": send}[sys.argv[1]](*sys.argv[2:])

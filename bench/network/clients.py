"""Simulated recorders in one process: each speaks the protocol of strata-relay/src/remote.rs, and sends packets of one stream.

clients.py ADDRESS:PORT METADATA CLIENTS PACKETS BODY_BYTES RATE [CA CERTIFICATE KEY]

RATE: packets a second of each client; 0: as fast as the relay takes them. Prints one JSON object: seconds, bytes, the times from
the write of a packet to its acknowledgement in milliseconds (p50, p99, max), and the number of connections.

Many clients are tasks of one event loop. A single client at full speed is a plain loop over one socket: the event loop copies each
packet twice and was slower than the relay, so that it was the loop that was measured.
"""
import asyncio
import collections
import json
import re
import select
import socket
import ssl
import struct
import sys
import time
import uuid

MAGIC = b"StRl"
OPEN, BEGIN, CLOSE = 20, 21, 23
RESUME, ACK, PING, REFUSE, LATER = 120, 121, 122, 123, 124
# Kinds of guests' messages (message.rs).
METADATA, PACKET = 3, 4
HEADER = struct.Struct("=I16sI7QI")


def frame(kind, payload):
    return MAGIC + struct.pack("<HHI", kind, 0, len(payload)) + payload


def name(text):
    return bytes([len(text)]) + text.encode()


def opening(number):
    order = 1 if sys.byteorder == "little" else 2
    boot = bytes.fromhex(open("/proc/sys/kernel/random/boot_id").read().strip().replace("-", ""))
    first = struct.pack("<IB", 1, order) + uuid.uuid4().bytes + boot + struct.pack("<Q", 0)
    return frame(OPEN, first + name(f"host{number % 40}") + name(f"s{number}"))


def beginning(text):
    begin = frame(BEGIN, struct.pack("<I", 0) + name("user") + b"\1" + struct.pack("<I", 7) + name("app"))
    return begin + frame(METADATA, struct.pack("<IQ", 0, 0) + text)


def packet_head(trace, number, body):
    """The bytes of a packet's message before its body: of the frame, the message and the packet."""
    bits = (HEADER.size + len(body)) * 8
    header = HEADER.pack(0xC1FC1FC1, trace, 0, 0, number * 10, number * 10 + 10, bits, bits, number, 0, 0)
    message = struct.pack("<IIQ", 0, 0, 0) + header
    return MAGIC + struct.pack("<HHI", PACKET, 0, len(message) + len(body)) + message


CLOSING = frame(CLOSE, bytes([1]) + struct.pack("<QQQ", 0, 0, 0))


class SingleClient:
    """One recorder at full speed, which takes acknowledgements between packets."""

    def __init__(self, options):
        self.options = options
        self.sent, self.times, self.unacknowledged = 0, [], collections.deque()
        self.acknowledged, self.came, self.failure = 0, b"", None

    def take(self, wait):
        """Reads what the relay has said; waits until it says something if `wait`."""
        if not wait and not (self.pending() or select.select([self.socket], [], [], 0)[0]):
            return
        more = self.socket.recv(65536)
        if not more:
            raise ConnectionError("the relay has closed the connection")
        self.came += more
        now = time.monotonic()
        while len(self.came) >= 12:
            kind, _, length = struct.unpack("<HHI", self.came[4:12])
            if len(self.came) < 12 + length:
                break
            payload, self.came = self.came[12 : 12 + length], self.came[12 + length :]
            if kind == ACK:
                (self.acknowledged,) = struct.unpack("<Q", payload)
                while self.unacknowledged and self.unacknowledged[0][0] < self.acknowledged:
                    self.times.append(now - self.unacknowledged.popleft()[1])
            elif kind in (REFUSE, LATER):
                raise ConnectionError(payload.decode(errors="replace"))

    def run(self):
        """Sends all packets; returns the seconds from the first packet to the last acknowledgement."""
        text, trace, packets, body, _, context, address, port = self.options
        plain = socket.create_connection((address, port))
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket = context.wrap_socket(plain, server_hostname=address) if context else plain
        self.pending = self.socket.pending if context else lambda: 0
        self.socket.sendall(opening(0))
        self.take(True)
        self.socket.sendall(beginning(text))
        print("ready", file=sys.stderr, flush=True)
        begin = time.monotonic()
        for number in range(packets):
            head = packet_head(trace, number, body)
            size = len(head) + len(body)
            self.unacknowledged.append((number + 2, time.monotonic()))
            # TLS encrypts one piece of memory.
            done = 0 if context else self.socket.sendmsg([head, body])
            if done < size:
                self.socket.sendall(memoryview(head + body)[done:])
            self.sent += size
            self.take(False)
        self.socket.sendall(CLOSING)
        while self.acknowledged < packets + 3:
            self.take(True)
        return time.monotonic() - begin


class Client:
    def __init__(self, number, options):
        self.number, self.options = number, options
        self.sent, self.times, self.unacknowledged = 0, [], {}
        self.acknowledged, self.peer_says = 0, asyncio.Event()
        self.failure = None

    async def read(self, reader):
        try:
            while True:
                head = await reader.readexactly(12)
                kind, _, length = struct.unpack("<HHI", head[4:])
                payload = await reader.readexactly(length)
                now = time.monotonic()
                if kind == ACK:
                    (self.acknowledged,) = struct.unpack("<Q", payload)
                    for message in [m for m in self.unacknowledged if m < self.acknowledged]:
                        self.times.append(now - self.unacknowledged.pop(message))
                elif kind in (REFUSE, LATER):
                    self.failure = payload.decode(errors="replace")
                    self.peer_says.set()
                    return
                self.peer_says.set()
        except (asyncio.IncompleteReadError, ConnectionError):
            self.peer_says.set()

    async def run(self, ready, go):
        text, trace, packets, body, rate, context, address, port = self.options
        opened = asyncio.open_connection(address, port, ssl=context, server_hostname=address if context else None)
        reader, writer = await opened
        writer.write(opening(self.number))
        reading = asyncio.create_task(self.read(reader))
        await self.peer_says.wait()
        writer.write(beginning(text))
        ready.release()
        await go.wait()
        begin = time.monotonic()
        for number in range(packets):
            if self.failure:
                break
            if rate:
                # Clients do not all send at once.
                due = begin + (number + (self.number % 97) / 97) / rate
                await asyncio.sleep(max(0, due - time.monotonic()))
            message = packet_head(trace, number, body) + body
            self.unacknowledged[number + 2] = time.monotonic()
            writer.write(message)
            self.sent += len(message)
            await writer.drain()
        self.unacknowledged[packets + 2] = time.monotonic()
        writer.write(CLOSING)
        await writer.drain()
        while self.acknowledged < packets + 3 and not self.failure and not reading.done():
            self.peer_says.clear()
            await asyncio.wait([reading, asyncio.create_task(self.peer_says.wait())], return_when=asyncio.FIRST_COMPLETED)
        reading.cancel()
        writer.close()
        return self.acknowledged == packets + 3


def main():
    address, metadata, clients, packets, body, rate, *tls = sys.argv[1:]
    host, port = address.rsplit(":", 1)
    text = open(metadata, "rb").read()
    trace = uuid.UUID(re.search(rb'uuid = "([0-9a-f-]{36})"', text).group(1).decode()).bytes
    context = None
    if tls:
        context = ssl.create_default_context(cafile=tls[0])
        context.load_cert_chain(tls[1], tls[2])
    options = (text, trace, int(packets), bytes(int(body)), float(rate), context, host, int(port))
    if int(clients) == 1 and not float(rate):
        client = SingleClient(options)
        return report([client], client.run(), [True])
    return asyncio.run(run_all(int(clients), options))


async def run_all(count, options):
    ready, go = asyncio.Semaphore(0), asyncio.Event()
    all_clients = [Client(number, options) for number in range(count)]
    tasks = []

    async def are_ready(number):
        for _ in range(number):
            waiting = asyncio.create_task(ready.acquire())
            # A client that cannot connect ends, and is never ready.
            await asyncio.wait([waiting, *tasks], return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                if task.done():
                    task.result()
                    sys.exit("clients.py: the relay has ended a connection before the first packet")

    for client in all_clients:
        tasks.append(asyncio.create_task(client.run(ready, go)))
        # 64 connections of one address may be silent at a time.
        if len(tasks) % 32 == 0:
            await are_ready(32)
    await are_ready(len(tasks) % 32)
    print("ready", file=sys.stderr, flush=True)
    begin = time.monotonic()
    go.set()
    done = await asyncio.gather(*tasks, return_exceptions=True)
    return report(all_clients, time.monotonic() - begin, done)


def report(all_clients, seconds, done):
    times = sorted(one for client in all_clients for one in client.times)
    at = lambda share: round(times[min(len(times) - 1, int(share * len(times)))] * 1000, 1) if times else None
    failures = {client.failure for client in all_clients if client.failure}
    failures |= {repr(one) for one in done if one is not True and one is not False}
    print(json.dumps({
        "clients": len(done), "complete": sum(one is True for one in done), "seconds": round(seconds, 3),
        "bytes": sum(client.sent for client in all_clients), "ack_ms_p50": at(0.5), "ack_ms_p99": at(0.99), "ack_ms_max": at(1),
        "failures": sorted(failures)[:5],
    }))
    return 0 if all(one is True for one in done) else 1


sys.exit(main())

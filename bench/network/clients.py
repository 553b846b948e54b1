"""Simulated recorders in one process: each speaks the protocol of strata-relay/src/remote.rs, and sends packets of one stream.

clients.py ADDRESS:PORT METADATA CLIENTS PACKETS BODY_BYTES RATE [CA CERTIFICATE KEY]

RATE: packets a second of each client; 0: as fast as the relay takes them. Prints one JSON object: seconds, bytes, the times from
the write of a packet to its acknowledgement in milliseconds (p50, p99, max), and the number of connections.
"""
import asyncio
import json
import re
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
        host = f"host{self.number % 40}"
        order = 1 if sys.byteorder == "little" else 2
        boot = bytes.fromhex(open("/proc/sys/kernel/random/boot_id").read().strip().replace("-", ""))
        opening = struct.pack("<IB", 1, order) + uuid.uuid4().bytes + boot + struct.pack("<Q", 0)
        writer.write(frame(OPEN, opening + name(host) + name(f"s{self.number}")))
        reading = asyncio.create_task(self.read(reader))
        await self.peer_says.wait()
        writer.write(frame(BEGIN, struct.pack("<I", 0) + name("user") + b"\1" + struct.pack("<I", 7) + name("app")))
        writer.write(frame(METADATA, struct.pack("<IQ", 0, 0) + text))
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
            bits = (HEADER.size + len(body)) * 8
            header = HEADER.pack(0xC1FC1FC1, trace, 0, 0, number * 10, number * 10 + 10, bits, bits, number, 0, 0)
            payload = struct.pack("<IIQ", 0, 0, 0) + header + body
            self.unacknowledged[number + 2] = time.monotonic()
            writer.write(frame(PACKET, payload))
            self.sent += len(payload) + 12
            await writer.drain()
        self.unacknowledged[packets + 2] = time.monotonic()
        writer.write(frame(CLOSE, bytes([1]) + struct.pack("<QQQ", 0, 0, 0)))
        await writer.drain()
        while self.acknowledged < packets + 3 and not self.failure and not reading.done():
            self.peer_says.clear()
            await asyncio.wait([reading, asyncio.create_task(self.peer_says.wait())], return_when=asyncio.FIRST_COMPLETED)
        reading.cancel()
        writer.close()
        return self.acknowledged == packets + 3


async def main():
    address, metadata, clients, packets, body, rate, *tls = sys.argv[1:]
    host, port = address.rsplit(":", 1)
    text = open(metadata, "rb").read()
    trace = uuid.UUID(re.search(rb'uuid = "([0-9a-f-]{36})"', text).group(1).decode()).bytes
    context = None
    if tls:
        context = ssl.create_default_context(cafile=tls[0])
        context.load_cert_chain(tls[1], tls[2])
    options = (text, trace, int(packets), bytes(int(body)), float(rate), context, host, int(port))
    ready, go = asyncio.Semaphore(0), asyncio.Event()
    all_clients = [Client(number, options) for number in range(int(clients))]
    tasks = []
    for client in all_clients:
        tasks.append(asyncio.create_task(client.run(ready, go)))
        # 64 connections of one address may be silent at a time.
        if len(tasks) % 32 == 0:
            for _ in range(32):
                await ready.acquire()
    for _ in range(len(tasks) % 32):
        await ready.acquire()
    print("ready", file=sys.stderr, flush=True)
    begin = time.monotonic()
    go.set()
    done = await asyncio.gather(*tasks, return_exceptions=True)
    seconds = time.monotonic() - begin
    times = sorted(one for client in all_clients for one in client.times)
    at = lambda share: round(times[min(len(times) - 1, int(share * len(times)))] * 1000, 1) if times else None
    failures = {client.failure for client in all_clients if client.failure}
    failures |= {repr(one) for one in done if one is not True and one is not False}
    print(json.dumps({
        "clients": len(tasks), "complete": sum(one is True for one in done), "seconds": round(seconds, 3),
        "bytes": sum(client.sent for client in all_clients), "ack_ms_p50": at(0.5), "ack_ms_p99": at(0.99), "ack_ms_max": at(1),
        "failures": sorted(failures)[:5],
    }))
    return 0 if all(one is True for one in done) else 1


sys.exit(asyncio.run(main()))

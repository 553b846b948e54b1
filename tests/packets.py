"""Checks the packets of a trace. python3 tests/packets.py TRACE

Each file of a channel belongs to one CPU; those behind (state dumps, loaded objects) belong to none. A file consists of
packets only: their sizes add up, sequence numbers count from 0, times never go back, and the number of discarded events
never falls. Prints the number of packets.
"""
import glob
import os
import re
import struct
import sys

DUMP = r"statedump_[02]|objects_0"
SYMBOLS = ".strata-kernel-symbols"
CPUS = os.sysconf("SC_NPROCESSORS_CONF")
HEADER = struct.Struct("<I16sIQ" "QQQQQQI")


def check(path, uuid):
    """One file; returns its number of packets."""
    data = open(path, "rb").read()
    cpu = int(path.rsplit("_", 1)[1])
    at = number = last_end = last_discarded = 0
    while at < len(data):
        assert len(data) - at >= HEADER.size, f"{len(data) - at} bytes behind the last packet"
        (magic, own_uuid, stream, instance, begin, end, content, size, sequence, discarded,
         own_cpu) = HEADER.unpack_from(data, at)
        where = f"packet {number} at byte {at}"
        of_class = int(os.path.basename(path) == "objects_0")
        assert magic == 0xC1FC1FC1 and own_uuid == uuid and stream == of_class, f"{where}: header"
        is_dump = re.fullmatch(DUMP, os.path.basename(path))
        # Behind the streams of CPUs: that of no CPU, for which packets say 0.
        is_cpu = own_cpu == cpu or own_cpu == 0 and cpu >= CPUS
        assert instance == cpu and is_cpu or is_dump, f"{where}: CPU {own_cpu}, instance {instance}"
        assert HEADER.size * 8 <= content <= size and size % 8 == 0, f"{where}: {content} of {size} bits"
        assert at + size // 8 <= len(data), f"{where}: {size} bits, beyond the file's end"
        assert sequence == number, f"{where}: sequence number {sequence}"
        assert last_end <= begin <= end, f"{where}: times {begin} to {end}, after {last_end}"
        assert discarded >= last_discarded, f"{where}: {discarded} discarded, after {last_discarded}"
        at += size // 8
        number += 1
        last_end, last_discarded = end, discarded
    return number


# How its recording ended.
END_MARK = ".strata-end"


def main():
    """Every file of every process."""
    packets = 0
    for metadata in glob.glob(os.path.join(glob.escape(sys.argv[1]), "**", "metadata"), recursive=True):
        with open(metadata, encoding="utf-8") as file:
            uuid = re.search(r'trace \{[^}]*uuid = "([0-9a-f-]+)"', file.read()).group(1)
        folder = os.path.dirname(metadata)
        names = sorted(name for name in os.listdir(folder) if name not in ("metadata", END_MARK, SYMBOLS))
        assert all(re.fullmatch(rf"channel\d+_\d+|{DUMP}", name) for name in names), f"{folder}: {names}"
        for name in names:
            try:
                packets += check(os.path.join(folder, name), bytes.fromhex(uuid.replace("-", "")))
            except AssertionError as error:
                sys.exit(f"{folder}/{name}: {error}")
    print(packets)


main()

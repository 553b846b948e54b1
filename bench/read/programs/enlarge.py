"""A trace of many gigabytes: enlarge.py FROM TO BYTES

FROM is a trace by Strata (see crates/strata-ctf/src/write/packet.rs for what is in front of each packet). TO
has its metadata, and in each of eight streams one of its packets again and again. The times in a packet are
those of its header and the lowest 27 bits of others; so each copy is a multiple of 2^27 cycles later.
"""
import os
import struct
import sys

HEADER = struct.Struct("<I16sIQ" "QQQQQQI")
STREAMS = 8


def main():
    """Writes it."""
    source, target, wanted = sys.argv[1], sys.argv[2], int(sys.argv[3])
    largest = max((os.path.join(source, name) for name in os.listdir(source) if name != "metadata"),
                  key=os.path.getsize)
    data = open(largest, "rb").read()
    # The second packet: the first record of the first one may have a whole timestamp.
    at = HEADER.unpack_from(data)[7] // 8
    fields = list(HEADER.unpack_from(data, at))
    packet = data[at:at + fields[7] // 8]
    begin, end = fields[4], fields[5]
    step = ((end - begin) // 2**27 + 1) * 2**27
    os.makedirs(target)
    with open(os.path.join(target, "metadata"), "wb") as file:
        file.write(open(os.path.join(source, "metadata"), "rb").read())
    for stream in range(STREAMS):
        with open(os.path.join(target, f"channel0_{stream}"), "wb") as file:
            for number in range(wanted // STREAMS // len(packet)):
                fields[3:6] = stream, begin + number * step, end + number * step
                fields[8:] = number, 0, stream
                file.write(HEADER.pack(*fields) + packet[HEADER.size:])


main()

"""The same bytes, read with the message classes that Perfetto publishes: python3 perfetto_protos.py EXPORT...

No field may be unknown to them, and what they write again must be as long.
"""
import sys

from google.protobuf import unknown_fields
from perfetto.protos.perfetto.trace import perfetto_trace_pb2

from perfetto_decode import decode


def look(message, own, path):
    """Nothing unknown, in it and below; as many fields as our own decoder found."""
    assert len(unknown_fields.UnknownFieldSet(message)) == 0, f"{path}: unknown fields"
    names = {field.name for field, _ in message.ListFields()}
    assert names == set(own), f"{path}: {sorted(names)} and {sorted(own)}"
    for field, value in message.ListFields():
        below = own[field.name]
        if isinstance(value, bytes):
            value = value.decode("utf-8")
        if field.message_type is None:
            assert value == below or list(value) == below, f"{path}.{field.name}: {value} and {below}"
        elif isinstance(below, list):
            assert len(value) == len(below)
            for one, other in zip(value, below):
                look(one, other, f"{path}.{field.name}")
        else:
            look(value, below, f"{path}.{field.name}")


for name in sys.argv[1:]:
    with open(name, "rb") as file:
        data = file.read()
    trace = perfetto_trace_pb2.Trace()
    trace.ParseFromString(data)
    packets = decode(name)
    assert len(trace.packet) == len(packets), f"{name}: {len(trace.packet)} and {len(packets)} packets"
    for packet, own in zip(trace.packet, packets):
        look(packet, own, name)
    assert trace.ByteSize() == len(data), f"{name}: {trace.ByteSize()} and {len(data)} bytes"
    print(f"{name}: {len(packets)} packets")

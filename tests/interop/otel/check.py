"""Compares the spans of a trace with what OpenTelemetry's own exporter has printed: check.py PRINTED VIEW_JSON."""
import collections
import json
import sys

printed, view = sys.argv[1:]
truth = [line.rstrip("\n").split("\t") for line in open(printed, encoding="utf-8", errors="replace", newline="\n")]
assert len(truth) == 400 + 300 + 1, len(truth)
begun, keys, ended, errors = {}, {}, {}, []
for number, record in enumerate(map(json.loads, open(view, encoding="utf-8"))):
    name, payload = record["name"], record["payload"]
    if name == "otel:error":
        errors.append((payload["name"], payload["trace_id"], payload["span_id"], payload["description"]))
    elif name.endswith("_begin"):
        ids = payload["trace_id"], payload["span_id"]
        assert ids not in begun, ids
        begun[ids] = payload["name"], payload["parent_id"] or "-", payload["kind"], name.removesuffix("_begin")
        keys[payload["span_key"]] = ids
    elif name.endswith("_end"):
        assert keys[payload["span_key"]] not in ended, payload
        ended[keys[payload["span_key"]]] = number
# A text of CTF ends with a NUL.
text = lambda of: of.split("\0")[0]
for name, trace_id, span_id, parent, kind, *_ in truth:
    found = begun[trace_id, span_id]
    assert (text(found[0]), *found[1:3]) == (text(name), parent, kind.lower()), (found, name, parent, kind)
    assert (trace_id, span_id) in ended, (name, span_id)
# A part ends before what it is a part of.
for name, trace_id, span_id, parent, *_ in truth:
    assert parent == "-" or ended[trace_id, span_id] < ended[trace_id, parent], (name, span_id)
failed = sorted((one[0], one[1], one[2], one[6]) for one in truth if one[5].lower() == "error")
assert len(failed) == 4 and sorted(errors) == failed, (errors, failed)
# Of the 70,000 that the program forgets the 32,768 oldest are ended.
forgotten = [ids for ids, one in begun.items() if one[0] == "forgotten"]
closed = [ids for ids in forgotten if ids in ended]
assert (len(forgotten), len(closed)) == (70000, 32768), (len(forgotten), len(closed))
assert closed == forgotten[:32768]
names = collections.Counter(one[3] for one in begun.values())
assert names["otel:GET_/orders/_id"] == names["otel:ask"] == 200, names
# 256 names, of which the last are "user N", and the class of the others.
assert len(names) == 257 and names["otel:span"] == 70000 + 300 - 254 + 1, (len(names), names["otel:span"])
assert not any(one[0] == "not sampled" for one in begun.values())

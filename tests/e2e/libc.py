"""Compares what a program says that it called (libc_counted.c, libc_calls.c) with what `strata view --format json` has of it.

libc.py SAYS TRACE-AS-JSON-LINES [sum]
"""
import collections
import json
import sys

says, trace, how = sys.argv[1], sys.argv[2], sys.argv[3:]
KINDS = {"memalign": "memalign", "aligned_alloc": "memalign", "valloc": "memalign", "pvalloc": "memalign",
         "posix_memalign": "memalign", "reallocarray": "realloc"}
wanted = collections.Counter()
ranges = collections.defaultdict(set)
for line in open(says):
    pid, first, last, function, count = line.split()
    if how or function == "reallocarray":
        function = KINDS.get(function, function)
    span = (int(first, 16), int(last, 16))
    wanted[int(pid), span, function] += int(count)
    ranges[int(pid)].add(span)

found = collections.Counter()
ends = collections.Counter()
wrong = 0
for line in open(trace):
    record = json.loads(line)
    name = record["name"]
    provider, event = name.split(":")
    fields = record["payload"]
    pid = record["vpid"]
    # Two messages of eight bytes, or none.
    if event in ("sendmmsg_end", "recvmmsg_end") and fields["bytes"] != max(0, fields["result"]) * 8:
        print(f"{name} of {fields['result']} messages has {fields['bytes']} bytes", file=sys.stderr)
        wrong = 1
    # What begins ends. Where the loader has to be asked by its true caller, nobody sees the end.
    if provider in ("io", "pthread"):
        ends[pid, provider, event.removesuffix("_begin").removesuffix("_end")] += 1 if event.endswith("_begin") else -1
    if event == "realloc_begin" or "caller" not in fields:
        continue
    event = event.replace("realloc_end", "realloc")
    if provider == "libc_sum":
        event = fields["function"]["labels"][0]
    for span in ranges[pid]:
        if span[0] <= fields["caller"] < span[1]:
            found[pid, span, event] += int(fields.get("count", 1))
for key in sorted(set(wanted) | set(found)):
    if wanted[key] != found[key]:
        print(f"process {key[0]}, {key[2]}: called {wanted[key]}, recorded {found[key]}", file=sys.stderr)
        wrong = 1
for key, more in ends.items():
    if more:
        print(f"process {key[0]}, {key[1]}:{key[2]}: {more} more begins than ends", file=sys.stderr)
        wrong = 1
if not wanted:
    print("the program says nothing", file=sys.stderr)
    wrong = 1
print(len(ranges), sum(wanted.values()))
sys.exit(wrong)

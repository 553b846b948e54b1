#!/usr/bin/env python3
"""unwind.py NAME JSON FOLDED SQL PICTURE: the call chains of tests/programs/unwound.cc, in every output that has stacks."""
import collections
import json
import sys

from perfetto_decode import Model, decode

name, json_path, folded, sql, picture = sys.argv[1:]
# The functions of each chain, the innermost first. Others, of libraries, may be between them.
CHAINS = {
    "burn_qsort": ["compare", "qsort_middle", "qsort_outer", "main", "_start"],
    "burn_shape": ["Circle::area", "shape_outer", "main", "_start"],
    "burn_signal": ["on_signal", "__restore_rt", "signal_outer", "main", "_start"],
    "burn_thread": ["thread_middle", "thread_begin", "start_thread", "clone"],
    "clock_outer": ["main", "_start"],
}


def is_whole(frames, chain):
    rest = iter(frames)
    return all(any(wanted in frame for frame in rest) for wanted in chain)


seen, whole, odd = collections.Counter(), collections.Counter(), []
vdso = 0
for line in open(json_path, encoding="utf-8"):
    if '"cpu_clock"' not in line:
        continue
    event = json.loads(line)
    frames = []
    for frame in event["callstack_user"]:
        frames += [one["func"] for one in frame.get("inlined", [])]
        frames.append(frame.get("func", frame["bin"] if frame.get("bin") else hex(frame["address"])))
    for begin, chain in CHAINS.items():
        at = next((at for at, frame in enumerate(frames) if frame.split("+")[0].split("(")[0] == begin), None)
        if at is None:
            continue
        seen[begin] += 1
        if is_whole(frames[at + 1 :], chain):
            whole[begin] += 1
        else:
            odd.append(frames)
        vdso += begin == "clock_outer" and event["payload"]["ip"] < 1 << 63 and at > 0
        break
if set(seen) != set(CHAINS) or min(seen.values()) < 10 or vdso < 10:
    sys.exit(f"chains: {dict(seen)}, {vdso} in the vdso or its callers")
for begin in CHAINS:
    # Where a timer interrupts the kernel's return from a signal, or a program that ends, there is no memory to copy.
    if whole[begin] < 0.95 * seen[begin]:
        sys.exit(f"{begin}: {whole[begin]} of {seen[begin]} are whole; not this one: {odd[-1]}")
total, all_whole = sum(seen.values()), sum(whole.values())

# The same stacks elsewhere.
flame = 0
for line in open(folded, encoding="utf-8"):
    stack, weight = line.rsplit(None, 1)
    frames = stack.split(";")
    flame += int(weight) if "qsort_outer" in stack and any(frame.startswith("_start") for frame in frames) else 0
samples = [[function for function, _ in one["frames"]] for one in Model(list(decode(picture))).samples]
pictured = sum(any("qsort_outer" in function for function in frames) for frames in samples)
database = int([line for line in open(sql, encoding="utf-8").read().split() if line.isdigit()][-1])
wanted = seen["burn_qsort"]
for found in (flame, pictured, database):
    if not 0.95 * wanted <= found <= total:
        sys.exit(f"burn_qsort: {wanted} in view, {flame} in flame, {pictured} in Perfetto, {database} in sql")
print(f"{name}: {all_whole} of {total} samples have their whole chain ({100 * all_whole / total:.1f} %), {vdso} from the vdso")

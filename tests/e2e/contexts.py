"""What records say of their moment is what the program has asked the kernel for in the same moment. Prints how many
records of which moments were right, and says what is wrong with the others.

contexts.py TEXT NAME...: of babeltrace2's text of a trace; NAME: the contexts that the records have. GROUPS_SEEN: numbers
of the control groups that they may say.
"""
import os
import re
import sys
from collections import Counter

GROUPS = [int(number) for number in os.environ["GROUPS_SEEN"].split(",")]
IDS = ["vuid", "veuid", "vsuid", "vgid", "vegid", "vsgid"]
SAID = {"vtid": "tid", "vpid": "pid", "uts_ns": "uts", "mnt_ns": "mnt", "procname": "process", "threadname": "thread"}


def values(text):
    """The members of babeltrace2's `{ a = 1, b = [ [0] = 2 ] }`."""
    found = {}
    for name, string, numbers, number in re.findall(
            r'(\w+) = (?:"([^"]*)"|\[((?: \[\d+\] = [^\],]+,?)*) \]|(-?\w+))', text):
        if numbers:
            found[name] = [int(one, 0) for one in re.findall(r"= (-?\w+)", numbers)]
        elif number:
            found[name] = int(number, 0)
        else:
            found[name] = string
    return found


def wrong_of_stack(stack, context, said):
    """Why the call stack is not that of this event."""
    callers = said.get("callers", [])
    if not 1 <= len(stack) <= 16:
        return f"{len(stack)} addresses"
    if not said["from"] <= stack[0] < said["to"]:
        return f"begins at {stack[0]:#x}, outside of the site"
    if context.get("ip", stack[0]) != stack[0]:
        return "does not begin with the ip"
    # Functions of the program that put the payload together may be in between.
    if callers and not any(stack[at:at + len(callers)] == callers for at in range(5)):
        return f"has not the callers {callers}"
    return None


def wrong(context, said):
    """What is wrong with the contexts of a record, given its fields."""
    for name, field in SAID.items():
        # Nobody can tell it from its parent's thread.
        if name in ("vtid", "vpid") and said["where"].startswith("clone in"):
            continue
        # Of a thread that may not ask.
        if name == "threadname" and said["where"] == "shut in" and not context[name]:
            continue
        if name in context and context[name] != said[field]:
            yield f"{name} is {context[name]!r}, not {said[field]!r}"
    for name, value in zip(IDS, said["ids"]):
        if context.get(name, value) != value:
            yield f"{name} is {context[name]}, not {value}"
    if context.get("cgroup_id", GROUPS[0]) not in GROUPS:
        yield f"cgroup_id is {context['cgroup_id']}, not one of {GROUPS}"
    if "ip" in context and not said["from"] <= context["ip"] < said["to"]:
        yield f"ip is {context['ip']:#x}, outside of the site"
    if "callstack_user" in context:
        reason = wrong_of_stack(context["callstack_user"], context, said)
        if reason:
            yield f"callstack_user {[hex(one) for one in context['callstack_user']]} {reason}"


def main():
    """See above."""
    names = sorted(name.replace(":", "_").replace("-", "_") for name in sys.argv[2:])
    right, failures = Counter(), 0
    with open(sys.argv[1], encoding="utf-8") as lines:
        for line in lines:
            parts = re.fullmatch(r".*? contexts:\w+: \{ cpu_id = (\d+) \}, (?:\{ (.*?) \}, )?\{ (where = .*) \}\n", line)
            if not parts:
                continue
            context, said = values(parts[2] or ""), values(parts[3])
            faults = list(wrong(context, said))
            has = sorted(name for name in context if not name.startswith("_"))
            if has != names:
                faults.append(f"contexts are {has}")
            if faults:
                failures += 1
                if failures <= 5:
                    print(f"{said['where']}: {'; '.join(faults)}", file=sys.stderr)
            right[said["where"]] += 1
    print(",".join(f"{number} {where}" for where, number in sorted(right.items())))
    sys.exit(failures > 0)


main()

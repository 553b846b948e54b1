"""Call stacks of a guest, as the host names them.

    python3 tests/vm/stacks.py VIEW KALLSYMS    VIEW: as `strata view --debug-info --format json` prints it; KALLSYMS: lines
                                                of the guest's own /proc/kallsyms
"""

import json
import re
import sys

NAME = re.compile(r"^(.*)\+(0x[0-9a-f]+)$")


def frames(record, name):
    """The functions of a call stack, with the place in each, and where that was."""
    for frame in record.get(name, []):
        found = NAME.match(frame.get("func", ""))
        if found:
            yield found[1], int(found[2], 16), frame["address"]


def main():
    """See above."""
    truth = {}
    with open(sys.argv[2]) as lines:
        for line in lines:
            address, _, name = line.split()[:3]
            truth[name] = int(address, 16)
    assert len(truth) == 3 and all(truth.values()), truth
    kernel, user = {}, {}
    with open(sys.argv[1]) as lines:
        for line in lines:
            record = json.loads(line)
            event = record["name"]
            for name, offset, address in frames(record, "callstack_kernel"):
                if name in truth:
                    assert address == truth[name] + offset, (name, offset, address, truth)
                    kernel.setdefault(event, set()).add(name)
            for name, _, _ in frames(record, "callstack_user"):
                user[event, name] = user.get((event, name), 0) + 1
    print("functions of the kernel:", kernel)
    print("functions of programs:", user)
    assert set(truth) == kernel["sched_switch"] and "do_syscall_64" in kernel["syscall_entry_pwrite64"], kernel
    # By what its kernel says that it had mapped, and by what it says itself; its libc is stripped.
    assert user["syscall_entry_getppid", "main"] == 400 and user["requests:request", "main"] == 200, user
    assert sum(number for (event, name), number in user.items()
               if event == "syscall_entry_pwrite64" and "pwrite" in name) >= 200, user


main()

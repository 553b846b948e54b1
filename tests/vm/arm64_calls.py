#!/usr/bin/env python3
"""arm64_calls.py STRACE TEXT: the calls of `ls` in a trace, as babeltrace2 prints it, are those that strace has written.

Two runs of one program: the same calls in the same order, and the same files opened. Where memory lies differs, and so may
what the C library asks for once in a while, so that calls about memory are left out.
"""

import re
import sys

MEMORY = {"brk", "mmap", "munmap", "mprotect", "madvise"}


def of_strace(path):
    """Name of each call and the text among its arguments, from the execve on, which is the first."""
    for line in open(path, encoding="utf-8", errors="replace"):
        found = re.match(r"(?:\d+ +)?(\w+)\((.*)", line)
        if found:
            text = re.search(r'"([^"]*)"', found.group(2))
            yield found.group(1), text.group(1) if text else None


def of_trace(path):
    """The same of the thread whose execve is the first that returns: only then it is recorded."""
    lines = open(path, encoding="utf-8", errors="replace").read().splitlines()
    call = re.compile(r" syscall_(entry|exit)_(\w+): .*?\{ tid = (\d+)[^}]*\}(.*)")
    calls = [found.groups() for found in map(call.search, lines) if found]
    begins = [at for at, (end, name, *_) in enumerate(calls) if (end, name) == ("exit", "execve")]
    assert begins, "no execve in the trace"
    tid = calls[begins[0]][2]
    for end, name, other, rest in calls[begins[0] + 1:]:
        if end == "entry" and other == tid:
            text = re.search(r'(?:filename|pathname) = "([^"]*)"', rest)
            yield name, text.group(1) if text else None


def main():
    """Compares the two, and says what differs."""
    wanted = [one for one in list(of_strace(sys.argv[1]))[1:] if one[0] not in MEMORY]
    found = [one for one in of_trace(sys.argv[2]) if one[0] not in MEMORY]
    assert len(wanted) > 20, f"strace wrote {len(wanted)} calls"
    names = [name for name, _ in wanted]
    assert [name for name, _ in found] == names, f"calls differ:\n{found}\n{wanted}"
    paths = [text for name, text in wanted if name in ("openat", "execve", "faccessat")]
    own = [text for name, text in found if name in ("openat", "execve", "faccessat")]
    assert own == paths, f"paths differ:\n{own}\n{paths}"
    print(f"ls: {len(found)} calls as strace has them, {len(paths)} of them with a path")


main()

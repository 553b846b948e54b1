#!/usr/bin/env python3
"""BPF programs, maps and links of one process, and which of them are in the kernel still.

    kernel_objects.py PID >FILE    those that the process holds: "program 17", one each line
    kernel_objects.py <FILE        those of them that are there still

Numbers are not used again soon: what others make meanwhile does not matter. By the bpf() system call:
bpftool may not be there.
"""
import ctypes
import errno
import os
import platform
import struct
import sys

SYSCALL = {"x86_64": 321, "aarch64": 280, "s390x": 351}
# Commands of bpf(): get a descriptor by number.
GET_FD_BY_ID = {"program": 13, "map": 14, "link": 30}
FIELDS = {"prog_id:": "program", "map_id:": "map", "link_id:": "link"}


OBJ_GET_INFO_BY_FD = 15
# Of struct bpf_prog_info: nr_map_ids and map_ids [byte].
NR_MAP_IDS_AT, MAP_IDS_AT, MAPS_MAX = 52, 56, 64

libc = ctypes.CDLL(None, use_errno=True)


def bpf(command, *words):
    attr = ctypes.create_string_buffer(b"".join(words), 128)
    return libc.syscall(SYSCALL[platform.machine()], command, attr, 128)


def opened(line):
    """A descriptor of what the line names; None: it is not there."""
    kind, number = line.split()
    fd = bpf(GET_FD_BY_ID[kind], struct.pack("I", int(number)))
    if fd < 0 and ctypes.get_errno() != errno.ENOENT:
        sys.exit(f"bpf({GET_FD_BY_ID[kind]}) of {line}: {os.strerror(ctypes.get_errno())}")
    return fd if fd >= 0 else None


def maps_of(program):
    fd = opened(program)
    if fd is None:
        return []
    ids = (ctypes.c_uint32 * MAPS_MAX)()
    info = ctypes.create_string_buffer(256)
    struct.pack_into("I", info, NR_MAP_IDS_AT, MAPS_MAX)
    struct.pack_into("Q", info, MAP_IDS_AT, ctypes.addressof(ids))
    result = bpf(OBJ_GET_INFO_BY_FD, struct.pack("IIQ", fd, 256, ctypes.addressof(info)))
    os.close(fd)
    if result < 0:
        sys.exit(f"bpf({OBJ_GET_INFO_BY_FD}) of {program}: {os.strerror(ctypes.get_errno())}")
    return [f"map {ids[i]}" for i in range(struct.unpack_from("I", info, NR_MAP_IDS_AT)[0])]


def of_process(pid):
    found = set()
    folder = f"/proc/{pid}/fdinfo"
    for fd in os.listdir(folder):
        try:
            with open(f"{folder}/{fd}", encoding="ascii") as info:
                for line in info:
                    words = line.split()
                    if words and words[0] in FIELDS:
                        found.add(f"{FIELDS[words[0]]} {words[1]}")
        except FileNotFoundError:
            continue  # closed meanwhile
    for program in [line for line in found if line.startswith("program")]:
        found.update(maps_of(program))
    return sorted(found)


def is_there(line):
    fd = opened(line)
    if fd is not None:
        os.close(fd)
    return fd is not None


if len(sys.argv) > 1:
    lines = of_process(int(sys.argv[1]))
else:
    lines = filter(is_there, filter(None, map(str.strip, sys.stdin)))
for line in lines:
    print(line)

"""What a machine has, and a process: against what a recording says of it.

kernel_state.py hold FOLDER: opens files and sockets, says what they are as JSON, and keeps them until stdin ends.
kernel_state.py machine: says what the machine has, as JSON.
kernel_state.py check EVENTS BEFORE AFTER HELD: `strata view --all --format json`, and what the others have said.
"""

import fcntl
import glob
import json
import os
import socket
import struct
import subprocess
import sys

SIOCGIFADDR = 0x8915


def read(path):
    """The text of a small file."""
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read().strip()


def hold(folder):
    """The names that a trace is to have, by descriptor."""
    held, kept = {}, []

    def keep(one, name):
        kept.append(one)
        descriptor = one if isinstance(one, int) else one.fileno()
        held[descriptor] = name

    def of_socket(one, name):
        # By its number; the names are those that the program has given it.
        keep(one, f"socket:[{os.fstat(one.fileno()).st_ino}] {name}")

    path = os.path.join(folder, "a file")
    keep(os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND), path)
    for end in os.pipe():
        keep(end, f"pipe:[{os.fstat(end).st_ino}]")
    families = [("", socket.AF_INET, "127.0.0.1", "{}:{}")]
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
        families.append(("6", socket.AF_INET6, "::1", "[{}]:{}"))
    except OSError:
        print("no IPv6 here", file=sys.stderr)
    for suffix, family, host, form in families:
        listens = socket.create_server((host, 0), family=family)
        local = form.format(*listens.getsockname())
        of_socket(listens, f"tcp{suffix} {local}")
        client = socket.create_connection(listens.getsockname()[:2])
        server, _ = listens.accept()
        remote = form.format(*client.getsockname())
        of_socket(client, f"tcp{suffix} {remote}->{local}")
        of_socket(server, f"tcp{suffix} {local}->{remote}")
        udp = socket.socket(family, socket.SOCK_DGRAM)
        udp.bind((host, 0))
        of_socket(udp, f"udp{suffix} {form.format(*udp.getsockname())}")
    # A path has at most 108 bytes.
    os.chdir(folder)
    unix = socket.socket(socket.AF_UNIX)
    unix.bind("a socket")
    unix.listen()
    of_socket(unix, "unix a socket")
    for one in socket.socketpair():
        of_socket(one, "unix")
    flags = {descriptor: fcntl.fcntl(descriptor, fcntl.F_GETFL) for descriptor in held}
    print(json.dumps({"pid": os.getpid(), "names": held, "flags": flags}), flush=True)
    sys.stdin.read()


def address_of(name):
    """An interface's IPv4 address as a number; 0: it has none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        try:
            found = fcntl.ioctl(one, SIOCGIFADDR, struct.pack("16s24x", name.encode()))
        except OSError:
            return 0
    return struct.unpack(">20xI", found[:24])[0]


def machine():
    """Lists of what there is."""
    disks = []
    for path in glob.glob("/sys/class/block/*/dev"):
        major, minor = map(int, read(path).split(":"))
        # What has no room has no line in /proc/partitions.
        if int(read(os.path.join(os.path.dirname(path), "size"))) > 0:
            disks.append([major << 20 | minor, os.path.basename(os.path.dirname(path))])
    interrupts = []
    for path in glob.glob("/sys/kernel/irq/*/actions"):
        folder = os.path.dirname(path)
        names = read(path)
        interrupts += [[int(os.path.basename(folder)), name] for name in names.split(",") if name]
    cpus = []
    for path in glob.glob("/sys/devices/system/cpu/cpu[0-9]*/topology"):
        number = int(os.path.basename(os.path.dirname(path))[3:])
        cpus.append([number, int(read(f"{path}/physical_package_id")), int(read(f"{path}/core_id"))])
    # By findmnt, if it is there; it says what a mount is of behind its device in brackets.
    mounts = None
    try:
        found = subprocess.run(["findmnt", "--json", "--list", "--nofsroot", "--output", "SOURCE,FSTYPE,TARGET"],
                               stdout=subprocess.PIPE, check=True).stdout
        mounts = [[one["source"], one["fstype"], one["target"]] for one in json.loads(found)["filesystems"]]
    except (OSError, subprocess.CalledProcessError):
        pass
    networks = [[name, address_of(name)] for _, name in socket.if_nameindex()]
    said = {"disks": disks, "networks": networks, "interrupts": interrupts, "cpus": cpus, "mounts": mounts}
    print(json.dumps(said))


def known(before, after, found, what):
    """What was there before and after was there meanwhile; what was at neither time was not. Others come and go."""
    before, after = ({tuple(one) for one in side} for side in (before, after))
    found = set(found)
    assert before & after <= found, f"{what}: not said: {before & after - found}"
    assert found <= before | after, f"{what}: said, and not there: {found - before - after}"
    assert before & after, f"{what}: nothing is there all the time: {before}, {after}"
    return len(found)


def check(events, before, after, held):
    """Compare."""
    with open(events, encoding="utf-8") as file:
        all_events = [json.loads(line) for line in file]
    dump = [(one["name"][len("lttng_statedump_"):], one["payload"]) for one in all_events
            if one["name"].startswith("lttng_statedump_")]

    def of(kind, *fields):
        return [tuple(payload[field] for field in fields) for name, payload in dump if name == kind]

    before, after, held = (json.loads(read(path)) for path in (before, after, held))
    counts = {
        "disks": known(before["disks"], after["disks"], of("block_device", "dev", "diskname"), "disks"),
        "networks": known(before["networks"], after["networks"], of("network_interface", "name", "address_ipv4"), "networks"),
        "cpus": known(before["cpus"], after["cpus"], of("cpu_topology", "cpu_id", "physical_id", "core_id"), "cpus"),
    }
    # Of nobody's no name is in the kernel's list; what came never may have no line in /proc/interrupts.
    found = {one for one in of("interrupt", "irq", "action") if one[1]}
    wanted = {tuple(one) for one in before["interrupts"]} | {tuple(one) for one in after["interrupts"]}
    assert found and found <= wanted, f"interrupts: said, and not there: {found - wanted}"
    assert len(found) * 2 > len(wanted), f"interrupts: {len(found)} of {len(wanted)}"
    counts["interrupts"] = len(found)
    if before["mounts"] and after["mounts"]:
        found = of("mount", "device", "type", "path")
        # What the kernel calls so, findmnt calls by the name of the disk.
        root = {path for device, _, path in found if device == "/dev/root"}
        sides = [[one for one in side if one[2] not in root] for side in (before["mounts"], after["mounts"], found)]
        counts["mounts"] = known(*sides, "mounts")
    names = {str(fd): name for pid, fd, name in of("file_descriptor", "pid", "fd", "filename") if pid == held["pid"]}
    for descriptor, name in held["names"].items():
        assert names.get(descriptor) == name, (descriptor, names.get(descriptor), name)
    flags = {str(fd): flags for pid, fd, flags in of("file_descriptor", "pid", "fd", "flags") if pid == held["pid"]}
    for descriptor, wanted in held["flags"].items():
        # O_CLOEXEC is the descriptor's, and in the other's not.
        assert flags[descriptor] & ~os.O_CLOEXEC == wanted & ~os.O_CLOEXEC, (descriptor, flags[descriptor], wanted)
    counts["descriptors"] = len(held["names"])
    print(" ".join(f"{count} {what}," for what, count in counts.items()))


def main():
    what, *arguments = sys.argv[1:]
    {"hold": hold, "machine": machine, "check": check}[what](*arguments)


main()

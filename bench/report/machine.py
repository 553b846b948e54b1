"""The machine that is measured, in words: a report says on what its figures were taken."""

import os
import pathlib
import platform
import re
import shutil
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGES = ("lttng-tools", "liblttng-ust1", "babeltrace2", "linux-perf", "bpftrace", "trace-cmd", "redis-server", "nginx-light", "nginx",
            "postgresql", "dbench")


def ask(*command, cwd=None):
    """What a command prints, in one line; "" if it cannot run or fails."""
    try:
        done = subprocess.run(command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return " ".join(done.stdout.split())


def read(path):
    """The text of a file, "" if it cannot be read."""
    try:
        return pathlib.Path(path).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def commit():
    """The commit of the tree, with "-dirty" where it has changes."""
    return ask("git", "describe", "--always", "--dirty", "--abbrev=12", cwd=ROOT) or "no git"


def cycles_per_ns():
    """The rate of the time-stamp counter [GHz], or of the CPU as the kernel says it; 0 where neither is known."""
    found = re.search(r"cpu MHz\s*: ([0-9.]+)", read("/proc/cpuinfo"))
    return float(found[1]) / 1000 if found else 0.0


def packages():
    """The versions of the peers' packages."""
    if not shutil.which("dpkg-query"):
        return ""
    found = []
    for name in PACKAGES:
        version = ask("dpkg-query", "-W", "-f", "${db:Status-Status} ${Version}", name).split()
        if version[:1] == ["installed"]:
            found.append(f"{name} {version[1]}")
    return ", ".join(found)


def describe():
    """(what, how it is) of the machine and of what is measured on it."""
    cpuinfo = read("/proc/cpuinfo")
    model = re.search(r"model name\s*: (.*)", cpuinfo)
    virtual = ", of a virtual machine" if re.search(r"^flags.*\bhypervisor\b", cpuinfo, re.M) else ""
    memory = re.search(r"MemTotal:\s+(\d+)", read("/proc/meminfo"))
    governor = read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor") or "not set by this kernel"
    siblings = sorted({read(path) for path in pathlib.Path("/sys/devices/system/cpu").glob("cpu[0-9]*/topology/thread_siblings_list")})
    system = re.search(r'PRETTY_NAME="(.*)"', read("/etc/os-release"))
    mitigations = sum("Mitigation" in read(path) for path in pathlib.Path("/sys/devices/system/cpu/vulnerabilities").glob("*"))
    return [
        ("CPU", f"{model[1] if model else platform.machine()}{virtual}"),
        ("CPUs", f"{os.cpu_count()}; threads of one core: {' and '.join(siblings) or 'not known'}"),
        ("Frequency", f"{cycles_per_ns():.3f} GHz as the kernel says; governor: {governor}"),
        ("Memory", f"{int(memory[1]) / 2**20:.1f} GiB" if memory else "not known"),
        ("Kernel", f"{platform.system()} {platform.release()}; {mitigations} mitigations of CPU vulnerabilities are on"),
        ("Clock", read("/sys/devices/system/clocksource/clocksource0/current_clocksource") or "not known"),
        ("System", system[1] if system else "not known"),
        ("Compilers", f"gcc {ask('gcc', '-dumpfullversion')}, {ask('rustc', '--version')}"),
        ("Peers", packages() or "Debian's package tool is not here: versions are not known"),
        ("Strata", f"commit {commit()}"),
        ("Load when it began", read("/proc/loadavg").split(" ")[0] or "not known"),
        ("Date", time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())),
    ]

"""Names of the kernel's functions in fields of a trace that is made here, by all formats of view and export, and in queries.

Usage: functions.py STRATA FOLDER.
"""

import csv
import json
import os
import sqlite3
import struct
import subprocess
import sys

STRATA, FOLDER = sys.argv[1:3]
BASE = 0xFFFFFFFF81000000
FUNCTIONS = [(0, "first"), (0x100, "second"), (0x2000, "third [module]")]

TSDL = """/* CTF 1.8 */
typealias integer { size = 16; align = 8; } := u16;
typealias integer { size = 64; align = 8; base = 16; } := u64;
trace { major = 1; minor = 8; byte_order = le; };
env { domain = "%s"; hostname = "h"; tracer_name = "strata"; };
clock { name = c; freq = 1000000000; };
typealias integer { size = 64; align = 8; map = clock.c.value; } := ts;
stream { event.header := struct { u16 id; ts timestamp; }; };
event { name = "kmem_kfree"; id = 0; fields := struct { u64 call_site; u64 ptr; }; };
event { name = "timer_start"; id = 1; fields := struct { u64 function; u64 function_name; }; };
event { name = "page_fault_kernel"; id = 2; fields := struct { u64 address; u64 ip; }; };
event { name = "page_fault_user"; id = 3; fields := struct { u64 address; u64 ip; }; };
event { name = "kernel_stack"; id = 4; fields := struct { u64 caller[2]; string func; }; };
"""

# Records: event, fields; and the names that they have.
RECORDS = [
    (0, (BASE + 0x10, BASE), {"call_site": "first+0x10"}),
    (0, (BASE + 0x100, 1), {"call_site": "second"}),
    (0, (BASE - 1, BASE), {}),
    (0, (BASE + 0x2000 + (1 << 20), BASE), {}),
    (1, (BASE + 0x2001, 7), {"function": "third [module]+0x1"}),
    (2, (BASE + 5, BASE + 0x101), {"ip": "second+0x1"}),
    (3, (BASE + 5, BASE + 0x101), {}),
    (4, (BASE, BASE + 1), {}),
]
EVENTS = ["kmem_kfree", "timer_start", "page_fault_kernel", "page_fault_user", "kernel_stack"]


def make(path, domain):
    """A trace with the file of functions beside it."""
    os.makedirs(path)
    with open(f"{path}/metadata", "w", encoding="utf-8") as file:
        file.write(TSDL % domain)
    with open(f"{path}/stream", "wb") as file:
        for time, (event, fields, _) in enumerate(RECORDS):
            text = b"first\0" if event == 4 else b""
            file.write(struct.pack("<HQQQ", event, time + 1, *fields) + text)
    with open(f"{path}/.strata-kernel-symbols", "wb") as file:
        file.write(b"strata kernel symbols 1\n")
        before = 0
        for address, name in FUNCTIONS:
            more = BASE + address - before
            before = BASE + address
            while more >= 0x80:
                file.write(bytes([more & 0x7F | 0x80]))
                more >>= 7
            file.write(bytes([more, len(name)]) + name.encode())
    return path


def run(*arguments):
    done = subprocess.run([STRATA, *arguments], capture_output=True, check=False)
    assert done.returncode == 0, (arguments, done.returncode, done.stderr.decode())
    return done.stdout.decode("utf-8", "replace")


def same(what, found, wanted):
    if found != wanted:
        print(f"not ok: {what}: {found}, not {wanted}")
        sys.exit(1)


def ask(trace, query):
    """The rows that answer a query."""
    return [json.loads(line) for line in run("sql", "--format", "json", trace, query).splitlines()]


def names_of_lines(text):
    """Of lines of JSON: what each calls functions."""
    return [json.loads(line).get("debug_info", {}) for line in text.splitlines()]


def outputs(trace, wanted):
    """All outputs of a trace, against the names of its records."""
    same("view --json", names_of_lines(run("view", "--json", trace)), wanted)
    same("export --to json", names_of_lines(run("export", "--to", "json", "-o", "-", trace)), wanted)
    for command in (["view", "--format", "csv"], ["export", "--to", "csv", "-o", "-"]):
        rows = list(csv.DictReader(run(*command, trace).splitlines()))
        same(" ".join(command), [json.loads(row["fields"]).get("debug_info", {}) for row in rows], wanted)
    lines = run("view", "--format", "short", trace).splitlines()
    same("lines", len(lines), len(wanted))
    for line, names in zip(lines, wanted):
        text = "; ".join(f"{name}: {function}" for name, function in names.items())
        same("view --format short", line.endswith(f" {{{text}}}") if text else "first" not in line.split("}", 1)[1], True)
    path = f"{trace}.sqlite"
    run("export", "--to", "sqlite", "-o", path, trace)
    with sqlite3.connect(path) as base:
        rows = [json.loads(row[0] or "{}") for row in base.execute("SELECT functions FROM event ORDER BY time_ns")]
    same("export --to sqlite", rows, wanted)
    rows = ask(trace, "SELECT functions FROM events ORDER BY time_ns")
    same("strata sql, events", [json.loads(row["functions"] or "{}") for row in rows], wanted)


trace = make(f"{FOLDER}/kernel", "kernel")
outputs(trace, [names for _, _, names in RECORDS])
rows = ask(trace, "SELECT call_site_name FROM kmem_kfree")
same("the column of a field", [row["call_site_name"] for row in rows], ["first+0x10", "second", None, None])
# The field keeps its own name.
rows = ask(trace, "SELECT function_name, field_function_name FROM timer_start")
same("beside a field of that name", rows, [{"function_name": 7, "field_function_name": "third [module]+0x1"}])
path = f"{trace}.perfetto"
run("export", "--to", "perfetto", "-o", path, trace)
with open(path, "rb") as file:
    data = file.read()
for text in (b"first+0x10", b"third [module]+0x1", b"second+0x1"):
    same(f"{text} in Perfetto's file", text in data, True)
print("ok: all outputs name the functions whose addresses are in fields")

same("--no-symbols", set(map(str, names_of_lines(run("view", "--json", "--no-symbols", trace)))), {"{}"})
same("text as babeltrace2's", "debug_info" in run("view", "--format", "text", trace), False)
same("text with --debug-info", run("view", "--debug-info", "--format", "text", trace).count("debug_info"), 4)
outputs(make(f"{FOLDER}/program", "ust"), [{} for _ in RECORDS])
print("ok: not without symbols, in text, or of a program's own fields")

"""Every command that shows something of a trace, on a trace whose every name is hostile: what it writes acts on no terminal.

Usage: display.py STRATA FOLDER. Commands, reports and formats are those that --help names: a new one is tried without being
listed here. All are run on a terminal and into a pipe. JSON is read back, and has the names as they were.
"""

import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import termios

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from hostile_trace import ACTING, HOSTILE, RANGES, kernel_trace, second_trace  # noqa: E402

STRATA, FOLDER = sys.argv[1:3]

# Colours, and what a line that is drawn again uses.
OWN = re.compile("\x1b\\[[0-9;]*m|\x1b\\[[0-9]*[KHJ]|\x1b\\[\\?25[hl]|\r? {20,}\r|\r(?=(?:\x1b\\[[0-9;]*[mKHJ])*strata:)")
failures = []
shown = set()


def fail(text):
    """Notes what is wrong, and goes on."""
    failures.append(text)
    print("FAIL", text)


def acts(text):
    """Characters of it that a terminal obeys, but for line ends."""
    ranges = [(0, 0x1F)] + RANGES[1:-1] + [(0xAD, 0xAD), (0xFFF9, 0xFFFB), (0xE0000, 0xE007F)]
    return sorted({f"U+{ord(one):04X}" for one in text
                   if one != "\n" and any(low <= ord(one) <= high for low, high in ranges)})


def on_terminal(arguments):
    """What it writes on a terminal, stdout and stderr together."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ.update(TERM="xterm", PAGER="cat", STRATA_PAGER="cat")
        # The lines as they are written.
        modes = termios.tcgetattr(1)
        modes[1] &= ~termios.OPOST
        termios.tcsetattr(1, termios.TCSANOW, modes)
        os.execv(STRATA, [STRATA, *arguments])
    seen = b""
    while True:
        if not select.select([terminal], [], [], 60)[0]:
            fail(f"{arguments}: says nothing for a minute, and does not end")
            os.kill(pid, signal.SIGKILL)
        try:
            seen += os.read(terminal, 65536)
        except OSError:
            break
    os.close(terminal)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), seen


def texts(value):
    """All strings in a value, and all keys."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, one in value.items():
            yield key
            yield from texts(one)
    elif isinstance(value, list):
        for one in value:
            yield from texts(one)


def check_json(what, data):
    """Is it one value, or one on each line, and are the names in it as they were?"""
    text = data.decode()
    try:
        values = [json.loads(text)]
    except ValueError:
        try:
            values = [json.loads(line) for line in text.splitlines()]
        except ValueError as error:
            return fail(f"{what}: no JSON: {error}")
    if any(ACTING in one for one in texts(values)):
        shown.add(what)
    return None


def check(what, data, is_json=False):
    """Nothing in it acts; JSON is some."""
    text = OWN.sub("", data.decode("utf-8", "surrogateescape"))
    if found := acts(text.replace("\r\n", "\n")):
        line = next(line for line in text.replace("\r\n", "\n").split("\n") if acts(line))
        fail(f"{what}: {' '.join(found)} in {line[:300]!r}")
    if is_json and data:
        check_json(what, data)


def run(arguments, statuses=(0, 1, 2, 127), is_json=False, is_raw=False):
    """A command, both ways. is_raw: into a pipe it writes the bytes of the trace, as other tools do."""
    what = " ".join(one if "evil" not in one else "NAME" for one in arguments)
    done = subprocess.run([STRATA, *arguments], stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False)
    if done.returncode not in statuses:
        fail(f"{what}: exit status {done.returncode}: {done.stderr[-300:]!r}")
    if not is_raw:
        check(what + " | cat", done.stdout, is_json)
    check(what + " (stderr)", done.stderr)
    status, seen = on_terminal(arguments)
    if status not in statuses:
        fail(f"{what}: exit status {status} on a terminal: {seen[-300:]!r}")
    check(what + " on a terminal", seen)


def words(*command):
    """What --help names: commands, and values of --format and --by."""
    text = subprocess.run([STRATA, *command, "--help"], capture_output=True, text=True, check=True).stdout
    commands = re.findall(r"^  ([a-z][a-z-]*(?:, [a-z-]+)*)  ", text.split("\nOptions:")[0], re.M)
    values = {}
    for flag in ("format", "by", "to"):
        found = re.search(rf"^ +(?:-\w, )?--{flag} <[^\n]*\n(.*?)(?=\n\n +-|\n\n *--|\n\n\S|\Z)", text, re.S | re.M)
        listed = found and (re.findall(r"^ +- ([a-z0-9]+):?", found[1], re.M)
                            or re.findall(r"[a-z0-9]+", (re.search(r"\[possible values: ([^\]]*)\]", found[1], re.S) or ["", ""])[1]))
        values[flag] = listed or []
    if command in (("view",), ("export",)):
        assert any(values.values()), command
    return [one for group in commands for one in group.split(", ")], values, text


def traces():
    """The commands that read traces."""
    folder = os.path.join(FOLDER, "evil" + ACTING[20:40])
    kernel, other = os.path.join(folder, "kernel" + ACTING[31:64]), os.path.join(folder, "other")
    kernel_trace(kernel)
    second_trace(other)
    for trace in (kernel, other):
        for form in words("view")[1]["format"]:
            run(["view", "--format", form, "--all", trace], is_json=form == "json", is_raw=form in ("text", "csv"))
        for more in (["--thread-names"], ["--fields", HOSTILE[:40]]):
            run(["view", "--format", "json", *more, trace], is_json=True)
        run(["view", trace], is_raw=True)
        for command in ("stats", "list"):
            run([command, trace])
            run([command, "--json", trace], is_json=True)
        run(["stats", "--details", trace])
        reports = [one for one in words("analyze")[0] if one != "help"]
        assert len(reports) > 9, reports
        for report in reports:
            values = words("analyze", report)[1]
            assert {"text", "json"} <= set(values["format"]), (report, values)
            thread = ["7"] if report == "wait" else []
            for form in values["format"]:
                for by in [[], *(["--by", one] for one in values["by"])]:
                    run(["analyze", report, "--format", form, *by, *(["--tid", *thread] if thread else []), trace],
                        is_json=form in ("json", "speedscope"))
        for form in words("export")[1]["to"]:
            out = os.path.join(FOLDER, "out." + form)
            run(["export", "--to", form, "--force", "-o", out, trace])
            if form == "json" and os.path.exists(out):
                with open(out, "rb") as file:
                    data = file.read()
                check("export --to json", data, True)
            if form == "json":
                run(["export", "--to", form, "-o", "-", trace], is_json=True)
            shutil.rmtree(out, ignore_errors=True)
    # Messages that quote what is not there, or not understood.
    name = HOSTILE.replace("/", "")[:200]
    commands = words()[0]
    assert len(commands) > 20, commands
    for command in commands:
        if command not in ("help", "boot-init", "completions"):
            run([command, "--" + name])
            run([command, "--json", "/nonexistent/" + name, "--" + name])
    for command in ("view", "stats", "list", "export", "analyze"):
        more = {"export": ["--to", "json"], "analyze": ["summary"]}.get(command, [])
        run([command, *more, "/nonexistent/" + name], (1, 2))
        run([command, *more, os.path.join(FOLDER, name)], (1, 2))
        if command != "list":
            run([command, *more, "--filter", f"name == {name}", kernel], (1, 2))
            run([command, *more, "--filter", f'{{"{name}" == 1', kernel], (1, 2))
            run([command, *more, "--from", name, kernel], (1, 2))
            run([command, *more, "--timezone", name, kernel], (1, 2))


def machine():
    """The commands that look at the machine, at files and at sessions."""
    name = HOSTILE.replace("/", "")[:60]
    file = os.path.join(FOLDER, name)
    shutil.copy("/bin/true", file)
    for json_flag in ([], ["--json"]):
        is_json = bool(json_flag)
        run(["doctor", *json_flag], is_json=is_json)
        run(["list", *json_flag], is_json=is_json)
        run(["list", "--probes", file, *json_flag], is_json=is_json)
        run(["list", "--probes", file + "x", *json_flag], is_json=is_json)
        run(["list", "--kernel", name, *json_flag], is_json=is_json)
        run(["list", "--sessions", *json_flag], is_json=is_json)
        run(["status", *json_flag], is_json=is_json)
        run(["status", name, *json_flag], is_json=is_json)
        run(["top", "-n", "1", *json_flag], is_json=is_json)
        run(["create", name, *json_flag], (2,))
        run(["load", "--input", file, name, *json_flag], (2,))
        run(["load", "--input", file, "s", *json_flag], (2,))
        run(["add-context", "--list", *json_flag], is_json=is_json)
    run(["record", "--no-kernel", "-o", os.path.join(FOLDER, "r" + name), "--", file], (0, 1, 2))
    run(["record", "--no-kernel", "-o", os.path.join(FOLDER, "q" + name), "--", file + "x"], (127,))
    run(["record", "--no-kernel", "-o", file, "--", file], (2,))
    run(["record", "-p", name, "-o", os.path.join(FOLDER, "p")], (2,))
    run(["record", "-u", name + ":::", "-o", os.path.join(FOLDER, "u"), "--", "true"], (2,))
    run(["record", "--probe", "uprobe:" + file + ":" + name, "-o", os.path.join(FOLDER, "b"), "--", "true"], (2,))


def sessions():
    """A session with hostile names in its plan."""
    name = HOSTILE.replace("/", "")[:60]
    answers = [
        ["create", "s", "-o", os.path.join(FOLDER, "s" + name)],
        ["track", "-s", "s", "--name", name],
        ["enable-channel", "-s", "s", "-u", name],
        ["enable-event", "-s", "s", "-u", name + ":*"],
        ["enable-event", "-s", "s", "-u", "a:*", "--filter", f'x == "{name}"'],
        ["add-trigger", "-s", "s", "--name", name, "--event", "-u", "a:b", "--exec", name],
        ["add-trigger", "-s", "s", "--name", "t", "--discarded", "--exec", name],
        ["list-triggers", "-s", "s"],
        ["start", "s"],
        ["status", "s"],
        ["list", "s"],
        ["top", "-n", "1", "s"],
        ["save", "s", "-o", os.path.join(FOLDER, "f" + name)],
        ["snapshot", "s", "-o", os.path.join(FOLDER, "n" + name)],
        ["rotate", "s"],
        ["stop", "s"],
        ["destroy", "s"],
    ]
    for last in ([], ["--json"]):
        for arguments in answers:
            where = [*arguments, *last]
            done = subprocess.run([STRATA, *where], stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False)
            what = " ".join(one if "evil" not in one else "NAME" for one in where)
            check(what, done.stdout, bool(last))
            check(what + " (stderr)", done.stderr)
            if arguments[0] in ("status", "list", "list-triggers", "top", "save"):
                check(what + " on a terminal", on_terminal(where)[1])
    run(["save", "s", "-o", "-"])


os.makedirs(FOLDER, exist_ok=True)
traces()
machine()
if os.environ.get("STRATA_TEST_ALONE") == "1":
    sessions()
print(f"{len(shown)} answers of JSON have the names as they were")
for awaited in ("view", "stats", "list", "export", *(f"analyze {one}" for one in (
        "syscalls", "threads", "files", "irq", "cpu", "spans", "flame", "summary"))):
    if not any(what.startswith(awaited) for what in shown):
        fail(f"{awaited}: no JSON has a hostile name: what was tried shows nothing")
sys.exit(1 if failures else 0)

"""What strata.Session does: its docstrings' examples, a session from its making to its trace, a flight recorder, and refusals."""

import doctest
import pathlib
import subprocess
import sys
import time

import strata

PROGRAM, SCRATCH, NAME = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3]


def refused(do, text):
    """Asserts that a call raises SessionError, with this text in it."""
    try:
        do()
    except strata.SessionError as error:
        assert text in str(error), (text, str(error))
        return
    raise AssertionError(f"no SessionError with '{text}'")


def wait_until(is_so):
    """Waits for a condition."""
    deadline = time.monotonic() + 240
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.02)


# The examples of docstrings. Other tests have sessions, and programs of a shop, too: the names are this test's.
folder = SCRATCH / "doctest"
folder.mkdir()
flags = doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL
of_docstring = doctest.DocTestParser().get_doctest(
    strata.Session.__doc__.replace('"web"', f'"{NAME}d"').replace("'web'", f"'{NAME}d'").replace("shop:", f"{NAME}:"),
    {"strata": strata, "folder": folder}, "Session", None, None)
runner = doctest.DocTestRunner(optionflags=flags)
assert runner.run(of_docstring).attempted >= 5 and runner.failures == 0
assert doctest.testmod(strata, optionflags=flags).failed == 0

# Made, started, stopped, gone on, destroyed.
session = strata.Session(f"{NAME}a", user="ticker:*", output=SCRATCH / "a", options=["--num-subbuf", "4", "--min-free", "0"])
try:
    refused(lambda: strata.Session(f"{NAME}a"), f"{NAME}a")
    assert session.status()["state"] == "created", session.status()
    with session:
        program = subprocess.Popen([PROGRAM, "run", "1"], stdout=subprocess.DEVNULL)
        wait_until(lambda: session.status()["records"] > 5)
    assert session.status()["state"] == "stopped", session.status()
    refused(lambda: session.snapshot(SCRATCH / "none"), "--snapshot")
    assert strata.Session.attach(session.name).name == f"{NAME}a"
finally:
    report = session.destroy()
assert report["records"] > 5, report
program.kill()
program.wait()
assert sum(1 for event in strata.open(SCRATCH / "a") if event.name.startswith("ticker:")) > 5
refused(session.start, f"{NAME}a")
refused(lambda: strata.Session.attach(f"{NAME}a"), f"{NAME}a")

# A flight recorder.
recorder = strata.Session(f"{NAME}b", user=["ticker:*"], flight_recorder=True, options=["--min-free", "0"])
try:
    recorder.start()
    program = subprocess.Popen([PROGRAM, "run", "1"], stdout=subprocess.DEVNULL)
    wait_until(lambda: recorder.snapshot(SCRATCH / f"snap{time.monotonic_ns()}") is not None)
    saved = recorder.snapshot(SCRATCH / "snapshot", last=3600)
    assert sum(1 for _ in strata.open(saved)) > 0
    program.kill()
    program.wait()
finally:
    recorder.destroy()

# A rule that is wrong leaves no session, and a program that is not there is said.
refused(lambda: strata.Session(f"{NAME}c", user=[""]), "")
refused(lambda: strata.Session.attach(f"{NAME}c"), f"{NAME}c")
refused(lambda: strata.Session(f"{NAME}c", command="/nonexistent/strata"), "command=")
refused(lambda: strata.Session("../x"), "name")

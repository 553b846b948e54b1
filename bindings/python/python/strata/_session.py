"""Sessions: what the command `strata` does with `create`, `start`, `stop`, `snapshot` and `destroy`."""

import json
import os
import pathlib
import subprocess

from ._strata import SessionError, SessionSocket


def _run(words):
    """Runs the command, and raises what it says if it fails."""
    try:
        done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
    except OSError as error:
        raise SessionError(f"cannot run {words[0]!r}: {error.strerror}. Pass command=, the path of the program strata") from error
    if done.returncode != 0:
        said = done.stderr.decode("utf-8", "replace").strip().removeprefix("strata: ")
        raise SessionError(said or f"{words[0]} {words[1]} has ended with status {done.returncode}")


class Session:
    """A session, which records what its rules select, from `start` to `stop`, until it is destroyed.

    A session is a process of its own: it goes on when Python ends. Making one runs the command `strata`, found on PATH unless `command`
    says where; all else is asked through the session's socket, as the command does.

    >>> session = strata.Session("web", user=["shop:*"], output=folder / "trace")
    >>> session.status()["state"]
    'created'
    >>> with session:                    # start, and in the end stop
    ...     session.status()["state"]
    'recording'
    >>> session.destroy()["records"]
    0
    >>> strata.Session.attach("web").status()
    Traceback (most recent call last):
    ...
    strata.SessionError: there is no session 'web'...
    """

    def __init__(self, name, *, user=(), kernel=(), output=None, flight_recorder=False, options=(), command="strata"):
        """Makes a session with these rules for events of applications and of the kernel; it records nothing before `start`.

        `output` is the folder of its trace, new or empty; of a flight recorder, which keeps its last records in memory until `snapshot`,
        it is left out. `options` are further arguments of `strata create`, such as ["--subbuf-size", "2M"].
        """
        words = [os.fspath(command), "create"]
        if output is not None:
            words.append(f"--output={os.fspath(pathlib.Path(output).absolute())}")
        if flight_recorder:
            words.append("--snapshot")
        _run([*words, *options, "--", name])
        self._socket = SessionSocket(name)
        try:
            for layer, rules in (("--user", user), ("--kernel", kernel)):
                if isinstance(rules, str):
                    rules = [rules]
                if rules:
                    _run([os.fspath(command), "enable-event", f"--session={name}", layer, "--", *rules])
        except BaseException:
            self.destroy()
            raise

    @classmethod
    def attach(cls, name):
        """The session of this name, whoever has made it; raises SessionError if there is none."""
        session = cls.__new__(cls)
        session._socket = SessionSocket(name)
        session.status()
        return session

    @property
    def name(self):
        """The session's name."""
        return self._socket.name

    def _ask(self, *words):
        return json.loads(self._socket.ask(*words))

    def start(self):
        """Begins to record, or goes on."""
        self._ask("start")

    def stop(self):
        """Pauses until `start`. Of a session of `strata record`, that is its end."""
        self._ask("stop")

    def status(self):
        """How it is, as `strata status --json` has it: 'state', 'records', 'discarded', 'output' and more."""
        return self._ask("status")

    def rotate(self):
        """Completes the present part of the trace, and goes on in a new one.

        Returns the folder of the complete part; None if nothing was recorded in it.
        """
        answer = self._ask("rotate")
        # Sessions of earlier versions have the key "part".
        return self._folder(answer.get("chunk", answer.get("part")) or {}, "folder")

    def snapshot(self, output, *, last=None):
        """Has a flight recorder write what it holds, of the last seconds if `last` says how many, into a new folder.

        Returns the folder, for `strata.open`; None if it holds no record.
        """
        output = pathlib.Path(output).absolute()
        answer = self._ask("snapshot", output, last)
        return self._folder(answer, "output") or output if answer.get("records") else None

    @staticmethod
    def _folder(answer, key):
        return pathlib.Path(answer[key]) if answer.get(key) else None

    def destroy(self):
        """Ends the session, and waits until its trace is complete.

        Returns its report, as `strata destroy --json` has it: 'records', 'discarded', 'gaps' and more; None if there is none.
        """
        self._ask("destroy")
        report = self._socket.wait_for_end()
        return json.loads(report) if report else None

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stop()

    def __repr__(self):
        return f"<strata.Session {self.name!r}>"

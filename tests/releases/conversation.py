"""What commands and a session say to each other, kept of a release and compared with today's.

    conversation.py keep STRATA SESSION NAME FILE     stand between the commands and SESSION under NAME, and write each request with
                                                      its reply to FILE, for the commands of COMMANDS[SESSION]
    conversation.py session SESSION FILE SCRATCH      be the release's commands: send its requests to today's SESSION
    conversation.py commands STRATA NAME FILE SCRATCH be the release's session: answer today's commands as it did, under NAME

What must hold is what a session and commands of two versions beside each other need, as after an upgrade under a session that
records. A request of the release is accepted, and each key of the reply is still there, of the same type. A request of today
has no key that the release would refuse.
"""

import fcntl
import json
import os
import socket
import subprocess
import sys
import threading

MESSAGE_BYTES_MAX = 64 << 10
# Of a session of programs; @ is replaced by the scratch folder. PROGRAM: $SHOP (tests/programs/shop.c) runs, to be recorded.
COMMANDS = {
    "web": """
status NAME --json
enable-event -s NAME -u shop:*
enable-event -s NAME -u shop:sold --filter id>2
enable-channel -s NAME -u small --subbuf-size 16K --num-subbuf 4
enable-event -s NAME -u shop:beat -c small
add-context -s NAME -u -t procname
track -s NAME --pid 1
untrack -s NAME --pid 1
add-trigger -s NAME --name dear --event -u shop:expensive --filter id>5 --rotate
list-triggers -s NAME --json
start NAME
status NAME --json
status NAME
disable-event -s NAME -u shop:sold
save NAME -o @/plan.json
rotate NAME
stop NAME
remove-trigger -s NAME dear
destroy NAME
""",
    "flight": """
enable-event -s NAME -u shop:*
add-trigger -s NAME --name dear --event -u shop:expensive --filter id>5 --snapshot @/incidents
start NAME
PROGRAM
snapshot NAME -o @/saved
snapshot NAME --last 1h -o @/last
status NAME --json
destroy NAME
""",
}


def folder():
    """Where sessions of this user listen."""
    return "/run/strata-sessions" if os.geteuid() == 0 else os.path.join(os.environ["XDG_RUNTIME_DIR"], "strata-sessions")


def ask(name, request):
    """Sends the bytes to a session, and returns its reply."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.settimeout(300)
        connection.connect(os.path.join(folder(), f"{name}.sock"))
        connection.send(request)
        return connection.recv(MESSAGE_BYTES_MAX)


class Listener:
    """A session's name and socket, at which `answer` makes a reply of each request."""

    def __init__(self, name, answer):
        os.makedirs(folder(), mode=0o700, exist_ok=True)
        self.lock = open(os.path.join(folder(), f"{name}.lock"), "w", encoding="ascii")
        os.fchmod(self.lock.fileno(), 0o600)
        fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self.lock.write(str(os.getpid()))
        self.lock.flush()
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.path = os.path.join(folder(), f"{name}.sock")
        self.socket.bind(self.path)
        os.chmod(self.path, 0o600)
        self.socket.listen(16)
        self.answer = answer
        self.failure = None
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            connection, _ = self.socket.accept()
            with connection:
                request = connection.recv(MESSAGE_BYTES_MAX)
                if request:
                    try:
                        connection.send(self.answer(request))
                    except Exception as error:  # pylint: disable=broad-except
                        self.failure = error

    def end(self):
        """Takes the name away, as a session that ends does."""
        for file in (self.path, self.lock.name):
            if os.path.exists(file):
                os.unlink(file)
        self.lock.close()


def command(strata, name, words, scratch):
    """Runs one command on the session called `name`."""
    words = [word.replace("NAME", name).replace("@", scratch) for word in words]
    done = subprocess.run([strata, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False,
                          timeout=600)
    return done.returncode, done.stdout + done.stderr


def run_program():
    subprocess.run([os.environ["SHOP"], "5"], stdout=subprocess.DEVNULL, check=True)


def keep(strata, session, name, path):
    scratch = os.path.dirname(os.path.abspath(path))
    talk = []

    def answer(request):
        reply = ask(session, request)
        talk.append([json.loads(request), json.loads(reply)])
        return reply

    listener = Listener(name, answer)
    with open(path, "w", encoding="utf-8") as file:
        for line in COMMANDS[session].strip().splitlines():
            begun = len(talk)
            if line == "PROGRAM":
                run_program()
                file.write(json.dumps({"words": [line], "talk": []}) + "\n")
                continue
            if line.startswith("destroy"):
                # The command waits until the name is gone.
                threading.Thread(target=lambda: (wait_gone(session), listener.end()), daemon=True).start()
            status, said = command(strata, name, line.split(), scratch)
            if status or listener.failure:
                raise SystemExit(f"strata {line}: exit status {status}: {said} {listener.failure or ''}")
            text = json.dumps({"words": line.split(), "talk": talk[begun:]}, ensure_ascii=False)
            file.write(text.replace(scratch, "@").replace(json.dumps(os.getcwd())[1:-1], "@cwd") + "\n")


def wait_gone(session):
    done = threading.Event()
    while os.path.exists(os.path.join(folder(), f"{session}.lock")):
        done.wait(0.02)


def kept(path, scratch):
    with open(path, encoding="utf-8") as file:
        for line in file:
            yield json.loads(line.replace("@", scratch))


def kind(value):
    return "number" if isinstance(value, (int, float)) and not isinstance(value, bool) else type(value).__name__


def lacks(was, now, where):
    """What a program that reads the reply as it was would not find in it now."""
    if was is None or now is None:
        return []
    if kind(was) != kind(now):
        return [f"{where} was a {kind(was)}, and is a {kind(now)}"]
    found = []
    if isinstance(was, dict):
        for key in was:
            found += lacks(was[key], now[key], f"{where}.{key}") if key in now else [f"{where}.{key} is not there"]
    elif isinstance(was, list) and was and now:
        found += lacks(was[0], now[0], f"{where}[0]")
    return found


def unknown(was, now, where):
    """Keys that a request has and the release's had not, which a session refuses."""
    found = []
    if isinstance(now, dict):
        if not isinstance(was, dict):
            return [f"{where} was no object"]
        for key in now:
            found += unknown(was[key], now[key], f"{where}.{key}") if key in was else [f"{where}.{key} is new"]
    elif isinstance(now, list) and now:
        found += unknown(was[0], now[0], f"{where}[0]") if isinstance(was, list) and was else [f"{where} was no list, or empty"]
    elif kind(was) != kind(now):
        found = [f"{where} was a {kind(was)}, and is a {kind(now)}"]
    return found


def old_commands(session, path, scratch):
    count = 0
    for line in kept(path, scratch):
        if line["words"] == ["PROGRAM"]:
            run_program()
            count += 1
        for request, was in line["talk"]:
            now = json.loads(ask(session, json.dumps(request).encode()))
            wrong = lacks(was, now, "reply")
            if wrong or "ok" not in now:
                raise SystemExit(f"'{' '.join(line['words'])}' of the release asks {request}: {'; '.join(wrong) or now}")
            count += 1
    if count < len(COMMANDS[session].strip().splitlines()):
        raise SystemExit(f"only {count} requests are kept")
    print(f"{count} requests of the release are answered")


def old_session(strata, name, path, scratch):
    count = 0
    for line in kept(path, scratch):
        if line["words"] == ["PROGRAM"]:
            continue
        rest, wrong = list(line["talk"]), []

        def answer(request):
            now = json.loads(request)
            if not rest:
                wrong.append(f"asks once more than the release: {now}")
                return b'{"strata":1,"error":"no more"}'
            was, reply = rest.pop(0)
            if was.get("do") != now.get("do"):
                wrong.append(f"asks '{now.get('do')}' where the release asked '{was.get('do')}'")
            wrong.extend(unknown(was, now, "request"))
            if now.get("do") == "destroy":
                threading.Timer(0, listener.end).start()
            return json.dumps(reply).encode()

        listener = Listener(name, answer)
        status, said = command(strata, name, [word for word in line["words"] if word != "--force"] +
                               (["--force"] if line["words"][0] == "save" else []), scratch)
        listener.end()
        if status or wrong or listener.failure or rest:
            raise SystemExit(f"strata {' '.join(line['words'])}, to a session of the release: exit status {status}: "
                             f"{'; '.join(wrong)} {listener.failure or ''} {said[-500:]}")
        count += 1
    print(f"{count} commands go with a session of the release")


MODES = {"keep": keep, "session": old_commands, "commands": old_session}
MODES[sys.argv[1]](*sys.argv[2:])

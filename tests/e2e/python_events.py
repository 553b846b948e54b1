#!/usr/bin/env python3
"""A program with events of strata_events, and what a trace of it must have.

    python_events.py PART          runs a part; prints "N events" for each process, N by what it called
    python_events.py check PART TEXT   compares babeltrace2's TEXT of it with what the part says
"""

import asyncio
import collections
import enum
import os
import re
import signal
import subprocess
import sys
import threading

EVENTS = 0
LOCK = threading.Lock()


def count(number=1):
    """Counts events that this process has recorded."""
    global EVENTS
    with LOCK:
        EVENTS += number


def done():
    """Says how many there were."""
    print(f"{EVENTS} events", flush=True)


class Colour(enum.IntEnum):
    """An enumeration."""

    RED = 1
    BLUE = -2


class Shown:
    """An object with a text of its own."""

    def __init__(self, text):
        self.text = text

    def __str__(self):
        if self.text is None:
            raise ValueError("no text")
        return self.text


def values():
    """Values of all types, and types that change."""
    import array

    import strata_events as strata

    strata.event("shop:none")
    strata.event("shop:numbers", strata.WARNING, least=-(2**63), most=2**63 - 1, above=2**64 - 1, huge=10**30, half=0.5, yes=True)
    strata.event("shop:texts", text='é"', empty="", nul="a\0b", lone="\udc80", long="x" * 5000)
    strata.event("shop:objects", none=None, shown=Shown("shown"), fails=Shown(None), of=[1, None])
    strata.event("shop:lists", ints=[1, -2, 3], floats=(1, 2.5), none=[], raw=b"\0\1\xff", buffer=array.array("h", [-1, 2]))
    count(5)
    # The same name with other types, and the first ones again.
    for value in (7, "seven", None, 8, 7.5, "eight", 2**64 - 1, True):
        strata.event("shop:changing", value=value)
        count()
    for number in range(20):
        strata.event("shop:" + "dynamic", **{"number": number})
        count()
    strata.event("without_provider", number=1)
    sold = strata.Event("shop:sold", number=int, customer=str, colour=Colour, flags="hex", price=float, paid=bool, raw=bytes)
    sold(1, "Ada", Colour.RED, 255, 1.5, True, b"ab")
    sold(2, "Bob", colour=Colour.BLUE, flags=1, raw=b"", price=2, paid=False)
    # Values of other types are converted, or 0.
    sold("3", 4, "blue", -1, "2.5", 1, None)
    count(4)
    for wrong in (lambda: sold(1), lambda: sold(1, "", 1, 1, 1, True, nothing=1) if sold.enabled else sold(), lambda: strata.event("a:b", 99),
                  lambda: strata.event(7), strata.event, lambda: strata.Event("a:b", number=complex),
                  lambda: strata.span("shop:fields", number=1)(values)):
        if strata.availability() is None:
            try:
                wrong()
            except (TypeError, ValueError):
                continue
            raise AssertionError("no exception")
    # What libstrata refuses is no error of the program.
    strata.event("bad\n:name", number=1)
    strata.event("bad\n:name", number=1)
    strata.Event("bad\n:name", number=int)(1)
    done()


def threads():
    """Events and spans of four threads, and decorated functions of all kinds."""
    import strata_events as strata

    class Shop:
        """A class with traced methods."""

        @strata.span("shop:method")
        def method(self, number, *, named):
            """Returns both."""
            return number, named

        @staticmethod
        @strata.span("shop:static")
        def static(number):
            """Returns the number."""
            return number

    @strata.span("shop:generator")
    def generator():
        yield 1
        yield 2

    shop = Shop()
    assert Shop.method.__name__ == "method" and Shop.method.__doc__ == "Returns both."

    def work(thread):
        for number in range(500):
            with strata.span("shop:work", thread=thread):
                strata.event("shop:step", strata.DEBUG, number=number, text=f"{thread}/{number}")
                assert shop.method(number, named=1) == (number, 1)
            count(5)
        assert shop.static(3) == 3 and list(generator()) == [1, 2]
        count(4)
        try:
            with strata.span("shop:fails"):
                raise KeyError
        except KeyError:
            count(2)

    all_threads = [threading.Thread(target=work, args=(thread,)) for thread in range(4)]
    for thread in all_threads:
        thread.start()
    for thread in all_threads:
        thread.join()
    done()


def processes():
    """Children by fork, with the parent's classes, and programs that replace them."""
    global EVENTS
    import strata_events as strata

    sold = strata.Event("shop:sold", number=int)
    for child in range(3):
        sold(child)
        count()
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0:
            EVENTS = 0
            for number in range(100):
                sold(number)
                strata.event("shop:child", child=child, number=number)
                count(2)
            done()
            if child == 2:
                os.execv(sys.executable, [sys.executable, __file__, "exec"])
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
    subprocess.run([sys.executable, __file__, "exec"], check=True)
    done()


def executed():
    """What the others execute."""
    import strata_events as strata

    for number in range(10):
        strata.event("shop:executed", number=number)
        count()
    done()


def killed():
    """Killed behind its last event."""
    import strata_events as strata

    for number in range(1000):
        strata.event("shop:step", number=number)
        count()
    done()
    os.kill(os.getpid(), signal.SIGKILL)


def logged():
    """Messages of logging."""
    import logging

    import strata_events as strata

    logging.basicConfig(level=logging.DEBUG, handlers=[strata.LoggingHandler()])
    orders = logging.getLogger("shop.orders")

    # A filter that takes secrets out, by another record from Python 3.12 on.
    def without_secret(record):
        safe = record
        if sys.version_info >= (3, 12):
            safe = logging.makeLogRecord(record.__dict__)
        safe.msg = "not said"
        return safe

    secrets, handler = logging.getLogger("shop.secrets"), strata.LoggingHandler()
    handler.addFilter(without_secret)
    handler.addFilter(lambda record: record.levelno > logging.DEBUG)
    secrets.addHandler(handler)
    secrets.propagate = False
    secrets.warning("secret")
    secrets.debug("secret")
    count()
    for number in range(50):
        orders.info("order %d of %s", number, "Ada")
        orders.debug("detail")
        count(2)
    logging.warning("at the root")
    logging.getLogger("a:b").critical("colon")
    try:
        raise KeyError("lost key")  # word-ok: a text of an exception
    except KeyError:
        orders.exception("failed")
    count(3)
    done()


def tasks():
    """Tasks of asyncio, and spans that overlap."""
    import strata_events as strata

    class Turn:
        """Lets the other tasks run."""

        def __await__(self):
            yield

    async def forever():
        await asyncio.get_running_loop().create_future()

    @strata.span("shop:coroutine")
    async def coroutine(number):
        with strata.async_span("shop:request", number=number):
            await Turn()
            strata.event("shop:step", number=number)
            await Turn()
        return number

    async def main():
        strata.trace_tasks()
        assert await asyncio.gather(*(coroutine(number) for number in range(100))) == list(range(100))
        count(100 * (2 + 2 + 1 + 2))
        task = asyncio.create_task(forever())
        await Turn()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await Turn()
        count(2)
        # The rest of run() has tasks of its own.
        asyncio.get_running_loop().set_task_factory(None)

    asyncio.run(main())
    done()


def functions():
    """Calls of functions."""
    import strata_events as strata

    assert strata.trace_functions("__main__.fib*", "__main__.functions.<locals>.*", exclude=["*excluded"])

    def generator():
        for number in range(3):
            yield number

    def fails():
        raise KeyError

    def excluded():
        return 1

    fib(10)
    count(2 * 177)
    assert list(generator()) == [0, 1, 2] and excluded() == 1
    count(2 * 4)
    for _ in range(2):
        try:
            fails()
        except KeyError:
            count(2)
    assert strata.trace_functions()
    fib(10)
    done()


def fib(number):
    """Returns a number of Fibonacci by 177 calls for 10."""
    return number if number < 2 else fib(number - 1) + fib(number - 2)


def short_threads():
    """Threads that end leave no memory behind, however deep their calls were. It is for a process that nobody records."""
    import strata_events as strata

    def down(depth):
        return depth and down(depth - 1)

    def memory():
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def run(number):
        for _ in range(number):
            thread = threading.Thread(target=down, args=(250,))
            thread.start()
            thread.join()

    assert strata.trace_functions("__main__.short_threads.<locals>.down")
    run(300)
    before = memory()
    run(2000)
    # Each has had room for 256 calls, which is 4 KiB.
    assert memory() - before < 4 << 20, memory() - before


def lazy():
    """Values that are not evaluated while nobody records them."""
    import strata_events as strata

    class Counted(Shown):
        """Counts how often it is asked for its text."""

        def __str__(self):
            count()
            return super().__str__()

    strata.event("shop:even", value=Counted("x"))
    strata.event("shop:odd", value=Counted("x"))
    done()


PARTS = {"values": values, "threads": threads, "processes": processes, "exec": executed, "killed": killed, "logging": logged,
         "tasks": tasks, "functions": functions, "short_threads": short_threads, "lazy": lazy}


# ---- the check ----


def found(lines, event):
    """The fields of an event's records."""
    return [line.split(f" {event}: ", 1)[1] for line in lines if f" {event}: " in line]


def check_values(lines):
    """Compares values()."""
    one = lambda event: found(lines, event)[0]
    assert len(found(lines, "shop:none")) == 1
    assert ("least = -9223372036854775808, most = 9223372036854775807, above = 18446744073709551615, _huge_length = 31, "
            f'huge = "{10**30}", half = 0.5, yes = 1') in one("shop:numbers"), one("shop:numbers")
    texts = one("shop:texts")
    assert '_text_length = 3, text = "é\\"", _empty_length = 0, empty = "", _nul_length = 3, nul = "a' in texts, texts
    assert "lone = \"\\\\udc80\"" in texts and '"' + "x" * 5000 + '"' in texts, texts
    objects = one("shop:objects")
    assert 'none = "None"' in objects and 'shown = "shown"' in objects and 'fails = "<Shown without str()>"' in objects, objects
    assert 'of = "[1, None]"' in objects, objects
    lists = one("shop:lists")
    for text in ("ints = [ [0] = 1, [1] = -2, [2] = 3 ]", "floats = [ [0] = 1, [1] = 2.5 ]", "_none_length = 0",
                 "raw = [ [0] = 0, [1] = 1, [2] = 255 ]", "buffer = [ [0] = -1, [1] = 2 ]"):
        assert text in lists, lists
    changing = [re.search(r"shop:(changing\S*): .*?value = (.*) }", line) for line in lines]
    changing = [match.groups() for match in changing if match]
    # What is no number is a text.
    assert changing == [("changing", "7"), ("changing/2", '"seven"'), ("changing/2", '"None"'), ("changing", "8"),
                        ("changing/3", "7.5"), ("changing/2", '"eight"'), ("changing/4", "18446744073709551615"),
                        ("changing", "1")], changing
    assert [int(re.search(r"number = (\d+)", line)[1]) for line in found(lines, "shop:dynamic")] == list(range(20))
    assert len(found(lines, "python:without_provider")) == 1
    sold = found(lines, "shop:sold")
    assert 'number = 1, _customer_length = 3, customer = "Ada", colour = ( "RED" : container = 1 ), flags = 0xFF, price = 1.5, paid = 1' in sold[0], sold
    assert 'colour = ( "BLUE" : container = -2 ), flags = 0x1, price = 2, paid = 0, _raw_length = 0' in sold[1], sold
    assert 'number = 3, _customer_length = 1, customer = "4"' in sold[2] and "flags = 0x0, price = 2.5, paid = 1" in sold[2], sold


def check_threads(lines):
    """Compares threads()."""
    order = collections.defaultdict(list)
    for line in lines:
        match = re.search(r'vtid = (\d+).*number = (\d+), _text_length = \d+, text = "(\d)/(\d+)"', line)
        if " shop:step: " in line:
            assert match and match[2] == match[4], line
            order[match[1], match[3]].append(int(match[2]))
    assert sorted(thread for _, thread in order) == list("0123")
    assert all(numbers == list(range(500)) for numbers in order.values())
    for name, number in (("work", 2000), ("method", 2000), ("static", 4), ("generator", 4), ("fails", 4)):
        for end in ("begin", "end"):
            assert len(found(lines, f"shop:{name}_{end}")) == number, (name, end)


def check_processes(lines):
    """Compares processes()."""
    order = collections.defaultdict(list)
    for line in lines:
        match = re.search(r"\((\d+)\) shop:(\w+): .*number = (\d+)", line)
        order[match[1], match[2]].append(int(match[3]))
    by_event = collections.Counter()
    for (_, event), numbers in order.items():
        assert numbers == list(range(len(numbers))), (event, numbers)
        by_event[event] += len(numbers)
    assert by_event == {"sold": 303, "child": 300, "executed": 20}, by_event


def check_killed(lines):
    """Compares killed()."""
    assert [int(re.search(r"number = (\d+)", line)[1]) for line in found(lines, "shop:step")] == list(range(1000))


def check_logging(lines):
    """Compares logged()."""
    infos = found(lines, "shop.orders:info")
    texts = [re.search(r'message = "(.*?)", .*file = ".*python_events.py", line = \d+, .*function = "logged"', line)[1] for line in infos]
    assert texts == [f"order {number} of Ada" for number in range(50)], texts
    assert len(found(lines, "shop.orders:debug")) == 50
    assert ['message = "not said"' in line for line in found(lines, "shop.secrets:warning")] == [True]
    assert not found(lines, "shop.secrets:debug")
    assert 'message = "at the root"' in found(lines, "root:warning")[0]
    assert 'message = "colon"' in found(lines, "a.b:critical")[0]
    failed, = found(lines, "shop.orders:error_exception")
    assert 'message = "failed"' in failed and "Traceback" in failed and "KeyError" in failed, failed


def check_tasks(lines):
    """Compares tasks()."""
    for name in ("shop:coroutine", "shop:request", "asyncio:task"):
        begun, ended = ([int(re.search(r"span_key = 0x(\w+)", line)[1], 16) for line in found(lines, f"{name}_{end}")]
                        for end in ("begin", "end"))
        assert len(set(begun)) == len(begun) and sorted(begun) == sorted(ended), name
    numbers = [int(re.search(r"number = (\d+)", line)[1]) for line in found(lines, "shop:request_begin")]
    assert numbers == list(range(100)), numbers
    started = [line for line in found(lines, "asyncio:task_begin") if 'coroutine = "tasks.<locals>.coroutine"' in line]
    assert len(started) == 100 and all("parent = 0" in line for line in started), started


def check_functions(lines):
    """Compares functions()."""
    assert len(found(lines, "python:__main__.fib_begin")) == 177
    depth = deepest = 0
    for line in lines:
        depth += 1 if "_begin: " in line else -1
        deepest = max(deepest, depth)
        assert depth >= 0
    assert depth == 0 and deepest == 10, (depth, deepest)
    assert not found(lines, "python:__main__.functions.<locals>.excluded_begin")
    assert len(found(lines, "python:__main__.functions.<locals>.generator_end")) == 4


def check_lazy(lines):
    """Compares lazy(): one text was asked for, of the event that is recorded."""
    assert len(lines) == 1 and " shop:odd: " in lines[0], lines


CHECKS = {"values": check_values, "threads": check_threads, "processes": check_processes, "killed": check_killed,
          "logging": check_logging, "tasks": check_tasks, "functions": check_functions, "lazy": check_lazy}

if __name__ == "__main__":
    if sys.argv[1] == "check":
        with open(sys.argv[3], encoding="utf-8", errors="replace") as file:
            CHECKS[sys.argv[2]](file.read().splitlines())
    else:
        PARTS[sys.argv[1]]()

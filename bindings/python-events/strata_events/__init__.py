"""Trace events and spans of this program, recorded by Strata.

>>> import strata_events
>>> strata_events.event("shop:sold", number=1, customer="Ada")
>>> with strata_events.span("shop:pay", number=1):
...     pass
>>> @strata_events.span("shop:sell")
... def sell(number):
...     return number
>>> sell(7)
7

Where Strata is not installed nothing happens: availability() says why, and with STRATA_VERBOSE=1 in the environment the
program says it once.
"""

import enum
import functools
import inspect

try:
    from . import _native
except ImportError as _error:
    from . import _absent as _native

    _native.reason = f"the extension of strata_events is not there: {_error}"

from ._functions import trace_functions
from ._logging import LoggingHandler
from ._tasks import trace_tasks

EMERG, ALERT, CRIT, ERR, WARNING, NOTICE, INFO = range(7)
DEBUG_SYSTEM, DEBUG_PROGRAM, DEBUG_PROCESS, DEBUG_MODULE, DEBUG_UNIT, DEBUG_FUNCTION, DEBUG_LINE, DEBUG = range(7, 15)

async_span = _native.async_span
availability = _native.availability
event = _native.event
span = _native.span

__all__ = [
    "ALERT",
    "CRIT",
    "DEBUG",
    "DEBUG_FUNCTION",
    "DEBUG_LINE",
    "DEBUG_MODULE",
    "DEBUG_PROCESS",
    "DEBUG_PROGRAM",
    "DEBUG_SYSTEM",
    "DEBUG_UNIT",
    "EMERG",
    "ERR",
    "Event",
    "INFO",
    "LoggingHandler",
    "NOTICE",
    "WARNING",
    "async_span",
    "availability",
    "event",
    "span",
    "trace_functions",
    "trace_tasks",
]

_KINDS = {
    bool: _native.BOOL,
    bytes: _native.BYTES,
    float: _native.FLOAT,
    int: _native.INT,
    str: _native.TEXT,
    "hex": _native.HEX,
    "u64": _native.UINT,
}


def Event(name, level=INFO, /, **fields):  # pylint: disable=invalid-name
    """Makes an event class with fields of declared types: int, "u64", "hex", float, bool, str, bytes, or an IntEnum.

    Returns an object to be called with one value for each field. A value of another type is converted; one that cannot be
    is recorded as 0 or as nothing.

    >>> sold = Event("shop:paid", number=int, customer=str)
    >>> sold(1, "Ada")
    >>> sold(customer="Ada", number=2)
    """
    kinds, labels = [], []
    for field, kind in fields.items():
        is_enum = isinstance(kind, type) and issubclass(kind, enum.IntEnum)
        if not is_enum and kind not in _KINDS:
            raise TypeError(f"event '{name}': field '{field}' has type {kind!r}; there are int, 'u64', 'hex', float, bool, str, "
                            f"bytes, and subclasses of IntEnum")
        kinds.append(_native.INT if is_enum else _KINDS[kind])
        labels.append([(label, int(member)) for label, member in kind.__members__.items()] if is_enum else None)
    return _native.Event(name, level, tuple(fields), bytes(kinds), labels)


def _decorate(name, level, has_key, function):
    """Returns the function with a span around each call; for span()."""
    if inspect.isasyncgenfunction(function):
        raise TypeError(f"span '{name}': {function!r} is an asynchronous generator; write 'with async_span(...)' in it")
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def coroutine(*args, **kwargs):
            with async_span(name, level):
                return await function(*args, **kwargs)

        return coroutine
    if inspect.isgeneratorfunction(function):

        @functools.wraps(function)
        def generator(*args, **kwargs):
            with async_span(name, level):
                return (yield from function(*args, **kwargs))

        return generator
    if has_key:

        @functools.wraps(function)
        def keyed(*args, **kwargs):
            with async_span(name, level):
                return function(*args, **kwargs)

        return keyed
    return functools.update_wrapper(_native.Traced(function, name, level), function)

"""A handler of logging that records messages as events."""

import logging

from . import _native

# The severity of LTTng and syslog for a number of logging.
_LEVELS = ((50, 2), (40, 3), (30, 4), (20, 6), (10, 14))

_PLAIN = logging.Formatter()


def _level(number):
    for least, level in _LEVELS:
        if number >= least:
            return level
    return 14


class LoggingHandler(logging.Handler):
    """Records each message of the loggers that it is added to: as event LOGGER:LEVEL, "shop.orders:warning".

    Fields are message, file, line and function, and with an exception its traceback. While nobody records an event, its
    message is not formatted. A formatter is not used, since its parts are fields.

    >>> logging.getLogger().addHandler(LoggingHandler())
    """

    def __init__(self, level=logging.NOTSET):
        super().__init__(level)
        self._events = {}
        self._exceptions = {}

    def createLock(self):
        """A record needs no lock: nothing is written to a stream."""
        self.lock = None

    def _make(self, record, has_exception):
        known = self._exceptions if has_exception else self._events
        fields = ("message", "file", "line", "function") + (("exception",) if has_exception else ())
        kinds = [_native.TEXT, _native.TEXT, _native.INT, _native.TEXT] + [_native.TEXT] * has_exception
        # A colon ends the name of the group.
        logger = record.name.replace(":", ".") or "root"
        name = f"{logger}:{record.levelname.lower() or record.levelno}{'_exception' if has_exception else ''}"
        event = _native.Event(name, _level(record.levelno), fields, bytes(kinds), [None] * len(fields))
        known[record.name, record.levelno] = event
        return event

    def handle(self, record):
        """Records the message, if a filter of this handler does not refuse it."""
        if self.filters:
            kept = self.filter(record)
            if not kept:
                return False
            # From Python 3.12 on a filter may return another record, such as one without secrets.
            record = kept if isinstance(kept, logging.LogRecord) else record
        has_exception = bool(record.exc_info and record.exc_info[0])
        known = self._exceptions if has_exception else self._events
        event = known.get((record.name, record.levelno)) or self._make(record, has_exception)
        if not event.enabled:
            return True
        try:
            message = record.getMessage()
            if has_exception:
                text = _PLAIN.formatException(record.exc_info)
                event(message, record.pathname, record.lineno, record.funcName, text)
            else:
                event(message, record.pathname, record.lineno, record.funcName)
        except Exception:  # pylint: disable=broad-except
            self.handleError(record)
        return True

    emit = handle

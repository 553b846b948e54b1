"""Reads traces: as events, as rows of SQL, and as Arrow; and controls sessions.

>>> import strata
>>> trace = strata.open("my-trace")                                    # doctest: +SKIP
>>> for event in trace.events("sched_switch && next_comm == 'nginx'"):  # doctest: +SKIP
...     print(event.time_ns, event.cpu, event["next_tid"])
>>> trace.sql("select name, count(*) from events group by name").to_pandas()  # doctest: +SKIP
"""

from ._session import Session
from ._strata import (
    REPORTS,
    Error,
    Event,
    EventIterator,
    OpenError,
    QueryError,
    Rows,
    SessionError,
    Trace,
    TraceWarning,
)

__all__ = [
    "REPORTS",
    "Error",
    "Event",
    "EventIterator",
    "OpenError",
    "QueryError",
    "Rows",
    "Session",
    "SessionError",
    "Trace",
    "TraceWarning",
    "open",
]


def open(*paths, pairs=(), counters=()):  # pylint: disable=redefined-builtin
    """Opens the traces that are in these folders, to be read together by time.

    `pairs` are rules such as "db:query=db:result:id" for further rows of the table spans, `counters` such as "myapp:queue.length" for rows
    of the table counter; they are those of `strata export --pair` and `--counter`.

    Raises OpenError if there is none, or if one cannot be read at all. A damaged trace is read as far as it is intact,
    with a TraceWarning.
    """
    return Trace(*paths, pairs=list(pairs), counters=list(counters))

"""Reads traces: as events, as rows of SQL, and as Arrow."""

import os
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple, Union

class Error(Exception):
    """An error of this package."""

class OpenError(Error):
    """A trace cannot be opened."""

class QueryError(Error):
    """A query or a filter is wrong, or has no answer."""

class SessionError(Error):
    """A session is not there, or refuses a request."""

class TraceWarning(UserWarning):
    """A trace lacks something: records that the tracer discarded, or damage that was skipped."""

class Event:
    """An event record: its time, its name, and its fields by name."""

    @property
    def time_ns(self) -> Optional[int]:
        """Nanoseconds since 1970; None if the record has no time."""
    @property
    def name(self) -> str:
        """The event's name, such as 'sched_switch'."""
    @property
    def cpu(self) -> Optional[int]:
        """The number of the CPU that made the record, if the trace has it."""
    @property
    def trace(self) -> int:
        """The number of the record's trace in `Trace.traces`."""
    @property
    def loglevel(self) -> Optional[int]:
        """The level, 0 (emergency) to 14 (debug), if the trace has it."""
    @property
    def fields(self) -> Dict[str, Any]:
        """The fields, by name: int, bool, float, str, bytes, list, dict, or None where an optional one is absent."""
    @property
    def context(self) -> Dict[str, Any]:
        """What the tracer added to the record, such as 'vtid' or 'vpid', by name."""
    def labels(self, field: str) -> List[str]:
        """The labels that an enumeration's value has, in order."""
    def get(self, name: str, default: Any = None) -> Any:
        """The same as event[name], or `default` where the event has no such field."""
    def __getitem__(self, name: str) -> Any: ...
    def __contains__(self, name: str) -> bool: ...

class EventIterator(Iterator[Event]):
    """The event records of a trace, by time."""

    def __iter__(self) -> "EventIterator": ...
    def __next__(self) -> Event: ...
    def __arrow_c_schema__(self) -> object: ...
    def __arrow_c_stream__(self, requested_schema: Optional[object] = None) -> object: ...
    @property
    def discarded(self) -> int:
        """Records that the tracer discarded in what was read; known when the last event was given."""
    @property
    def damage(self) -> List[str]:
        """Texts of the first damages of what was read; known when the last event was given."""
    @property
    def left_out(self) -> List[str]:
        """What the filter could not judge, since there is too much of it in the traces; known when the last event was given."""

class Rows(Iterator[Tuple[Any, ...]]):
    """The rows of a query, as they come: tuples, or Arrow batches. Each Arrow stream runs the query again."""

    @property
    def columns(self) -> List[str]:
        """Names of the columns, in order."""
    def __iter__(self) -> "Rows": ...
    def __next__(self) -> Tuple[Any, ...]: ...
    def fetchall(self) -> List[Tuple[Any, ...]]:
        """All rows that were not taken yet."""
    def to_arrow(self) -> Any:
        """A pyarrow.Table; pyarrow has to be installed."""
    def to_pandas(self) -> Any:
        """A pandas.DataFrame; pandas and pyarrow have to be installed."""
    def __arrow_c_schema__(self) -> object: ...
    def __arrow_c_stream__(self, requested_schema: Optional[object] = None) -> object: ...
    @property
    def left_out(self) -> List[str]:
        """What the tables lack, since there is too much of it in the traces; known when the last row was given."""

class Trace:
    """Traces that are read together, by time."""

    def __init__(
        self, *paths: Union[str, "os.PathLike[str]"], pairs: Sequence[str] = (), counters: Sequence[str] = ()
    ) -> None: ...
    def events(
        self,
        filter: Optional[str] = None,
        *,
        names: Optional[Sequence[str]] = None,
        begin_ns: Optional[int] = None,
        end_ns: Optional[int] = None,
    ) -> EventIterator:
        """The event records, by time."""
    def __iter__(self) -> EventIterator: ...
    def sql(self, query: str) -> Rows:
        """The rows of a query."""
    def table(self, name: str) -> Rows:
        """All rows of a table, such as 'calls', 'states', 'spans' or the name of an event."""
    def report(self, name: str) -> Rows:
        """A report of `strata analyze` as rows: see REPORTS."""
    def timeline(self) -> Rows:
        """What each thread did and waited for, over time."""
    @property
    def tables(self) -> Dict[str, Dict[str, str]]:
        """The tables: names, each with the names and types of its columns."""
    @property
    def traces(self) -> List[Path]:
        """The folders that are read, in the order of `Event.trace`."""
    @property
    def begin_ns(self) -> Optional[int]:
        """The time of the first record, in nanoseconds since 1970, as far as packets tell."""
    @property
    def end_ns(self) -> Optional[int]:
        """The time of the last record."""

class Session:
    """A session, which records what its rules select, from `start` to `stop`, until it is destroyed."""

    def __init__(
        self,
        name: str,
        *,
        user: Union[str, Sequence[str]] = (),
        kernel: Union[str, Sequence[str]] = (),
        output: Optional[Union[str, "os.PathLike[str]"]] = None,
        flight_recorder: bool = False,
        options: Sequence[str] = (),
        command: Union[str, "os.PathLike[str]"] = "strata",
    ) -> None: ...
    @classmethod
    def attach(cls, name: str) -> "Session":
        """The session of this name, whoever has made it."""
    @property
    def name(self) -> str:
        """The session's name."""
    def start(self) -> None:
        """Begins to record, or goes on."""
    def stop(self) -> None:
        """Pauses until `start`."""
    def status(self) -> Dict[str, Any]:
        """How it is, as `strata status --json` has it."""
    def rotate(self) -> Optional[Path]:
        """Completes the present part of the trace, and goes on in a new one."""
    def snapshot(self, output: Union[str, "os.PathLike[str]"], *, last: Optional[float] = None) -> Optional[Path]:
        """Has a flight recorder write what it holds into a new folder; None if it holds no record."""
    def destroy(self) -> Optional[Dict[str, Any]]:
        """Ends the session, waits until its trace is complete, and returns its report."""
    def __enter__(self) -> "Session": ...
    def __exit__(self, *details: object) -> None: ...

REPORTS: Dict[str, str]
"""The reports of Trace.report(), each with its query."""

def open(
    *paths: Union[str, "os.PathLike[str]"], pairs: Sequence[str] = (), counters: Sequence[str] = ()
) -> Trace:
    """Opens the traces that are in these folders, to be read together by time."""

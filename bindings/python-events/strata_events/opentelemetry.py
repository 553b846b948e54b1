"""Spans of OpenTelemetry as spans of Strata, with their ids. Needs the package opentelemetry-sdk.

>>> from opentelemetry import trace
>>> from opentelemetry.sdk.trace import TracerProvider
>>> from strata_events.opentelemetry import SpanProcessor
>>> provider = TracerProvider()
>>> provider.add_span_processor(SpanProcessor())
>>> trace.set_tracer_provider(provider)
"""

import re
import weakref

from opentelemetry.sdk import trace
from opentelemetry.trace import StatusCode

from . import _native

# A span's name is a class' name. Names are to be few, but some programs put numbers into them: beyond this many, spans
# are of the class "otel:span".
_NAMES_MAX = 256
_UNUSUAL = re.compile(r"[^A-Za-z0-9_./-]+")
_ERR = 3
_TEXT_MAX = 200


class SpanProcessor(trace.SpanProcessor):
    """Records each span that is sampled as a span "otel:NAME" from its begin to its end, in whichever threads these are.

    Fields are name, trace_id (32 hexadecimal digits), span_id (16), parent_id (of the span that it is a part of, which may be
    in another process; empty if there is none), and kind. A span that ends with an error is also an event "otel:error" with
    its ids and what is said of it. Where Strata is not installed nothing happens.
    """

    def __init__(self):
        super().__init__()
        self._is_there = _native.availability() is None
        self._names = {}
        # What is open, by the ids. A span that its program forgets without an end leaves it, and ends, when it is freed.
        self._open = {}

    def _class(self, name):
        known = self._names.get(name)
        if known is None:
            # Without a lock: a child process would wait for ever for one that another thread held at the fork. Threads that come
            # here at the same time make some names more.
            if len(self._names) >= _NAMES_MAX:
                return "otel:span"
            known = "otel:" + (_UNUSUAL.sub("_", name)[:_TEXT_MAX].strip("_") or "span")
            self._names[name] = known
        return known

    def on_start(self, span, parent_context=None):
        """Begins the span."""
        if not self._is_there:
            return
        context, parent = span.get_span_context(), span.parent
        ids = context.trace_id, context.span_id
        begun = _native.async_span(
            self._class(span.name),
            name=span.name,
            trace_id=format(context.trace_id, "032x"),
            span_id=format(context.span_id, "016x"),
            parent_id=format(parent.span_id, "016x") if parent else "",
            kind=span.kind.name.lower(),
        )
        begun.__enter__()
        forget = self._open.pop
        self._open[ids] = begun, weakref.ref(span, lambda _: forget(ids, None))

    def on_end(self, span):
        """Ends the span."""
        if not self._is_there:
            return
        context = span.get_span_context()
        begun, _ = self._open.pop((context.trace_id, context.span_id), (None, None))
        if begun is None:
            return
        if span.status.status_code is StatusCode.ERROR:
            _native.event(
                "otel:error",
                _ERR,
                name=span.name,
                trace_id=format(context.trace_id, "032x"),
                span_id=format(context.span_id, "016x"),
                description=span.status.description or "",
            )
        begun.__exit__(None, None, None)

"""A request over two processes, traced with OpenTelemetry, for tests/interop/opentelemetry. Prints "SPAN TRACE_ID SPAN_ID PARENT_ID KIND
STATUS DESCRIPTION PROCESS" for each span that has ended, as OpenTelemetry itself says it."""
import gc
import os
import sys
import time

from opentelemetry import trace
from opentelemetry.propagate import extract, inject
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from strata_events.opentelemetry import SpanProcessor


class Printer(SpanExporter):
    def export(self, spans):
        for span in spans:
            own, parent = span.context, span.parent
            line = (span.name, format(own.trace_id, "032x"), format(own.span_id, "016x"), format(parent.span_id, "016x") if parent else "-")
            line += (span.kind.name, span.status.status_code.name, span.status.description or "", str(os.getpid()))
            os.write(1, ("\t".join(line) + "\n").encode())
        return SpanExportResult.SUCCESS


ours = SpanProcessor()
provider = TracerProvider()
provider.add_span_processor(ours)
provider.add_span_processor(SimpleSpanProcessor(Printer()))
tracer = provider.get_tracer("test")


def worker(requests, answers):
    while True:
        line = os.read(requests, 200).decode()
        if not line:
            return
        context = extract({"traceparent": line})
        with tracer.start_as_current_span("worker: sum", context=context, kind=trace.SpanKind.SERVER):
            time.sleep(0.05)  # Time: what the request waits for.
        os.write(answers, b"1")


def main():
    there, back = os.pipe(), os.pipe()
    if os.fork() == 0:
        os.close(there[1])
        worker(there[0], back[1])
        os._exit(0)
    for number in range(5):
        with tracer.start_as_current_span("GET /orders/{id}", kind=trace.SpanKind.SERVER) as request:
            with tracer.start_as_current_span("ask", kind=trace.SpanKind.CLIENT):
                carrier = {}
                inject(carrier)
                os.write(there[1], carrier["traceparent"].encode())
                os.read(back[0], 1)
            if number == 3:
                request.set_status(trace.Status(trace.StatusCode.ERROR, 'no "such" order'))
    os.close(there[1])
    os.wait()
    # Names with numbers in them, names of any text, and spans that nobody ends.
    for number in range(300):
        tracer.start_span(f"user {number} ☃").end()
    for _ in range(1000):
        tracer.start_span("forgotten")
    gc.collect()
    left = len(ours._open)
    assert left == 0, left
    unsampled = TracerProvider(sampler=ALWAYS_OFF)
    unsampled.add_span_processor(SpanProcessor())
    with unsampled.get_tracer("test").start_as_current_span("not sampled"):
        pass


sys.exit(main())

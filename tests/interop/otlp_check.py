"""What `strata export --to otlp` has written, read by OpenTelemetry's own messages.

  otlp_check.py files TRUTH JSON PROTOBUF    both are the spans that the program of otel_program.py has printed
  otlp_check.py receive PROTOBUF COMMAND...  a receiver gets the same spans from COMMAND -o http://...
  otlp_check.py traces TRUTH JSON            `analyze spans --by trace --json` has the program's requests, as trees
  otlp_check.py waits TRUTH JSON             spans say what they waited for
"""
import base64
import http.server
import json
import subprocess
import sys
import threading

from google.protobuf import json_format, unknown_fields
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest, ExportTraceServiceResponse
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status, TracesData


def known(message):
    """Nothing in it is unknown to OpenTelemetry."""
    assert len(unknown_fields.UnknownFieldSet(message)) == 0, message
    for field, value in message.ListFields():
        if field.message_type is not None:
            for one in [value] if hasattr(value, "ListFields") else value:
                known(one)


def with_base64(value):
    """Protobuf's JSON has bytes in base64, OpenTelemetry's has ids in hexadecimal: the one, made of the other."""
    if isinstance(value, list):
        return [with_base64(one) for one in value]
    if not isinstance(value, dict):
        return value
    ids = "traceId", "spanId", "parentSpanId"
    return {
        key: base64.b64encode(bytes.fromhex(one)).decode() if key in ids else with_base64(one) for key, one in value.items()
    }


def from_json(name):
    """All requests of a file with one on each line, as one."""
    data = TracesData()
    with open(name, encoding="utf-8") as lines:
        for line in lines:
            data.MergeFrom(json_format.ParseDict(with_base64(json.loads(line)), TracesData()))
    return data


def from_protobuf(name):
    """A file of requests one after the other, which is one with the spans of all."""
    with open(name, "rb") as file:
        data = TracesData.FromString(file.read())
    known(data)
    return data


def value(any_value):
    """The value of an attribute."""
    which = any_value.WhichOneof("value")
    found = getattr(any_value, which)
    return [value(one) for one in found.values] if which == "array_value" else found


def spans(data):
    """Each span, its attributes and those of its process."""
    for resource in data.resource_spans:
        of = {it.key: value(it.value) for it in resource.resource.attributes}
        for scope in resource.scope_spans:
            assert scope.scope.name == "strata" and scope.spans
            for span in scope.spans:
                yield span, {it.key: value(it.value) for it in span.attributes}, of


def read_truth(name):
    """What the program printed."""
    with open(name, encoding="utf-8") as lines:
        return [line.rstrip("\n").split("\t") for line in lines if "\t" in line]


def files(truth, json_name, protobuf_name):
    """Both files have the spans of the program, and no others but those that it forgot."""
    data = from_protobuf(protobuf_name)
    assert from_json(json_name) == data, "JSON and protobuf differ"
    found = {(span.trace_id.hex(), span.span_id.hex()): (span, own, of) for span, own, of in spans(data)}
    assert len(found) == 1315, len(found)
    wanted = read_truth(truth)
    assert len(wanted) == 315, len(wanted)
    for name, trace_id, span_id, parent, kind, status, description, process in wanted:
        span, own, of = found.pop((trace_id, span_id))
        assert span.name == name, (span.name, name)
        assert (span.parent_span_id.hex() or "-") == parent, (name, parent)
        assert Span.SpanKind.Name(span.kind) == f"SPAN_KIND_{kind}", (name, kind)
        assert Status.StatusCode.Name(span.status.code) == f"STATUS_CODE_{status}", (name, status)
        assert span.status.message == description, (name, description)
        assert of["process.pid"] == int(process) and of["service.name"].startswith("python"), of
        assert 0 < span.start_time_unix_nano < span.end_time_unix_nano, name
        assert own["thread.id"] == int(process) and own["strata.span"].startswith("otel:"), own
        assert set(own) == {"thread.id", "thread.name", "strata.span"}, own
    assert {one[0].name for one in found.values()} == {"forgotten"}


class Receiver(http.server.BaseHTTPRequestHandler):
    """Asks once to come again, and refuses a span of the last request."""

    got = TracesData()
    requests = 0

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        Receiver.requests += 1
        if Receiver.requests == 2:
            self.send_response(503)
            self.send_header("Retry-After", "0")
            self.end_headers()
            return
        assert self.path == "/v1/traces" and self.headers["Content-Type"] == "application/x-protobuf", self.headers
        request = ExportTraceServiceRequest.FromString(body)
        known(request)
        Receiver.got.MergeFromString(body)
        response = ExportTraceServiceResponse()
        if len(list(spans(request))) < 512:
            response.partial_success.rejected_spans = 1
            response.partial_success.error_message = "one too many"
        body = response.SerializeToString()
        self.send_response(200)
        self.send_header("Content-Type", "application/x-protobuf")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def receive(protobuf_name, *command):
    """The command sends the same spans, again where it is asked to, and says which are refused."""
    server = http.server.HTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}"
    done = subprocess.run([*command, "-o", address], capture_output=True, text=True, check=False)
    print(done.stderr)
    assert done.returncode == 2, done.returncode
    assert "the receiver refuses 1 span: one too many" in done.stderr
    assert f"sent 1,315 spans to {address}/v1/traces" in done.stderr
    assert "status 503. Sending again" in done.stderr and Receiver.requests == 4, Receiver.requests
    assert Receiver.got == from_protobuf(protobuf_name)
    server.shutdown()


def waits(truth, json_name):
    """The first requests waited for the answer of the other process, which slept."""
    found = {(span.trace_id.hex(), span.span_id.hex()): (span, own) for span, own, _ in spans(from_json(json_name))}
    states = "running", "interrupted", "runnable", "blocked", "unknown"
    wanted = [one for one in read_truth(truth) if one[0].startswith("GET") or one[0].startswith("worker")]
    assert len(wanted) == 10
    done = set()
    for name, trace_id, span_id, *_ in wanted:
        span, own = found[trace_id, span_id]
        length = span.end_time_unix_nano - span.start_time_unix_nano
        assert sum(own[f"strata.{state}_ns"] for state in states) == length, (own, length)
        call = "read" if name.startswith("GET") else "clock_nanosleep"
        waited = own.get(f"strata.waited_ns.{call}", 0)
        # One that got a CPU too late to wait, as when the machine is busy, has not waited.
        if waited >= 1_000_000:
            done.add(call)
            path = own["strata.critical_path"]
            assert any("clock_nanosleep" in part and "ended by timer" in part for part in path), own
    assert len(done) == 2, [found[one[1], one[2]] for one in wanted]


def traces(truth, json_name):
    """Each request has the spans that the program printed for it, each below its parent."""
    with open(json_name, encoding="utf-8") as file:
        report = json.load(file)
    wanted = {}
    for name, trace_id, span_id, parent, *_ in read_truth(truth):
        wanted.setdefault(trace_id, {})[span_id] = name, parent
    found = {}
    for request in report["slowest"]:
        around = []
        for span in request["spans"]:
            del around[span["depth"] :]
            parent = span["parent_id"] or "-"
            assert (around[-1] if around else "-") == parent, request
            around.append(span["span_id"])
            found.setdefault(request["trace_id"], {})[span["span_id"]] = span["name"], parent
    forgotten = {trace_id for trace_id, of in found.items() if [name for name, _ in of.values()] == ["forgotten"]}
    found = {trace_id: of for trace_id, of in found.items() if trace_id not in forgotten}
    assert found == wanted and len(forgotten) == 1000, (len(found), len(wanted), len(forgotten))
    rows = {row["trace_id"]: row for row in report["rows"]}
    assert set(rows) == set(wanted) | forgotten
    for trace_id, of in wanted.items():
        row = rows[trace_id]
        assert row["spans"] == len(of) and row["name"] in {name for name, _ in of.values()}, row
        assert row["processes"] == (2 if len(of) == 3 else 1), row
    assert sum(row["errors"] for row in report["rows"]) == 1 and [len(of) for of in wanted.values()].count(3) == 5


{"files": files, "receive": receive, "traces": traces, "waits": waits}[sys.argv[1]](*sys.argv[2:])

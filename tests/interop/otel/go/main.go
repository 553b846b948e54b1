// Spans of OpenTelemetry in Go, for tests/interop/opentelemetry_agents. Prints "SPAN TRACE_ID SPAN_ID PARENT_ID KIND STATUS DESCRIPTION" for
// each span that has ended, as OpenTelemetry itself says it.
package main

import (
	"context"
	"fmt"
	"os"
	"sync"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/trace"
	api "go.opentelemetry.io/otel/trace"

	"strata.dev/events/otel"
)

type printer struct{}

func (printer) ExportSpans(_ context.Context, spans []trace.ReadOnlySpan) error {
	for _, span := range spans {
		parent := "-"
		if span.Parent().HasSpanID() {
			parent = span.Parent().SpanID().String()
		}
		own, status := span.SpanContext(), span.Status()
		fmt.Fprintf(os.Stdout, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", span.Name(), own.TraceID(), own.SpanID(), parent, span.SpanKind(),
			status.Code, status.Description)
	}
	return nil
}

func (printer) Shutdown(context.Context) error { return nil }

func main() {
	provider := trace.NewTracerProvider(trace.WithSpanProcessor(otel.NewSpanProcessor()),
		trace.WithSpanProcessor(trace.NewSimpleSpanProcessor(printer{})))
	tracer := provider.Tracer("test")
	var all sync.WaitGroup
	for thread := 0; thread < 4; thread++ {
		all.Add(1)
		go func() {
			defer all.Done()
			for number := 0; number < 50; number++ {
				with, request := tracer.Start(context.Background(), "GET /orders/{id}", api.WithSpanKind(api.SpanKindServer))
				_, ask := tracer.Start(with, "ask", api.WithSpanKind(api.SpanKindClient))
				// Its end is another goroutine's.
				ended := make(chan bool)
				go func() { ask.End(); ended <- true }()
				<-ended
				if number == 3 {
					request.SetStatus(codes.Error, "no \"such\" order ☃")
				}
				request.End()
			}
		}()
	}
	all.Wait()
	// Names with numbers in them, names of any text, and spans that nobody ends.
	for number := 0; number < 300; number++ {
		_, span := tracer.Start(context.Background(), fmt.Sprintf("user %d \xff☃\x00", number))
		span.End()
	}
	for number := 0; number < 70000; number++ {
		tracer.Start(context.Background(), "forgotten")
	}
	_, span := tracer.Start(context.Background(), "")
	span.End()
	off := trace.NewTracerProvider(trace.WithSampler(trace.NeverSample()), trace.WithSpanProcessor(otel.NewSpanProcessor()))
	_, span = off.Tracer("test").Start(context.Background(), "not sampled")
	span.End()
}

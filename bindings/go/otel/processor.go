// SPDX-License-Identifier: MIT

// Package otel records the spans of OpenTelemetry as spans of Strata, with their ids.
//
//	provider := trace.NewTracerProvider(trace.WithSpanProcessor(otel.NewSpanProcessor()))
package otel

import (
	"context"
	"strings"
	"sync"
	"unicode/utf8"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/trace"
	api "go.opentelemetry.io/otel/trace"

	"strata.dev/events"
)

const (
	// A span's name is a class' name. Names are to be few, but some programs put numbers into them: beyond this many, spans are of
	// the class "otel:span".
	namesMax = 256
	nameMax  = 200
	// Half of the spans that may be open at a time.
	openMax = 1 << 15
)

type id struct {
	trace api.TraceID
	span  api.SpanID
}

// SpanProcessor records each span that is sampled as a span "otel:NAME" from its begin to its end, in whichever goroutines these are.
//
// Fields are name, trace_id (32 hexadecimal digits), span_id (16), parent_id (of the span that it is a part of, which may be in
// another process; empty if there is none), and kind. A span that ends with an error is also an event "otel:error" with its ids and
// what is said of it. Where Strata is not installed nothing happens.
//
// Of spans that their program never ends, the oldest are ended here when more than 65,536 are open.
type SpanProcessor struct {
	failed *events.Event4[string, string, string, string]
	lock   sync.Mutex
	names  map[string]*events.SpansText
	// What is open: what has begun since the last time that young was full, and what had begun by then.
	young, old map[id]events.Span
}

var _ trace.SpanProcessor = (*SpanProcessor)(nil)

// NewSpanProcessor returns a processor for [trace.WithSpanProcessor], to be used beside the exporters that there are.
func NewSpanProcessor() *SpanProcessor {
	return &SpanProcessor{
		failed: events.New4[string, string, string, string]("otel:error", events.Err, "name", "trace_id", "span_id", "description"),
		names:  map[string]*events.SpansText{},
		young:  map[id]events.Span{},
		old:    map[id]events.Span{},
	}
}

// className returns the name of a span as a part of a class' name.
func className(name string) string {
	var to strings.Builder
	wasUnusual := false
	for _, char := range name {
		isUsual := char < utf8.RuneSelf && (char >= 'a' && char <= 'z' || char >= 'A' && char <= 'Z' || char >= '0' && char <= '9' ||
			strings.ContainsRune("_./-", char))
		if isUsual {
			to.WriteRune(char)
		} else if !wasUnusual {
			to.WriteByte('_')
		}
		wasUnusual = !isUsual
		if to.Len() >= nameMax {
			break
		}
	}
	if trimmed := strings.Trim(to.String(), "_"); trimmed != "" {
		return trimmed
	}
	return "span"
}

// class returns the class of spans with this name.
func (p *SpanProcessor) class(name string) *events.SpansText {
	p.lock.Lock()
	defer p.lock.Unlock()
	if known := p.names[name]; known != nil {
		return known
	}
	key := name
	if len(p.names) >= namesMax {
		// No span has this name, since it is no UTF-8.
		key, name = "\xff", "span"
		if known := p.names[key]; known != nil {
			return known
		}
	}
	made := events.NewSpansText("otel:"+className(name), events.Info, "name", "trace_id", "span_id", "parent_id", "kind")
	p.names[key] = made
	return made
}

// OnStart begins the span.
func (p *SpanProcessor) OnStart(_ context.Context, span trace.ReadWriteSpan) {
	own := span.SpanContext()
	if !own.IsSampled() {
		return
	}
	class := p.class(span.Name())
	if !class.On() {
		return
	}
	parent := ""
	if of := span.Parent(); of.HasSpanID() {
		parent = of.SpanID().String()
	}
	begun := class.Begin(span.Name(), own.TraceID().String(), own.SpanID().String(), parent, span.SpanKind().String())
	var forgotten map[id]events.Span
	p.lock.Lock()
	if len(p.young) >= openMax {
		forgotten, p.old, p.young = p.old, p.young, map[id]events.Span{}
	}
	p.young[id{own.TraceID(), own.SpanID()}] = begun
	p.lock.Unlock()
	for _, one := range forgotten {
		one.End()
	}
}

// OnEnd ends the span.
func (p *SpanProcessor) OnEnd(span trace.ReadOnlySpan) {
	own := span.SpanContext()
	key := id{own.TraceID(), own.SpanID()}
	p.lock.Lock()
	begun, found := p.young[key]
	if found {
		delete(p.young, key)
	} else if begun, found = p.old[key]; found {
		delete(p.old, key)
	}
	p.lock.Unlock()
	if !found {
		return
	}
	if status := span.Status(); status.Code == codes.Error && p.failed.On() {
		p.failed.Record(span.Name(), own.TraceID().String(), own.SpanID().String(), status.Description)
	}
	begun.End()
}

// Shutdown does nothing: what is open ends when its program ends it.
func (p *SpanProcessor) Shutdown(context.Context) error { return nil }

// ForceFlush does nothing: records are in the buffers of the recorder at once.
func (p *SpanProcessor) ForceFlush(context.Context) error { return nil }

// SPDX-License-Identifier: MIT

// Package events records trace events and spans of Go programs by Strata.
//
//	var sold = events.New2[int, string]("shop:sold", events.Info, "number", "customer")
//
//	sold.Record(1, "Ada")
//
// Where libstrata is not installed, or without cgo, the program runs unchanged. [Availability] says why nothing is recorded; with
// STRATA_VERBOSE in the environment the program says it once.
package events

import (
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"
)

// Level is the severity of an event class: the levels of syslog, and LTTng's finer ones for debugging.
type Level uint32

// Levels, the most severe first.
const (
	Emerg Level = iota
	Alert
	Crit
	Err
	Warning
	Notice
	Info
	DebugSystem
	DebugProgram
	DebugProcess
	DebugModule
	DebugUnit
	DebugFunction
	DebugLine
	Debug
)

// Availability returns an error that says why events of this program cannot be recorded, or nil.
func Availability() error {
	if why := load(); why != "" {
		return errors.New(why)
	}
	return nil
}

func complain(name, why string) {
	if os.Getenv("STRATA_VERBOSE") != "" {
		fmt.Fprintf(os.Stderr, "strata: '%s' is not recorded: %s\n", name, why)
	}
}

// Value is a type that a field can have.
type Value interface {
	int | int8 | int16 | int32 | int64 | uint | uint8 | uint16 | uint32 | uint64 | float32 | float64 | bool | string
}

// off is the word of a class that cannot be registered.
var off uint32

// class of events or spans: kinds has a letter for each field, i, u, f, b or s.
type class struct {
	handle  handle
	enabled *uint32
}

const (
	fieldsMax = 63
	namesMax  = 16
)

// newClass registers a class. If another class has its name, it gets a number: "sold/2".
func newClass(name string, level Level, kinds string, fields []string, isSpan bool) class {
	none := class{enabled: &off}
	if load() != "" {
		return none
	}
	if len(fields) != len(kinds) || len(kinds) > fieldsMax {
		complain(name, fmt.Sprintf("it has %d fields and %d names; there are at most %d", len(kinds), len(fields), fieldsMax))
		return none
	}
	group, event, found := strings.Cut(name, ":")
	if !found {
		group, event = "go", name
	}
	for _, one := range append([]string{group, event}, fields...) {
		if strings.IndexByte(one, 0) >= 0 {
			complain(name, fmt.Sprintf("%q has a NUL", one))
			return none
		}
	}
	for number := 1; ; number++ {
		numbered := event
		if number > 1 {
			numbered = fmt.Sprintf("%s/%d", event, number)
		}
		handle, enabled, rc, why := register(group, numbered, kinds, fields, level, isSpan)
		if rc == 0 {
			return class{handle, enabled}
		}
		if rc != errExists || number == namesMax {
			complain(name, why)
			return none
		}
	}
}

// On returns true while somebody records the class.
func (c *class) On() bool {
	return c.enabled != nil && atomic.LoadUint32(c.enabled) != 0
}

// buffer has the fields of a record as libstrata takes them.
type buffer struct {
	bytes []byte
}

var buffers = sync.Pool{New: func() any { return &buffer{make([]byte, 0, 512)} }}

// A text of more bytes than a record can have is cut.
const textMax = 1 << 24

func (b *buffer) number(value uint64) {
	var bytes [8]byte
	*(*uint64)(unsafe.Pointer(&bytes)) = value
	b.bytes = append(b.bytes, bytes[:]...)
}

func (b *buffer) text(value string) {
	if len(value) > textMax {
		value = value[:textMax]
	}
	var bytes [4]byte
	*(*uint32)(unsafe.Pointer(&bytes)) = uint32(len(value))
	b.bytes = append(b.bytes, bytes[:]...)
	b.bytes = append(b.bytes, value...)
}

func (b *buffer) bool(value bool) {
	if value {
		b.bytes = append(b.bytes, 1)
	} else {
		b.bytes = append(b.bytes, 0)
	}
}

// put adds the value of the next field.
func put[T Value](b *buffer, value T) {
	switch value := any(value).(type) {
	case int:
		b.number(uint64(value))
	case int8:
		b.number(uint64(value))
	case int16:
		b.number(uint64(value))
	case int32:
		b.number(uint64(value))
	case int64:
		b.number(uint64(value))
	case uint:
		b.number(uint64(value))
	case uint8:
		b.number(uint64(value))
	case uint16:
		b.number(uint64(value))
	case uint32:
		b.number(uint64(value))
	case uint64:
		b.number(value)
	case float32:
		b.number(math.Float64bits(float64(value)))
	case float64:
		b.number(math.Float64bits(value))
	case bool:
		b.bool(value)
	case string:
		b.text(value)
	}
}

func kindOf[T Value]() string {
	var zero T
	switch any(zero).(type) {
	case int, int8, int16, int32, int64:
		return "i"
	case uint, uint8, uint16, uint32, uint64:
		return "u"
	case float32, float64:
		return "f"
	case bool:
		return "b"
	}
	return "s"
}

func take() *buffer {
	b := buffers.Get().(*buffer)
	b.bytes = b.bytes[:0]
	return b
}

func (b *buffer) give() {
	if cap(b.bytes) <= 1<<16 {
		buffers.Put(b)
	}
}

func (c *class) record(b *buffer) {
	record(c.handle, b.bytes)
	b.give()
}

// Event0 is a class of events without fields.
type Event0 struct{ class }

// New0 makes a class of events without fields.
func New0(name string, level Level) *Event0 {
	return &Event0{newClass(name, level, "", nil, false)}
}

// Record records an event.
func (e *Event0) Record() {
	if e.On() {
		record(e.handle, nil)
	}
}

// Event1 is a class of events with one field.
type Event1[A Value] struct{ class }

// New1 makes a class of events with one field.
func New1[A Value](name string, level Level, fields ...string) *Event1[A] {
	return &Event1[A]{newClass(name, level, kindOf[A](), fields, false)}
}

// Record records an event.
func (e *Event1[A]) Record(a A) {
	if e.On() {
		b := take()
		put(b, a)
		e.record(b)
	}
}

// Event2 is a class of events with two fields.
type Event2[A, B Value] struct{ class }

// New2 makes a class of events with two fields.
func New2[A, B Value](name string, level Level, fields ...string) *Event2[A, B] {
	return &Event2[A, B]{newClass(name, level, kindOf[A]()+kindOf[B](), fields, false)}
}

// Record records an event.
func (e *Event2[A, B]) Record(a A, b B) {
	if e.On() {
		to := take()
		put(to, a)
		put(to, b)
		e.record(to)
	}
}

// Event3 is a class of events with three fields.
type Event3[A, B, C Value] struct{ class }

// New3 makes a class of events with three fields.
func New3[A, B, C Value](name string, level Level, fields ...string) *Event3[A, B, C] {
	return &Event3[A, B, C]{newClass(name, level, kindOf[A]()+kindOf[B]()+kindOf[C](), fields, false)}
}

// Record records an event.
func (e *Event3[A, B, C]) Record(a A, b B, c C) {
	if e.On() {
		to := take()
		put(to, a)
		put(to, b)
		put(to, c)
		e.record(to)
	}
}

// Event4 is a class of events with four fields.
type Event4[A, B, C, D Value] struct{ class }

// New4 makes a class of events with four fields.
func New4[A, B, C, D Value](name string, level Level, fields ...string) *Event4[A, B, C, D] {
	return &Event4[A, B, C, D]{newClass(name, level, kindOf[A]()+kindOf[B]()+kindOf[C]()+kindOf[D](), fields, false)}
}

// Record records an event.
func (e *Event4[A, B, C, D]) Record(a A, b B, c C, d D) {
	if e.On() {
		to := take()
		put(to, a)
		put(to, b)
		put(to, c)
		put(to, d)
		e.record(to)
	}
}

// Span has begun, and is ended once. It may be ended by another goroutine than the one that began it.
type Span struct {
	class *class
	key   uint64
}

// End ends the span, if it was recorded.
func (s Span) End() {
	if s.key != 0 {
		end(s.class.handle, s.key)
	}
}

func (c *class) begin(b *buffer) Span {
	key := begin(c.handle, b.bytes)
	b.give()
	return Span{c, key}
}

// Spans0 is a class of spans without fields.
type Spans0 struct{ class }

// NewSpans0 makes a class of spans without fields.
func NewSpans0(name string, level Level) *Spans0 {
	return &Spans0{newClass(name, level, "", nil, true)}
}

// Begin begins a span: defer spans.Begin().End()
func (s *Spans0) Begin() Span {
	if !s.On() {
		return Span{}
	}
	return s.begin(take())
}

// Spans1 is a class of spans with one field.
type Spans1[A Value] struct{ class }

// NewSpans1 makes a class of spans with one field.
func NewSpans1[A Value](name string, level Level, fields ...string) *Spans1[A] {
	return &Spans1[A]{newClass(name, level, kindOf[A](), fields, true)}
}

// Begin begins a span: defer spans.Begin(number).End()
func (s *Spans1[A]) Begin(a A) Span {
	if !s.On() {
		return Span{}
	}
	to := take()
	put(to, a)
	return s.begin(to)
}

// Spans2 is a class of spans with two fields.
type Spans2[A, B Value] struct{ class }

// NewSpans2 makes a class of spans with two fields.
func NewSpans2[A, B Value](name string, level Level, fields ...string) *Spans2[A, B] {
	return &Spans2[A, B]{newClass(name, level, kindOf[A]()+kindOf[B](), fields, true)}
}

// Begin begins a span: defer spans.Begin(number, customer).End()
func (s *Spans2[A, B]) Begin(a A, b B) Span {
	if !s.On() {
		return Span{}
	}
	to := take()
	put(to, a)
	put(to, b)
	return s.begin(to)
}

// SpansText is a class of spans whose fields are all texts, however many.
type SpansText struct{ class }

// NewSpansText makes a class of spans with a text for each of these fields.
func NewSpansText(name string, level Level, fields ...string) *SpansText {
	return &SpansText{newClass(name, level, strings.Repeat("s", len(fields)), fields, true)}
}

// Begin begins a span with one value for each field. With fewer or more values nothing is recorded.
func (s *SpansText) Begin(values ...string) Span {
	if !s.On() {
		return Span{}
	}
	to := take()
	for _, value := range values {
		put(to, value)
	}
	return s.begin(to)
}

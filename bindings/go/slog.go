// SPDX-License-Identifier: MIT

//go:build go1.21

package events

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Handler records the messages of log/slog. Each place in the source is an event class with typed fields: "slog:LEVEL FILE:LINE",
// whose first field is the message. While nobody records a place, nothing of it is formatted.
type Handler struct {
	level  slog.Leveler
	prefix string
	attrs  []slog.Attr
}

// NewHandler makes a handler of messages of this level and above; nil: of all.
func NewHandler(level slog.Leveler) *Handler {
	return &Handler{level: level}
}

// place is a call with attributes of these names and types.
type place struct {
	pc        uintptr
	level     slog.Level
	signature uint64
}

var (
	places   sync.Map // place: *class
	placesNr int32
)

// placesMax bounds what is stored of programs that make up names of attributes: what is beyond is not recorded.
const placesMax = 1 << 14

// Enabled returns whether messages of the level are asked for.
func (h *Handler) Enabled(_ context.Context, level slog.Level) bool {
	return h.level == nil || level >= h.level.Level()
}

// WithAttrs returns a handler that adds attributes to each message.
func (h *Handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	added := *h
	added.attrs = append([]slog.Attr{}, h.attrs...)
	for _, attr := range attrs {
		attr.Key = h.prefix + attr.Key
		added.attrs = append(added.attrs, attr)
	}
	return &added
}

// WithGroup returns a handler that puts the name in front of those of later attributes.
func (h *Handler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	added := *h
	added.prefix += name + "."
	return &added
}

// each calls do for each attribute, those of groups by their full names.
func (h *Handler) each(record slog.Record, do func(prefix string, attr slog.Attr)) {
	var one func(prefix string, attr slog.Attr)
	one = func(prefix string, attr slog.Attr) {
		attr.Value = attr.Value.Resolve()
		switch {
		case attr.Value.Kind() == slog.KindGroup:
			if attr.Key != "" {
				prefix += attr.Key + "."
			}
			for _, member := range attr.Value.Group() {
				one(prefix, member)
			}
		case attr.Key != "":
			do(prefix, attr)
		}
	}
	for _, attr := range h.attrs {
		one("", attr)
	}
	record.Attrs(func(attr slog.Attr) bool {
		one(h.prefix, attr)
		return true
	})
}

func slogKind(value slog.Value) byte {
	switch value.Kind() {
	case slog.KindInt64, slog.KindDuration, slog.KindTime:
		return 'i'
	case slog.KindUint64:
		return 'u'
	case slog.KindFloat64:
		return 'f'
	case slog.KindBool:
		return 'b'
	}
	return 's'
}

func fold(hash uint64, text string) uint64 {
	for i := 0; i < len(text); i++ {
		hash = (hash ^ uint64(text[i])) * 1099511628211
	}
	return hash
}

func slogLevel(level slog.Level) Level {
	switch {
	case level >= slog.LevelError:
		return Err
	case level >= slog.LevelWarn:
		return Warning
	case level >= slog.LevelInfo:
		return Info
	case level >= slog.LevelDebug:
		return DebugProgram
	}
	return Debug
}

func (h *Handler) register(record slog.Record) *class {
	kinds, names := []byte{'s'}, []string{"message"}
	known := map[string]bool{"message": true}
	h.each(record, func(prefix string, attr slog.Attr) {
		name := prefix + attr.Key
		for number := 2; known[name]; number++ {
			name = fmt.Sprintf("%s%s_%d", prefix, attr.Key, number)
		}
		known[name] = true
		if len(names) < fieldsMax {
			kinds, names = append(kinds, slogKind(attr.Value)), append(names, name)
		}
	})
	name := "slog:" + strings.ToLower(record.Level.String())
	if record.PC != 0 {
		frame, _ := runtime.CallersFrames([]uintptr{record.PC}).Next()
		name = fmt.Sprintf("%s %s:%d", name, filepath.Base(frame.File), frame.Line)
	}
	made := newClass(name, slogLevel(record.Level), string(kinds), names, false)
	return &made
}

// Handle records a message.
func (h *Handler) Handle(_ context.Context, record slog.Record) error {
	if load() != "" {
		return nil
	}
	at := place{record.PC, record.Level, 14695981039346656037}
	h.each(record, func(prefix string, attr slog.Attr) {
		at.signature = (fold(fold(at.signature, prefix), attr.Key) ^ uint64(slogKind(attr.Value))) * 1099511628211
	})
	found, ok := places.Load(at)
	if !ok {
		nr := atomic.AddInt32(&placesNr, 1)
		if nr > placesMax {
			atomic.AddInt32(&placesNr, -1)
			return nil
		}
		if nr == placesMax {
			complain("slog:*", fmt.Sprintf("there are %d places and names of attributes; messages of others are not recorded", placesMax))
		}
		found, _ = places.LoadOrStore(at, h.register(record))
	}
	c := found.(*class)
	if !c.On() {
		return nil
	}
	b := take()
	b.text(record.Message)
	nr := 1
	h.each(record, func(_ string, attr slog.Attr) {
		if nr < fieldsMax {
			putSlog(b, attr.Value)
		}
		nr++
	})
	c.record(b)
	return nil
}

func putSlog(b *buffer, value slog.Value) {
	switch value.Kind() {
	case slog.KindInt64:
		b.number(uint64(value.Int64()))
	case slog.KindDuration:
		b.number(uint64(value.Duration() / time.Nanosecond))
	case slog.KindTime:
		b.number(uint64(value.Time().UnixNano()))
	case slog.KindUint64:
		b.number(value.Uint64())
	case slog.KindFloat64:
		b.number(math.Float64bits(value.Float64()))
	case slog.KindBool:
		b.bool(value.Bool())
	default:
		b.text(value.String())
	}
}

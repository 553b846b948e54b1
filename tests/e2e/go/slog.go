// SPDX-License-Identifier: MIT

//go:build go1.21

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	events "strata.dev/events"
)

func logged() {
	logger := slog.New(events.NewHandler(nil))
	for number := 0; number < 50; number++ {
		logger.Info("order", "number", number, "customer", "Ada", "price", 1.5, "paid", true)
		count(1)
	}
	logger.With("request", 7).WithGroup("http").Warn("slow", "took", 3*time.Second, slog.Group("peer", "port", uint16(80)), "error", errors.New("late"))
	logger.Debug("twice", "a", 1, "a", "two")
	// Other types at one place.
	for _, value := range []any{1, "one", 2} {
		logger.Error("changing", "value", value)
	}
	slog.New(events.NewHandler(slog.LevelWarn)).Info("not asked for")
	logger.LogAttrs(context.Background(), slog.LevelInfo+1, "level")
	count(6)
}

// madeUp logs with names of attributes that are different each time.
func madeUp() {
	logger := slog.New(events.NewHandler(nil))
	for number := 0; number < 20_000; number++ {
		logger.Info("made up", fmt.Sprintf("of_%d", number), number)
	}
}

func benchSlog() {
	nothing := slog.New(slog.NewTextHandler(io.Discard, &slog.HandlerOptions{Level: slog.LevelInfo}))
	own := slog.New(events.NewHandler(slog.LevelInfo))
	lowest("slog with an integer and a text, its TextHandler to nowhere", func(number int) { nothing.Info("sold", "number", number, "customer", "Ada") })
	lowest("slog with an integer and a text, Handler", func(number int) { own.Info("sold", "number", number, "customer", "Ada") })
}

// SPDX-License-Identifier: MIT

// Counted records events of all kinds, and says how many: "N events". "counted bench LABEL" prints what an event costs.
package main

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	events "strata.dev/events"
)

var (
	step = events.New2[int, string]("go:step", events.Debug, "number", "text")
	work = events.NewSpans1[int]("go:work", events.Info, "worker")
	nr   int64
)

func count(number int64) { atomic.AddInt64(&nr, number) }

func values() {
	events.New0("go:none", events.Emerg).Record()
	events.New4[int64, uint64, float64, bool]("go:numbers", events.Warning, "least", "most", "half", "yes").
		Record(math.MinInt64, math.MaxUint64, 0.5, true)
	events.New3[int8, float32, uint8]("go:small", events.Info, "a", "b", "c").Record(-128, 1.5, 255)
	text := events.New1[string]("go:text", events.Info, "text")
	text.Record("é\"")
	text.Record("")
	text.Record(strings.Repeat("x", 100_000))
	events.New1[int]("without_provider", events.Info, "number").Record(1)
	// Another class of a name that there is.
	events.New1[int]("go:text", events.Info, "number").Record(7)
	events.New1[string]("go:text", events.Info, "text").Record("again")
	span := events.NewSpans2[string, bool]("go:pair", events.Info, "text", "yes").Begin("Ada", true)
	events.NewSpans0("go:empty", events.Info).Begin().End()
	span.End()
	count(13)
	// What libstrata refuses is no error of the program.
	events.New0("bad\n:name", events.Info).Record()
	events.New1[int]("go:no_name", events.Info).Record(1)
	events.New0("go:\x00", events.Info).Record()
	events.New2[int, int]("go:twice", events.Info, "a", "a").Record(1, 2)
	(&events.Event0{}).Record()
}

func goroutines() {
	var group sync.WaitGroup
	for worker := 0; worker < 50; worker++ {
		group.Add(1)
		go func(worker int) {
			defer group.Done()
			for number := 0; number < 100; number++ {
				span := work.Begin(worker)
				step.Record(number, fmt.Sprintf("%d/%d", worker, number))
				// The goroutine may go on in another thread.
				runtime.Gosched()
				span.End()
				count(3)
			}
		}(worker)
	}
	group.Wait()
}

func executed() {
	step.Record(0, "0/0")
	count(1)
	output, err := exec.Command(os.Args[0], "child").Output()
	if err != nil {
		panic(err)
	}
	os.Stdout.Write(output)
}

func lowest(what string, each func(number int)) {
	rounds, calls := 20, 100_000
	if os.Args[len(os.Args)-1] == "--once" {
		rounds, calls = 2, 100
	}
	best := math.MaxFloat64
	for round := 0; round < rounds; round++ {
		begin := time.Now()
		for number := 0; number < calls; number++ {
			each(number)
		}
		best = math.Min(best, float64(time.Since(begin).Nanoseconds())/float64(calls))
	}
	fmt.Printf("RESULT %s/%s %.1f\n", os.Args[2], what, best)
}

func bench() {
	pair := events.New2[int, int]("bench:pair", events.Info, "one", "two")
	sold := events.New2[int, string]("bench:sold", events.Info, "number", "text")
	span := events.NewSpans1[int]("bench:span", events.Info, "number")
	lowest("two integers", func(number int) { pair.Record(number, number) })
	lowest("an integer and a text of 31 bytes", func(number int) { sold.Record(number, "thirty-one characters and more.") })
	lowest("a span with an integer, begin and end", func(number int) { span.Begin(number).End() })
	benchSlog()
}

func main() {
	switch os.Args[1] {
	case "values":
		values()
	case "goroutines":
		goroutines()
	case "executed":
		executed()
	case "child":
		step.Record(1, "0/1")
		count(1)
	case "slog":
		logged()
	case "made_up":
		madeUp()
	case "killed":
		goroutines()
		fmt.Printf("%d events\n", nr)
		syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	case "bench":
		bench()
		return
	}
	fmt.Printf("%d events\n", nr)
}

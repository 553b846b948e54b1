module strata.dev/otel-program

go 1.23.0

require (
	go.opentelemetry.io/otel v1.38.0
	go.opentelemetry.io/otel/sdk v1.38.0
	go.opentelemetry.io/otel/trace v1.38.0
	strata.dev/events/otel v0.0.0
)

require (
	github.com/go-logr/logr v1.4.3 // indirect
	github.com/go-logr/stdr v1.2.2 // indirect
	github.com/google/uuid v1.6.0 // indirect
	go.opentelemetry.io/auto/sdk v1.1.0 // indirect
	go.opentelemetry.io/otel/metric v1.38.0 // indirect
	golang.org/x/sys v0.35.0 // indirect
	strata.dev/events v0.0.0 // indirect
)

replace strata.dev/events => ../../../../bindings/go

replace strata.dev/events/otel => ../../../../bindings/go/otel

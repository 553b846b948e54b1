module strata.dev/events

go 1.18

module counted

go 1.18

require strata.dev/events v0.0.0

replace strata.dev/events => ../../../bindings/go

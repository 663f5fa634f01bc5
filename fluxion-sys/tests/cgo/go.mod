module fluxqueue/fluxion-sys/tests/cgo

go 1.26.0

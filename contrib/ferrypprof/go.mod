module github.com/ferrygpu/ferry/contrib/ferrypprof

go 1.26.0

require (
	github.com/ferrygpu/ferry v0.0.0-20261129154817-6eac3dd72a90
	github.com/google/pprof v0.0.0-20261105003125-4bf881d7fb0b
)

require (
	github.com/ebitengine/purego v0.11.3 // indirect
	github.com/klauspost/compress v1.20.3 // indirect
	golang.org/x/sys v0.49.0 // indirect
)

replace github.com/ferrygpu/ferry => ../..

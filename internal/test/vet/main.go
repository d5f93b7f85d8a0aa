// Command vet runs the analysers of golang.org/x/tools that go vet lacks and that fit Ferry:
//
//	go build -o vet ./internal/test/vet && go vet -vettool=./vet ./...
//
// It takes 90 s of CPU time with an empty build cache, because one analyser follows values
// through the standard library, too. So it is a part of .ci/long. What stays out: shadow
// reports 293 places, such as "if err := f(); err != nil" below another err, and none is an
// error; deepequalerrors takes every struct with an error in it for one; fieldalignment asks
// for another order of fields, which here says what a lock guards; atomicalign concerns
// processors of 32 bits; httpmux and sqlrowserr concern packages that Ferry does not use.
package main

import (
	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/passes/nilness"
	"golang.org/x/tools/go/analysis/passes/reflectvaluecompare"
	"golang.org/x/tools/go/analysis/passes/scannererr"
	"golang.org/x/tools/go/analysis/passes/sortslice"
	"golang.org/x/tools/go/analysis/passes/unusedwrite"
	"golang.org/x/tools/go/analysis/unitchecker"
)

// analysers are those that run.
var analysers = []*analysis.Analyzer{
	nilness.Analyzer,
	reflectvaluecompare.Analyzer,
	scannererr.Analyzer,
	sortslice.Analyzer,
	unusedwrite.Analyzer,
}

func main() { unitchecker.Main(analysers...) }

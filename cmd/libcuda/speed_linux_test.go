package main

import (
	"fmt"
	"strings"
	"testing"
)

// BenchmarkCalls reports the CPU time of small calls beside that of an empty function of Go that C calls,
// and the time of cuInit. The program repeats the calls itself.
func BenchmarkCalls(b *testing.B) {
	exe := program(b, "speed.c")
	for b.Loop() {
		for line := range strings.Lines(run(b, exe)) {
			var name, unit string
			var value float64
			if _, err := fmt.Sscan(line, &name, &value, &unit); err != nil {
				b.Fatalf("%q: %v", line, err)
			}
			b.ReportMetric(value, name+"-"+strings.TrimSuffix(unit, ","))
		}
	}
}

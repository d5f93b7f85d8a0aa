package main

import (
	"testing"

	"golang.org/x/tools/go/analysis/analysistest"
)

// TestAnalysersFind lets each analyser read a package with an error that it must find. The
// comments there say which, and that nothing else is reported.
func TestAnalysersFind(t *testing.T) {
	for _, a := range analysers {
		t.Run(a.Name, func(t *testing.T) {
			found := 0
			for _, result := range analysistest.Run(t, analysistest.TestData(), a, "planted/"+a.Name) {
				found += len(result.Diagnostics)
			}
			if found == 0 {
				t.Error("the planted error is not found")
			}
		})
	}
}

package main

import (
	"strings"
	"testing"
)

// TestColumnsOfLib: the message before a build folds, the folder of the library does not.
func TestColumnsOfLib(t *testing.T) {
	goldenColumns(t, "lib", func(columns int) (int, string, string) {
		cache := fakeTools(t)
		status, out, errs := ferryIn(t, columns, "lib")
		folder, rest, one := strings.Cut(strings.TrimPrefix(out, cache+"/"), "\n")
		if folder == "" || rest != "" || !one || strings.Contains(folder, "/") {
			t.Errorf("%d columns: status %d, output %q, want a folder of %s", columns, status, out, cache)
		}
		return status, "CACHE/HASH\n", errs
	})
}

package metrics_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/metrics"
)

var update = flag.Bool("update", false, "write the table of metrics")

// TestDocument: the table of contrib/README.md has all metrics.
func TestDocument(t *testing.T) {
	const path, head, end = "../contrib/README.md", "|---|---|---|\n", "<!-- end of metrics -->"
	text, err := os.ReadFile(path)
	check(t, err)
	before, rest, _ := strings.Cut(string(text), "<!-- metrics: metrics.All writes these rows -->")
	title, rest, _ := strings.Cut(rest, head)
	_, after, found := strings.Cut(rest, end)
	if !found {
		t.Fatalf("%s lacks the table of metrics", path)
	}
	var rows strings.Builder
	for _, m := range metrics.All() {
		fmt.Fprintf(&rows, "| `%v` | `%s` | %s |\n", m, strings.Join(m.Labels, "`, `"), m.Help)
	}
	want := before + "<!-- metrics: metrics.All writes these rows -->" + title + head + rows.String() + end + after
	if want == string(text) {
		return
	}
	if !*update {
		t.Fatalf("%s is not up to date: go test ./metrics -run TestDocument -update", path)
	}
	check(t, os.WriteFile(path, []byte(want), 0o644))
}

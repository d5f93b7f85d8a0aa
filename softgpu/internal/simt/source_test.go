package simt

import (
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/ptx"
)

// TestSource: a line of the source has the name of the file without its folders, whatever they are.
func TestSource(t *testing.T) {
	for name, want := range map[string]string{
		"shift.cu": "shift.cu:20",
		strings.Repeat("/dir", 100) + "/shift.cu": "shift.cu:20",
		strings.Repeat("d", 200) + ".cu":          strings.Repeat("d", 200) + ".cu:20",
		"\x1b[2J/shift.cu":                        "shift.cu:20",
		"dir/\x1bshift.cu":                        `\x1bshift.cu:20`,
	} {
		p := &Program{module: &ptx.Module{Files: map[int]string{1: name}}}
		if got := p.source(ptx.Loc{File: 1, Line: 20}); got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
}

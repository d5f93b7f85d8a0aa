package trace_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/internal/test/hostile"
	"github.com/ferrygpu/ferry/trace"
)

// head is the first line of a recording.
const head = `{"schema":"` + trace.Schema + `"}` + "\n"

// seeds adds a recording, and each kind of row of it.
func seeds(f *testing.F) {
	text, err := os.ReadFile("testdata/recording.jsonl")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(text))
	f.Add(string(text[:len(text)-7]))
	seen := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		if kind, _, _ := strings.Cut(line, ":"); !seen[kind] {
			seen[kind] = true
			f.Add(head + line)
		}
	}
}

// FuzzRead reads damaged recordings. There is a recording or an error, and after an error
// in a later row both.
func FuzzRead(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, text string) {
		hostile.Check(t, "read", func() {
			r, err := trace.Read(strings.NewReader(text))
			if r == nil && err == nil || (r == nil) != errors.Is(err, trace.ErrNotRecording) {
				t.Fatalf("recording %v, error %v", r, err)
			}
			if r != nil && len(r.Calls)+len(r.Operations)+len(r.Sites) > strings.Count(text, "\n") {
				t.Fatalf("more rows than lines: %+v", r)
			}
		})
	})
}

// TestHostile reads recordings that are made to cost much.
func TestHostile(t *testing.T) {
	if testing.Short() {
		t.Skip("reads a hundred inputs of 1 MB")
	}
	for name, text := range hostile.Recordings(head) {
		hostile.Check(t, name, func() {
			_, err := trace.Read(strings.NewReader(text))
			if err != nil && len(err.Error()) > 4<<10 {
				t.Errorf("%s: the error has %d bytes", name, len(err.Error()))
			}
		})
	}
}

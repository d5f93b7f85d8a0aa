package explain_test

import (
	"io"
	"os"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/cmd/ferry/internal/explain"
	"github.com/ferrygpu/ferry/cmd/ferry/internal/page"
	"github.com/ferrygpu/ferry/cmd/ferry/internal/tracereport"
	"github.com/ferrygpu/ferry/internal/test/hostile"
	"github.com/ferrygpu/ferry/trace"
)

// reports has what Ferry makes of a recording.
var reports = map[string]func(r *trace.Recording) error{
	"summary": func(r *trace.Recording) error {
		s := tracereport.Summarize(r)
		s.Page().Text(0)
		_, err := s.JSON()
		return err
	},
	"perfetto": func(r *trace.Recording) error { return tracereport.Perfetto(io.Discard, r) },
	"explanation": func(r *trace.Recording) error {
		report := explain.Recording("f", r)
		report.Page().Text(80)
		_, err := report.JSON()
		return err
	},
	"explanation of a buffer": func(r *trace.Recording) error {
		report, err := explain.Buffer("f", r, 4096)
		if err != nil {
			return nil // there may be none
		}
		report.Page().Text(80)
		_, err = report.JSON()
		return err
	},
	"page": func(r *trace.Recording) error {
		p, err := page.OfRecording(r, tracereport.Summarize(r))
		if err == nil {
			err = p.Render(io.Discard)
		}
		return err
	},
}

// FuzzReports makes all reports of damaged recordings.
func FuzzReports(f *testing.F) {
	text, err := os.ReadFile("../../../../trace/testdata/recording.jsonl")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(text))
	f.Add(string(text[:4000]))
	for _, text := range hostile.Recordings(`{"schema":"` + trace.Schema + `"}` + "\n") {
		f.Add(text[:600])
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, _ := trace.Read(strings.NewReader(text))
		if r == nil {
			return
		}
		for name, report := range reports {
			hostile.Check(t, name, func() {
				if err := report(r); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			})
		}
	})
}

// TestHostile makes all reports of recordings that are made to cost much.
func TestHostile(t *testing.T) {
	if testing.Short() {
		t.Skip("takes ten seconds")
	}
	for name, text := range hostile.Recordings(`{"schema":"` + trace.Schema + `"}` + "\n") {
		r, _ := trace.Read(strings.NewReader(text))
		if r == nil {
			continue
		}
		for what, report := range reports {
			hostile.Check(t, what+" of "+name, func() {
				if err := report(r); err != nil {
					t.Errorf("%s of %s: %v", what, name, err)
				}
			})
		}
	}
}

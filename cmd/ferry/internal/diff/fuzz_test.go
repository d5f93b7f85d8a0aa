package diff

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/ferrygpu/ferry/cmd/ferry/internal/document"
	"github.com/ferrygpu/ferry/internal/measure/bench/grid"
	"github.com/ferrygpu/ferry/internal/test/hostile"
)

// FuzzResults reads damaged results of "ferry bench --json" and compares them with
// themselves and with good ones.
func FuzzResults(f *testing.F) {
	files, err := filepath.Glob("../../testdata/*.json")
	if err != nil || len(files) == 0 {
		f.Fatal(files, err)
	}
	good := new(grid.Result)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
		if filepath.Base(file) == "before.json" {
			if err := document.Decode(file, text, grid.Schema, good); err != nil || len(good.Points) == 0 {
				f.Fatal(len(good.Points), err)
			}
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		r := new(grid.Result)
		if document.Decode("f", text, grid.Schema, r) != nil {
			return
		}
		for _, other := range []*grid.Result{r, good} {
			report := Compare("a", r, "b", other)
			report.Page().Text(0)
			if _, err := report.JSON(); err != nil {
				t.Error(err)
			}
			grid.Compare(r, other)
			grid.CompareFamilies(r, other)
		}
	})
}

// TestHostile reads results that are made to cost much.
func TestHostile(t *testing.T) {
	if testing.Short() {
		t.Skip("reads a hundred inputs of 1 MB")
	}
	for name, text := range hostile.JSON(`{"schema":"`+grid.Schema+`"`, "points") {
		hostile.Check(t, name, func() {
			r := new(grid.Result)
			if err := document.Decode("f", []byte(text), grid.Schema, r); err == nil {
				Compare("a", r, "b", r)
			} else if len(err.Error()) > 4<<10 {
				t.Errorf("%s: the error has %d bytes", name, len(err.Error()))
			}
		})
	}
}

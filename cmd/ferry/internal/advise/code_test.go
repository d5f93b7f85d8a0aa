package advise

import (
	"fmt"
	"go/format"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/internal/test/sample"
)

// everyWay returns all ways of a source, with a pipeline.
func everyWay(t *testing.T, j *Job) []way {
	t.Helper()
	g, err := ferry.Open("soft:h200")
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	ways, left, err := candidates(g, j)
	if err != nil || len(left) != 0 {
		t.Fatal(left, err)
	}
	kind := Pinned
	if j.Source == Existing {
		kind = Registered
	}
	return append(ways, way{kind, Pipelined, 8, 4})
}

// TestCode: the code of every way, source and direction passes go vet within this module. What
// go vet sees is drawn.
func TestCode(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("needs the go command: ", err)
	}
	if err := os.MkdirAll("testdata", 0o777); err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("testdata", "code-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	var files []string
	for _, source := range Sources() {
		for _, size := range [][2]int{{1 << 20, 1 << 20}, {1 << 20, 0}, {0, 1 << 20}, {1 << 20, 1 << 10}} {
			j := Job{In: size[0], Out: size[1], Source: source}
			complete(&j)
			for _, w := range everyWay(t, &j) {
				text, err := code(w, &j)
				if err != nil {
					t.Errorf("%v of %s: %v", w, source, err)
					continue
				}
				if formatted, err := format.Source([]byte(text)); err != nil || string(formatted) != text || strings.Contains(text, "\n\n\n") {
					t.Errorf("%v: not formatted: %v\n%s", w, err, text)
				}
				for line := range strings.Lines(text) {
					if len(line) > 81 {
						t.Errorf("%v: a line of %d columns: %s", w, len(line)-1, line)
					}
				}
				files = append(files, text+"\nfunc main() { _ = process }\n")
			}
		}
	}
	some := sample.Of(t, files, 8)
	for i, text := range some {
		at := filepath.Join(dir, fmt.Sprintf("p%d", i))
		if err := os.Mkdir(at, 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(at, "step.go"), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.Command("go", "vet", "./"+dir+"/...").CombinedOutput(); err != nil {
		t.Errorf("go vet of %d files: %v\n%s", len(some), err, out)
	}
}

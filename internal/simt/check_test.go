package simt

import (
	"context"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/internal/kernelrace"
)

// raceShape is the end of a kernel's name in testdata/races: blocks and threads.
var raceShape = regexp.MustCompile(`_([0-9]+)x([0-9]+)$`)

// TestCheckCorpus runs kernels with and without a race. testdata/races/pair.h describes
// them.
func TestCheckCorpus(t *testing.T) {
	files, err := filepath.Glob("testdata/races/*.ptx")
	if err != nil || len(files) == 0 {
		t.Fatal("no kernels", err)
	}
	racy, right := 0, 0
	for _, file := range files {
		m := loadFile(t, newSpace(), filepath.Join("races", filepath.Base(file)))
		var names []string
		for name := range m.kernels {
			names = append(names, name)
		}
		sort.Strings(names)
		for _, name := range names {
			t.Run(name, func(t *testing.T) {
				found := checkKernel(t, m, name)
				if strings.HasPrefix(name, "racy_") {
					racy++
					want := kernelrace.Race
					if strings.Contains(name, "uninitialized") {
						want = kernelrace.Uninitialized
					}
					if !slices.ContainsFunc(found, func(f Finding) bool { return f.Sort == want }) {
						t.Errorf("no race was found: %+v", found)
					}
					return
				}
				right++
				for _, f := range found {
					t.Errorf("%+v", f)
				}
			})
		}
	}
	t.Logf("%d kernels with a race, %d without", racy, right)
}

// checkKernel runs a kernel of the corpus with the check.
func checkKernel(t *testing.T, m *module, name string) []Finding {
	shape := raceShape.FindStringSubmatch(name)
	if shape == nil {
		t.Fatalf("kernel %s has no shape in its name", name)
	}
	grid, _ := strconv.Atoi(shape[1])
	block, _ := strconv.Atoi(shape[2])
	mem := newSpace()
	data := make([]uint32, 16<<10)
	for i := range data {
		data[i] = uint32(i)
	}
	l := m.launch(t, name, grid, block, put(mem, data), put(mem, make([]uint32, 16<<10)), 64)
	l.Memory, l.SharedBytes, l.Check = mem, 4096, true
	s, err := Run(context.Background(), l)
	if err != nil {
		t.Fatal(err)
	}
	return s.Findings
}

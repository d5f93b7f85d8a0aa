package ptx_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/ptx"
)

// parseFile parses a file of testdata, which must be correct.
func parseFile(t testing.TB, name string) *ptx.Module {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, name, string(text))
}

func parse(t testing.TB, name, text string) *ptx.Module {
	t.Helper()
	m, err := ptx.Parse(name, text)
	if err != nil {
		t.Fatalf("%v", err)
	}
	if m == nil {
		t.Fatal("neither a module nor an error")
	}
	return m
}

// renamed matches what Parse adds to a name of a nested scope.
var renamed = regexp.MustCompile(`\b(\w+)\$\d+\b`)

// TestCompilersOutput prints every instruction and compares it with the source text
// at its place.
func TestCompilersOutput(t *testing.T) {
	for file, kernels := range map[string]int{"kernels.ptx": 4, "corpus_nvcc.ptx": 29, "clang.ptx": 9} {
		t.Run(file, func(t *testing.T) {
			m := parseFile(t, file)
			if got := len(m.Entries()); got != kernels {
				t.Errorf("%d entries, want %d", got, kernels)
			}
			for _, f := range m.Funcs {
				for i := range f.Body {
					checkText(t, m, &f.Body[i])
				}
			}
		})
	}
}

// checkText compares an instruction with what the source has at its place.
func checkText(t *testing.T, m *ptx.Module, in *ptx.Instr) {
	t.Helper()
	lines := strings.SplitAfterN(m.Source, "\n", in.Pos.Line)
	want, _, _ := strings.Cut(lines[in.Pos.Line-1][in.Pos.Col-1:], ";")
	want = strings.ReplaceAll(strings.Join(strings.Fields(want), ""), "+0]", "]")
	got := strings.Join(strings.Fields(renamed.ReplaceAllString(in.String(), "$1")), "")
	if got != want {
		t.Errorf("%s: got %q, want %q", in.Pos, got, want)
	}
}

// TestLoc checks the place in the original source of each instruction.
func TestLoc(t *testing.T) {
	m, err := ptx.Parse("", ".version 8.0\n.target sm_70\n.address_size 64\n.file 1 \"a.cu\"\n"+
		".visible .entry k() {\nexit;\n.loc 1 7 3\nexit;\nexit;\n.loc 1 9 1, function_name $n, inlined_at 1 8 2\nexit;\n}\n.visible .entry l() { exit; }\n")
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []ptx.Loc{{}, {File: 1, Line: 7, Column: 3}, {File: 1, Line: 7, Column: 3}, {File: 1, Line: 9, Column: 1}} {
		if got := m.Func("k").Body[i].Loc; got != want {
			t.Errorf("instruction %d: got %+v, want %+v", i, got, want)
		}
	}
	if got := m.Func("l").Body[0].Loc; got != (ptx.Loc{}) || m.Files[1] != "a.cu" {
		t.Errorf("got %+v, files %v", got, m.Files)
	}
}

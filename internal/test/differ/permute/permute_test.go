package permute

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/ptx"
)

// TestOrder shows what stands where.
func TestOrder(t *testing.T) {
	const source = `.visible .entry k(.param .u64 p) {
	.reg .b32 %r<9>; // a comment; with a semicolon
	mov.u32 %r1, 1;
AGAIN:
	add.u32 %r1, %r1, 1;
	{ .reg .pred q; setp.lt.u32 q, %r1, 9; @q bra AGAIN; }
	{ .param .b32 a; st.param.b32 [a], %r1; call f, (a); }
	ret;
}
`
	const want = `.visible .entry k(.param .u64 p) {
	.reg .b32 %r<9>;
	bra $permuted_1;
	$permuted_2:
	AGAIN:
	add.u32 %r1, %r1, 1;
	{
	.reg .pred q;
	setp.lt.u32 q, %r1, 9;
	@q bra AGAIN;
	}
	$permuted_3:
	{ .param .b32 a; st.param.b32 [a], %r1; call f, (a); }
	ret;
	$permuted_1:
	mov.u32 %r1, 1;
	bra $permuted_2;
}

`
	s := &scanner{src: removeComments(source)}
	s.at = nextBody(source)
	body, err := s.scope()
	if err != nil {
		t.Fatal(err)
	}
	if got := len(body.items); got != 7 {
		t.Fatalf("%d items, want 7", got)
	}
	// A seed with which straight code is not cut.
	for seed := uint64(1); seed < 1000; seed++ {
		got, moved, err := Blocks(source, seed)
		if err != nil {
			t.Fatal(err)
		}
		if moved == 2 && strings.HasPrefix(strings.SplitAfter(got, "$permuted_1;\n")[1], "\t$permuted_2:") {
			if got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
			return
		}
	}
	t.Error("no seed of 1000 puts the blocks in the other order")
}

// TestSameInstructions: the permuted form has the instructions of the original, at other
// places, and branches. The parser demands that labels stay within their braces.
func TestSameInstructions(t *testing.T) {
	files, err := filepath.Glob("../testdata/ptx/*.ptx")
	if err != nil || len(files) == 0 {
		t.Fatal("no PTX", err)
	}
	if testing.Short() {
		files = slices.DeleteFunc(files, func(f string) bool { return !strings.Contains(f, "sm_90") })
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for seed := range uint64(2) {
			permuted, moved, err := Blocks(string(text), seed)
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			if moved == 0 {
				t.Errorf("%s: no block was moved", file)
			}
			compare(t, file, parse(t, file, string(text)), parse(t, file, permuted))
		}
	}
}

func parse(t *testing.T, file, text string) *ptx.Module {
	t.Helper()
	m, err := ptx.Parse(file, text)
	if err != nil {
		t.Fatalf("%s: %+v", file, err)
	}
	return m
}

func compare(t *testing.T, file string, a, b *ptx.Module) {
	t.Helper()
	if len(a.Funcs) != len(b.Funcs) {
		t.Fatalf("%s: %d functions, want %d", file, len(b.Funcs), len(a.Funcs))
	}
	for i, f := range a.Funcs {
		if want, got := instructions(f), instructions(b.Funcs[i]); !slices.Equal(got, want) {
			t.Errorf("%s: %s has other instructions", file, f.Name)
		}
		if g := b.Funcs[i]; len(g.Body) > len(f.Body)+1 && g.Body[0].Op != "bra" {
			t.Errorf("%s: %s begins with %s, want a branch to the first block", file, f.Name, g.Body[0].Op)
		}
	}
}

// renamed matches what the parser adds to a name that another scope has, too.
var renamed = regexp.MustCompile(`\$\d+\b`)

// instructions returns the instructions of a function but those that Blocks adds, sorted.
func instructions(f *ptx.Func) []string {
	var all []string
	for i := range f.Body {
		text := renamed.ReplaceAllString(f.Body[i].String(), "")
		if !strings.HasPrefix(text, "bra $permuted_") && text != "ret" {
			all = append(all, text)
		}
	}
	slices.Sort(all)
	return all
}

// TestUncut: chains of carries stay whole, and so does what follows a product that may be
// joined with an addition.
func TestUncut(t *testing.T) {
	const chain = "add.cc.u32 %r1, %r2, %r3;\nmov.u32 %r7, 1;\naddc.cc.u32 %r4, %r5, %r6;\naddc.u32 %r4, %r5, %r6;\n"
	const joined = "@%p1 mul.f32 %f1, %f2, %f3;\nmov.u32 %r1, 1;\nadd.f32 %f1, %f1, %f4;\n"
	const rounded = "mul.rn.f32 %f1, %f2, %f3;\nmov.u32 %r1, 1;\nadd.f32 %f1, %f1, %f4;\n"
	for code, whole := range map[string]bool{chain: true, joined: true, rounded: false} {
		cut := false
		for seed := range uint64(50) {
			got, _, err := Blocks(".entry k() {\n"+code+"}", seed)
			if err != nil {
				t.Fatal(err)
			}
			cut = cut || !strings.Contains(strings.ReplaceAll(got, "\t", ""), code)
		}
		if cut == whole {
			t.Errorf("cut is %v:\n%s", cut, code)
		}
	}
}

// TestNotClosed: an error, not a panic, for text that ends too early.
func TestNotClosed(t *testing.T) {
	for _, text := range []string{".entry k() { mov", ".entry k() {", ".entry k() { L:", ".entry k() { .loc"} {
		if got, _, err := Blocks(text, 1); err == nil {
			t.Errorf("%q: got %q, want an error", text, got)
		}
	}
}

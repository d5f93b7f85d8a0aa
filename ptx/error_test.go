package ptx_test

import (
	"errors"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/ptx"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// Sources in errors.txt are whole files, or follow one of these.
const (
	moduleHead = ".version 8.0 .target sm_80 .address_size 64\n"
	bodyHead   = moduleHead + ".entry k(.param .u64 k_param_0) {\n" +
		".reg .pred %p<2>; .reg .b32 %r<4>; .reg .b64 %rd<3>; .reg .f32 %f<2>; .reg .v4 .f32 %v; .shared .u32 s[4];\n"
	bodyTail = "\n}\n"
)

var escapes = strings.NewReplacer(`\r`, "\r", `\x02`, "\x02", `\x7f`, "\x7f")

// wholeSource completes a source according to the first word of its name.
func wholeSource(name, source string) string {
	source = escapes.Replace(source)
	switch kind, _, _ := strings.Cut(name, ":"); kind {
	case "module":
		return moduleHead + source
	case "body":
		return bodyHead + source + bodyTail
	}
	return source
}

// TestErrors compares the errors of Parse for the sources in errors.txt with the
// recorded ones.
func TestErrors(t *testing.T) {
	const file = "testdata/errors.txt"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var golden strings.Builder
	cases := strings.Split(string(text), "=== ")[1:]
	for _, c := range cases {
		head, want, _ := strings.Cut(c, "\n--- error\n")
		name, source, _ := strings.Cut(head, "\n")
		m, err := ptx.Parse("k.ptx", wholeSource(name, source))
		if err == nil {
			t.Errorf("%s: no error", name)
			continue
		}
		if m != nil {
			t.Errorf("%s: both a module and an error", name)
		}
		got := err.Error() + "\n"
		golden.WriteString("=== " + name + "\n" + source + "\n--- error\n" + got)
		if got != want && !*update {
			t.Errorf("%s: got\n%swant\n%s", name, got, want)
		}
		checkErrorType(t, name, err)
	}
	if *update {
		if err := os.WriteFile(file, []byte(golden.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func checkErrorType(t *testing.T, name string, err error) {
	t.Helper()
	first, ok := errors.AsType[*ptx.Error](err)
	if !ok || first.File != "k.ptx" || first.Pos.Line < 1 || first.Pos.Col < 1 || first.Msg == "" {
		t.Errorf("%s: %#v is not a *ptx.Error with its place", name, err)
	}
	if list, ok := err.(ptx.ErrorList); ok && (len(list) < 2 || len(list) > 10 || list[0] != first) {
		t.Errorf("%s: a list of %d errors", name, len(list))
	}
}

// TestCaret puts an error after different white space and comments. The caret must be
// under it.
func TestCaret(t *testing.T) {
	for _, before := range []string{"", " ", "\t", "\t\t ", "/* é */", "/*\t世界 */ ", strings.Repeat(" ", 500), "/*" + strings.Repeat("\x86", 500) + "*/"} {
		line := before + "add.u32 %r1, %nope, %r2;"
		_, err := ptx.Parse("k.ptx", bodyHead+line+bodyTail)
		e, ok := errors.AsType[*ptx.Error](err)
		if !ok {
			t.Fatalf("%q: %v", before, err)
		}
		if want := strings.Index(line, "%nope") + 1; e.Line != line || e.Pos.Col != want || e.Pos.Line != 4 {
			t.Errorf("%q: line %q, at %s, want column %d", before, e.Line, e.Pos, want)
		}
		lines := strings.Split(e.Error(), "\n")
		shown, caret := []rune(lines[1]), []rune(lines[2])
		if at := len(caret) - 1; string(shown[at:at+5]) != "%nope" {
			t.Errorf("%q: the caret is under %q:\n%s", before, string(shown[at:]), e)
		}
		for i, r := range caret[:len(caret)-1] {
			if (r == '\t') != (shown[i] == '\t') || r != '\t' && r != ' ' {
				t.Errorf("%q: column %d of the caret's line is %q", before, i, r)
			}
		}
	}
}

func TestErrorWithoutFile(t *testing.T) {
	_, err := ptx.Parse("", "hello")
	if want := "1:1: expected .version, found hello: this is not PTX\nhello\n^"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// TestLongNames: a message shows the start of a very long name only.
func TestLongNames(t *testing.T) {
	const head = ".version 8.0\n.target sm_80\n.address_size 64\n"
	long := strings.Repeat("é", 2) + strings.Repeat("x", 1<<20)
	for _, text := range []string{long, strings.Repeat("x", 1<<20), ".global .b32 a = " + long, ".visible .entry k() { " + long + "; }", "." + long} {
		_, err := ptx.Parse("", head+text)
		if err == nil || len(err.Error()) > 20000 {
			t.Errorf("%.20s...: want an error of at most 20000 bytes", text)
		}
	}
}

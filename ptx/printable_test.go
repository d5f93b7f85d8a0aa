package ptx

import (
	"regexp"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/internal/printable"
)

// TestErrorsArePrintable: an error about a text has nothing that a terminal obeys, wherever the text
// has it, and neither does the name of the file.
func TestErrorsArePrintable(t *testing.T) {
	const obeyed = "\x1b[31m\a\u009b2J\x7f\u202e\x80"
	const text = ".version 8.0\n.target sm_75\n.file 1 \"a.cu\"\n.visible .entry k(.param .u32 n) {\n\t.reg .u32 %r;\n\tld.param.u32 %r, [n];\n\tret;\n}\n"
	failed := 0
	for _, at := range regexp.MustCompile(`\S+`).FindAllStringIndex(text, -1) {
		for _, by := range []string{obeyed, text[at[0]:at[1]] + obeyed, `"` + obeyed + `"`, "wrong" + strings.Repeat(" ", 300) + "// " + obeyed} {
			if _, err := Parse("x"+obeyed+".ptx", text[:at[0]]+by+text[at[1]:]); err != nil {
				if failed++; !printable.Is(err.Error()) {
					t.Errorf("%q at %d: %q", by, at[0], err.Error())
				}
			}
		}
	}
	if failed < 30 {
		t.Errorf("only %d errors", failed)
	}
}

// TestErrorNamesFile: an error names a file with its whole path, as editors read it.
func TestErrorNamesFile(t *testing.T) {
	path := strings.Repeat("/dir", 100) + "/x.ptx"
	if _, err := Parse(path, "wrong"); err == nil || !strings.HasPrefix(err.Error(), path+":1:1: ") {
		t.Errorf("got %v", err)
	}
}

package profile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/internal/printable"
)

// TestPrintable: a profile has no string that a terminal obeys, and no error about one has.
func TestPrintable(t *testing.T) {
	const obeyed = `\u001b[31m\u009b2J\u007f\u202e`
	text, err := Text("h200")
	if err != nil {
		t.Fatal(err)
	}
	whole := strings.ReplaceAll(string(text), `"h200"`, `"h200`+obeyed+`"`) // the name and a source
	p, err := Parse([]byte(whole))
	if err != nil {
		t.Fatal(err)
	}
	if want := "h200" + printable.Line("\x1b[31m\u009b2J\x7f\u202e"); p.Name != want || p.Sources[want].Text == "" {
		t.Errorf("the name is %q, the sources %q", p.Name, fmt.Sprint(p.Sources))
	}
	for _, c := range [][2]string{
		{`"link"`, `"link` + obeyed + `"`}, {`"MULTIPROCESSOR_COUNT"`, `"COUNT` + obeyed + `"`}, {`"measured"`, `"sure` + obeyed + `"`},
		{`"source": "h200"`, `"source": "h201` + obeyed + `"`}, {`"schema": "`, `"schema": "` + obeyed}, {`"value": 13000`, `"value": "` + obeyed + `"`},
		{`"link"`, "\x1b[31m"}, {`"link"`, "\"link\x1b\""}, {`"name"`, `"` + obeyed + `": 1, "` + obeyed + `": 2, "name"`}, {`"text": "`, `"text` + obeyed + `": "`},
	} {
		changed := strings.Replace(string(text), c[0], c[1], 1)
		if changed == string(text) {
			t.Fatalf("the profile has no %s", c[0])
		}
		if _, err := Parse([]byte(changed)); err == nil || !printable.Is(err.Error()) {
			t.Errorf("%s: got %q", c[1], fmt.Sprint(err))
		} else if strings.Contains(err.Error(), `\\x1b`) {
			t.Errorf("%s: it is quoted twice: %q", c[1], err)
		}
	}
	if _, err := Load("x\x1b[31m.json"); err == nil || !printable.Is(err.Error()) {
		t.Errorf("a name of a file: %q", err)
	}
}

// TestLoadNames: an error names a file with its whole path.
func TestLoadNames(t *testing.T) {
	dir := filepath.Join(t.TempDir(), strings.Repeat("d", 200))
	path := filepath.Join(dir, "x.json")
	for range 2 {
		if _, err := Load(path); err == nil || !strings.Contains(err.Error(), path+": ") {
			t.Errorf("got %v", err)
		}
		if err := errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(path, []byte("{}"), 0o600)); err != nil {
			t.Skip(err)
		}
	}
}

package variables

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/internal/secureenv"
)

// TestUnknown: known names, those of tests and those that Kubernetes sets are no mistakes.
func TestUnknown(t *testing.T) {
	environ := []string{"FERRY_CHEK=1", "FERRY_CHECK=1", "FERRY_TEST_X=1", "FERRY_A_CHILD=1", "FERRY_SERVICE_HOST=10.0.0.1", "FERRY_PORT_80_TCP=tcp",
		"FERRY_PORT=tcp", "FERRYBOAT=1", "PATH=FERRY_X", "FERRY_devise=soft", "FERRY_CHEK=2"}
	got := Unknown(environ)
	if want := []string{"FERRY_CHEK", "FERRY_devise"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	const want = "no variable of Ferry: FERRY_CHEK (nearest: FERRY_CHECK), FERRY_devise (nearest: FERRY_DEVICE); ferry help environment lists all (FERRY_QUIET=1 suppresses this line)"
	if text := Message(got); text != want {
		t.Errorf("got %q", text)
	}
	if text := Message(slices.Repeat(got, 4)); !strings.Contains(text, "), and 4 more; ") || strings.Count(text, "nearest") != mostNamed {
		t.Errorf("8 names: %q", text)
	}
	if text := Message(nil); text != "" {
		t.Errorf("without unknown names: %q", text)
	}
}

// TestTake: a privileged program says nothing, and FERRY_QUIET silences others.
func TestTake(t *testing.T) {
	t.Setenv("FERRY_CHEK", "1")
	t.Setenv("FERRY_QUIET", "")
	if text := Take(); !strings.Contains(text, "FERRY_CHEK (nearest: FERRY_CHECK)") {
		t.Errorf("got %q", text)
	}
	restore := secureenv.Assume(true)
	if text := Take(); text != "" {
		t.Errorf("privileged: %q", text)
	}
	restore()
	t.Setenv("FERRY_QUIET", "1")
	if text := Take(); text != "" {
		t.Errorf("with FERRY_QUIET=1: %q", text)
	}
}

// quoted matches a name in Go code: a string, or the beginning of "NAME=value".
var quoted = regexp.MustCompile("[\"`](FERRY_[A-Z0-9_]+)[\"`=]")

// TestComplete: each name in the code of this repository is known, and each known name is in it.
func TestComplete(t *testing.T) {
	names := map[string]string{}
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".go" || strings.Contains(path, "internal/variables/") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range quoted.FindAllSubmatch(text, -1) {
			names[string(m[1])] = path
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	delete(names, "FERRY_")
	delete(names, "FERRY_SYSTEM_HEADERS") // a macro of C
	delete(names, "FERRY_CHEK")           // misspelled by tests
	for name, path := range names {
		if len(Unknown([]string{name + "=1"})) > 0 {
			t.Errorf("%s: %s is not in the list", path, name)
		}
	}
	for _, v := range Ferry {
		if names[v.Name] == "" {
			t.Errorf("nothing reads %s", v.Name)
		}
		if v.Text == "" {
			t.Errorf("%s has no text", v.Name)
		}
	}
}

package cc

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/internal/test/compiletest"
)

// constructors is a file in which the registration is between other functions that run before main.
const constructors = `
int puts(const char *);
__attribute__((constructor)) static void first(void) { puts("first"); }
__attribute__((constructor)) static void __cuda_module_ctor(void) { puts("registration"); }
__attribute__((constructor)) static void last(void) { puts("last"); }
int main(void) { puts("main"); }
`

// TestRegisterFirst: the registration has a list of its own, which runs first, and the others keep their
// order. A file without a registration stays as it is.
func TestRegisterFirst(t *testing.T) {
	dir := t.TempDir()
	for _, target := range []string{"x86_64-linux-gnu", "aarch64-linux-gnu"} {
		object := filepath.Join(dir, target+".o")
		clang(t, constructors, "--target="+target, "-x", "c", "-c", "-", "-o", object)
		if err := registerFirst(object); err != nil {
			t.Fatal(err)
		}
		for list, want := range map[string]string{".init_array": "first last", ".init_array.100": "__cuda_module_ctor"} {
			if got := functions(t, object, list); got != want {
				t.Errorf("%s: %s has %q, want %q", target, list, got, want)
			}
		}
		moved, err := os.ReadFile(object)
		if err != nil {
			t.Fatal(err)
		}
		if err := registerFirst(object); err != nil {
			t.Fatal(err)
		}
		if again, _ := os.ReadFile(object); string(again) != string(moved) {
			t.Errorf("%s: a second call changes the file", target)
		}
	}
	host := map[string]string{"amd64": "x86_64-linux-gnu.o", "arm64": "aarch64-linux-gnu.o"}[runtime.GOARCH]
	if runtime.GOOS != "linux" || host == "" {
		return
	}
	program := filepath.Join(dir, "program")
	clang(t, "", filepath.Join(dir, host), "-o", program)
	if out, err := exec.CommandContext(t.Context(), program).Output(); err != nil || string(out) != "registration\nfirst\nlast\nmain\n" {
		t.Errorf("%v, %q", err, out)
	}
}

// clang runs clang with a source in C as its input.
func clang(t *testing.T, source string, args ...string) {
	t.Helper()
	c := exec.CommandContext(t.Context(), compiletest.Clang(t), args...)
	c.Stdin = strings.NewReader(source)
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// functions returns the names of the functions in a list of those that run before main.
func functions(t *testing.T, path, list string) string {
	t.Helper()
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s, entries := f.Section(list), f.Section(".rela"+list)
	if s == nil || entries == nil {
		return "nothing"
	}
	all, err := f.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for i, e := range (&object{File: f}).entries(entries) {
		if e.Offset != uint64(i)*slotBytes || s.Size != entries.Size/relaBytes*slotBytes {
			t.Errorf("%s: entry %d is at %d, of %d bytes", list, i, e.Offset, s.Size)
		}
		of := all[e.Info>>32-1]
		for _, s := range all {
			if elf.ST_TYPE(s.Info) == elf.STT_FUNC && s.Section == of.Section && s.Value == of.Value+e.Addend {
				names = append(names, s.Name)
			}
		}
	}
	return strings.Join(names, " ")
}

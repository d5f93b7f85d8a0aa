package outfile

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"
)

// put writes a file, and fails the test if it cannot.
func put(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// has fails the test unless a file has a text.
func has(t *testing.T, path, want string) {
	t.Helper()
	if text, err := os.ReadFile(path); err != nil || string(text) != want {
		t.Errorf("%s has %.50q (%v), want %q", path, text, err, want)
	}
}

// only fails the test unless a folder has exactly some files.
func only(t *testing.T, dir string, want ...string) {
	t.Helper()
	all, err := os.ReadDir(dir)
	var names []string
	for _, e := range all {
		names = append(names, e.Name())
	}
	if err != nil || strings.Join(names, " ") != strings.Join(want, " ") {
		t.Errorf("the folder has %q (%v), want %q", names, err, want)
	}
}

// TestWrite: a file is replaced whole. Its link and its permissions stay, and so does the place
// of a link that leads nowhere yet.
func TestWrite(t *testing.T) {
	dir := t.TempDir()
	file, link, nowhere := filepath.Join(dir, "file"), filepath.Join(dir, "link"), filepath.Join(dir, "nowhere")
	put(t, file, "old, and longer")
	if err := errors.Join(os.Chmod(file, 0o640), os.Symlink("file", link), os.Symlink("later", nowhere)); err != nil {
		t.Skip(err)
	}
	if err := errors.Join(Write(link, []byte("new")), Write(nowhere, []byte("made"))); err != nil {
		t.Fatal(err)
	}
	has(t, file, "new")
	has(t, filepath.Join(dir, "later"), "made")
	only(t, dir, "file", "later", "link", "nowhere")
	for path, want := range map[string]fs.FileMode{file: 0o640, link: fs.ModeSymlink, nowhere: fs.ModeSymlink} {
		if info, err := os.Lstat(path); err != nil || info.Mode()&fs.ModeType|info.Mode().Perm()&^0o777 != want&fs.ModeType || want == 0o640 && info.Mode() != want {
			t.Errorf("%s: mode %v (%v), want %v", path, info.Mode(), err, want)
		}
	}
	absent := filepath.Join(dir, "none", "x")
	if err := Write(absent, nil); err == nil || err.Error() != "write "+absent+": no such file or directory" && runtime.GOOS != "windows" {
		t.Errorf("in a folder that is not there: %v", err)
	}
	if err := Write(os.DevNull, []byte("new")); err != nil {
		t.Error(err)
	}
	if err := Write(filepath.Join(dir, strings.Repeat("n", 255)), []byte("x")); err != nil {
		t.Errorf("the longest name: %v", err)
	}
}

// TestCreate: until Commit, and after Discard, the path has what it had.
func TestCreate(t *testing.T) {
	dir := t.TempDir()
	path := put(t, filepath.Join(dir, "file"), "old")
	for _, commit := range []bool{false, true} {
		f, err := Create(path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write([]byte("new")); err != nil {
			t.Fatal(err)
		}
		has(t, path, "old")
		if commit {
			err = f.Commit()
		}
		f.Discard()
		if err != nil {
			t.Error(err)
		}
		if _, err := f.Write(nil); !errors.Is(err, os.ErrClosed) {
			t.Errorf("Write after the end returns %v", err)
		}
		if err := f.Commit(); !errors.Is(err, os.ErrClosed) {
			t.Errorf("a second Commit returns %v", err)
		}
	}
	has(t, path, "new")
	only(t, dir, "file")
}

// TestCommitBlocked: whole contents that cannot be put at their path stay, and the error says
// where.
func TestCommitBlocked(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	f, err := Create(path)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = f.Write([]byte("whole"))
	if err := os.Mkdir(path, 0o755); err != nil {
		t.Fatal(err)
	}
	err = f.Commit()
	f.Discard()
	if err == nil || !strings.Contains(err.Error(), "write "+path+": another program has put a folder there; its new contents are in ") {
		t.Fatalf("Commit returns %v", err)
	}
	has(t, err.Error()[strings.LastIndex(err.Error(), " ")+1:], "whole")
}

// TestCheck: what could not be written is refused, and nothing is changed or left.
func TestCheck(t *testing.T) {
	dir := t.TempDir()
	file := put(t, filepath.Join(dir, "file"), "old")
	empty, loop := filepath.Join(dir, "empty"), filepath.Join(dir, "loop")
	if err := errors.Join(os.Mkdir(empty, 0o755), os.Symlink("loop", loop)); err != nil {
		t.Skip(err)
	}
	for path, want := range map[string]string{
		file: "", filepath.Join(dir, "new"): "", os.DevNull: "",
		"": "want the name of a file", empty: "is a directory", dir + "/x/": "names a folder", loop: "too many symbolic links",
		filepath.Join(dir, "no", "x"): "no such file", filepath.Join(file, "x"): "not a directory",
	} {
		for name, try := range map[string]func(string) error{
			"Check": Check, "Begin": func(p string) error {
				g, err := Begin(p)
				if err == nil {
					g.Drop()
				}
				return err
			},
		} {
			err := try(path)
			if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%s(%q) returns %v, want %q", name, path, err, want)
			}
		}
	}
	has(t, file, "old")
	only(t, dir, "empty", "file", "loop")
}

// TestWriteAll: files that belong together are all as they were, if one of them cannot be
// written.
func TestWriteAll(t *testing.T) {
	dir := t.TempDir()
	a, b := put(t, filepath.Join(dir, "a"), "old a"), put(t, filepath.Join(dir, "b"), "old b")
	for _, second := range []string{filepath.Join(dir, "no", "b"), a, filepath.Join(dir, ".", "a")} {
		if err := WriteAll(Contents{a, []byte("new a")}, Contents{second, []byte("new b")}); err == nil {
			t.Errorf("a and %s were written", second)
		}
		has(t, a, "old a")
	}
	if err := WriteAll(Contents{a, []byte("new a")}, Contents{b, []byte("new b")}); err != nil {
		t.Error(err)
	}
	has(t, a, "new a")
	has(t, b, "new b")
	only(t, dir, "a", "b")
}

// TestSame: paths are one file by their names, by links, and by files that are one.
func TestSame(t *testing.T) {
	dir := t.TempDir()
	file := put(t, filepath.Join(dir, "file"), "x")
	if err := errors.Join(os.Symlink("file", filepath.Join(dir, "link")), os.Link(file, filepath.Join(dir, "hard")),
		os.Symlink("new", filepath.Join(dir, "newlink")), os.Symlink(".", filepath.Join(dir, "dirlink"))); err != nil {
		t.Skip(err)
	}
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"file", "file", true}, {"file", "./file", true}, {"file", "link", true}, {"file", "hard", true}, {"file", "dirlink/file", true},
		{"new", "newlink", true}, {"new", "dirlink/new", true}, {"no/x", "no/../no/x", true},
		{"file", "new", false}, {"new", "newer", false}, {"", "file", false}, {"", "", false},
		{os.DevNull, os.DevNull, false},
	} {
		t.Chdir(dir)
		if got := Same(c.a, c.b); got != c.want {
			t.Errorf("Same(%q, %q) is %t", c.a, c.b, got)
		}
	}
}

// TestMove: a finished file takes the place and the permissions of another.
func TestMove(t *testing.T) {
	dir := t.TempDir()
	path := put(t, filepath.Join(dir, "file"), "old")
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	folder, err := Folder(path)
	if err != nil || filepath.Dir(folder) != dir || !strings.HasPrefix(filepath.Base(folder), "file.part-") {
		t.Fatalf("the folder is %s (%v)", folder, err)
	}
	from := put(t, filepath.Join(folder, "x"), "new")
	if err := Move(from, path); err != nil {
		t.Error(err)
	}
	has(t, path, "new")
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 && runtime.GOOS != "windows" {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	from = put(t, filepath.Join(folder, "x"), "newer")
	if err := Move(from, folder); err == nil || !strings.Contains(err.Error(), "its new contents are in "+from) {
		t.Errorf("in the place of a folder: %v", err)
	}
	has(t, from, "newer")
}

// TestGrowing: a file that grows is at its path when it is shown, and not before. While it
// grows, another one is refused.
func TestGrowing(t *testing.T) {
	dir := t.TempDir()
	path := put(t, filepath.Join(dir, "file"), "old")
	g, err := Begin(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.Write([]byte("head")); err != nil {
		t.Fatal(err)
	}
	if renamesOpenFiles {
		has(t, path, "old")
	}
	if err := g.Show(); err != nil {
		t.Fatal(err)
	}
	_, _ = g.Write([]byte(", more"))
	has(t, path, "head, more")
	if renamesOpenFiles {
		other, err := Begin(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := other.Show(); !errors.Is(err, ErrBusy) {
			t.Errorf("a second file: %v, want ErrBusy", err)
		}
		_, _ = other.Write([]byte("other"))
		if err := other.ShowAs(path + ".2"); err != nil {
			t.Error(err)
		}
		other.Drop()
		has(t, path+".2", "other")
		has(t, path, "head, more")
		only(t, dir, "file", "file.2")
	}
	g.Drop()
	has(t, path, "head, more")
}

// TestLongName: the names of the files beside one with a long name are not cut inside a letter.
func TestLongName(t *testing.T) {
	for _, letter := range []string{"x", "\u00e9", "\u4e16", "\U0001f600"} {
		for shift := range 4 {
			path := filepath.Join(t.TempDir(), strings.Repeat("-", shift)+strings.Repeat(letter, 200/len(letter)))
			f, err := Create(path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Discard()
			dir, err := Folder(path)
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{f.f.Name(), dir} {
				if base := filepath.Base(name); !utf8.ValidString(base) || len(base) < longestBase || len(base) > longestBase+16 {
					t.Errorf("beside %q stands %q", filepath.Base(path), base)
				}
			}
		}
	}
	if got := shortBase(strings.Repeat("\x80", 200)); len(got) < longestBase-utf8.UTFMax {
		t.Errorf("of a name that is no UTF-8 %d bytes stay", len(got))
	}
}

// TestGrowingAtOnce: of several that begin at once, one gets the path, and no other replaces it.
func TestGrowingAtOnce(t *testing.T) {
	if !renamesOpenFiles {
		t.Skip("files have no locks here")
	}
	for round := range 50 {
		dir := t.TempDir()
		path := filepath.Join(dir, "file")
		shown := make(chan *Growing, 8)
		for i := range cap(shown) {
			go func() {
				g, err := Begin(path)
				if err == nil {
					_, err = g.Write(bytes.Repeat([]byte{byte('a' + i)}, 3))
				}
				if err == nil {
					err = g.Show()
				}
				if errors.Is(err, ErrBusy) {
					g.Drop()
					g = nil
				} else if err != nil {
					t.Error(err)
				}
				shown <- g
			}()
		}
		n := 0
		for range cap(shown) {
			if g := <-shown; g != nil {
				n++
				is, err := g.Stat()
				at, wrong := os.Stat(path)
				if err != nil || wrong != nil || !os.SameFile(is, at) {
					t.Errorf("round %d: the file that was shown is not at its path", round)
				}
				defer g.Drop()
			}
		}
		if n != 1 {
			t.Fatalf("round %d: %d files were shown, want 1", round, n)
		}
		only(t, dir, "file")
	}
}

// TestReplacedSince: a file that was opened before another one took its place has a lock that says
// nothing. It is not replaced.
func TestReplacedSince(t *testing.T) {
	if !renamesOpenFiles {
		t.Skip("files have no locks here")
	}
	dir := t.TempDir()
	path := put(t, filepath.Join(dir, "file"), "old")
	g, err := Begin(path)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Drop()
	old, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	if err := Write(path, []byte("other")); err != nil {
		t.Fatal(err)
	}
	if again, err := g.replaceOpen(old); !again || err != nil {
		t.Errorf("got %t, %v, want another try", again, err)
	}
	has(t, path, "other")
}

// TestAppend: data is added to the end, and a folder is refused.
func TestAppend(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	if err := errors.Join(Append(path, []byte("a\n")), Append(path, []byte("b\n")), Append(path, nil)); err != nil {
		t.Error(err)
	}
	has(t, path, "a\nb\n")
	if err := Append(dir, nil); err == nil || !strings.Contains(err.Error(), "is a directory") {
		t.Errorf("a folder: %v", err)
	}
}

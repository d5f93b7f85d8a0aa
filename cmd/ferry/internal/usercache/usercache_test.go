package usercache

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// write writes a file and makes its folder.
func write(t *testing.T, path, text string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
		t.Fatal(err)
	}
}

// TestPrune: the libraries that were not used for longest go, and what killed builds have left.
func TestPrune(t *testing.T) {
	cache := t.TempDir()
	name := func(i int) string { return filepath.Join(cache, fmt.Sprintf("%0*x", 2*keyBytes, i)) }
	for i := range 7 {
		write(t, filepath.Join(name(i), "file"), "x")
		used := time.Now().Add(-time.Duration(i) * time.Hour)
		if err := os.Chtimes(name(i), used, used); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{newPrefix + "1", newPrefix + "2", "other"} {
		write(t, filepath.Join(cache, dir, "file"), "x")
	}
	old := time.Now().Add(-2 * abandoned)
	if err := errors.Join(os.Chtimes(filepath.Join(cache, newPrefix+"2"), old, old), os.Chtimes(filepath.Join(cache, "other"), old, old)); err != nil {
		t.Fatal(err)
	}
	if err := Prune(cache, filepath.Base(name(6)), 4); err != nil {
		t.Fatal(err)
	}
	want := []string{name(0), name(1), name(2), name(6), filepath.Join(cache, newPrefix+"1"), filepath.Join(cache, "other")}
	entries, err := os.ReadDir(cache)
	var got []string
	for _, e := range entries {
		got = append(got, filepath.Join(cache, e.Name()))
	}
	if fmt.Sprint(got) != fmt.Sprint(want) || err != nil {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
}

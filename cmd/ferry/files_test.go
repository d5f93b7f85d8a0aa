package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// TestFileFlags: each flag with a file is one of those that are written or of those that are
// read, so that checkFiles knows it.
func TestFileFlags(t *testing.T) {
	known := append(slices.Clone(outputFlags), "output", "dir", "define", "include", "compiler") // the first two are checked elsewhere
	for name := range inputFlags {
		known = append(known, name)
	}
	files := 0
	for _, c := range all(newRoot(&session{})) {
		c.Flags().VisitAll(func(f *pflag.Flag) {
			name, _ := pflag.UnquoteUsage(f)
			if !strings.Contains(name, "FILE") && name != "OUT" && name != "DIR" && name != "PROFILE" {
				return
			}
			files++
			if !slices.Contains(known, f.Name) && !(c.Name() == "info" && f.Name == "kernel") { // info writes nothing
				t.Errorf("%s --%s %s is in no list of files.go", c.CommandPath(), f.Name, name)
			}
		})
	}
	if files < 15 {
		t.Errorf("%d flags with files", files)
	}
}

// TestTwice: a file that a command would write twice, or read and write, is refused before
// anything is done, also by a link.
func TestTwice(t *testing.T) {
	dir := t.TempDir()
	text, err := os.ReadFile("testdata/before.json")
	if err != nil {
		t.Fatal(err)
	}
	measured, link := filepath.Join(dir, "measured.json"), filepath.Join(dir, "link.json")
	write(t, measured, string(text))
	if err := os.Symlink("measured.json", link); err != nil {
		t.Skip(err)
	}
	ran, fresh := filepath.Join(dir, "ran"), filepath.Join(dir, "fresh.json")
	program := []string{"--", "touch", ran}
	tool, err := exec.LookPath("touch")
	if err != nil {
		t.Skip(err)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{append([]string{"trace", "--record", fresh, "--perfetto", fresh}, program...), "--record " + fresh + ": --perfetto writes this file, too"},
		{append([]string{"trace", "--record", fresh, "--html", dir + "/./fresh.json"}, program...), "--html writes this file, too"},
		{append([]string{"trace", "--record", link, "--html", measured}, program...), "--html writes this file, too"},
		{[]string{"trace", "--record", link, "--", "touch", ran, measured}, "--record " + link + " would replace " + measured + ", an argument of the program"},
		{[]string{"trace", "--html", tool, "--", tool}, "--html " + tool + " would replace the program"},
		{[]string{"trace", "--perfetto", link, measured}, "--perfetto " + link + " would replace the recording"},
		{[]string{"bench", "--save-profile", fresh, "--html", fresh}, "--html writes this file, too"},
		{[]string{"bench", "--normal", measured, "--save-profile", link}, "--save-profile " + link + " would replace the reference"},
		{[]string{"bench", "--device", "soft:" + measured + "*2", "--save-profile", measured}, "would replace the profile of the device"},
		{[]string{"bench", "--against", measured + "," + fresh, "--html", fresh}, "--html and --against"},
		{[]string{"profile", "fit", measured, "--out", link}, "--out " + link + " would replace the measurements"},
		{[]string{"profile", "fit", "testdata/before.json", "--base", measured, "--out", measured}, "would replace the base"},
		{[]string{"compile", measured, "-o", link}, "-o " + link + ": is the source"},
	} {
		status, out, errs := ferryRun(c.args...)
		if status != exitUsage || out != "" || !strings.Contains(errs, c.want) {
			t.Errorf("%v: status %d, stdout %q, stderr %q, want %q", c.args, status, out, errs, c.want)
		}
	}
	if after, err := os.ReadFile(measured); err != nil || string(after) != string(text) {
		t.Errorf("a file was changed: %v", err)
	}
	wantFiles(t, dir, "link.json", "measured.json")
}

// TestProgramWords: words of a program that name no file that it reads do not keep a result from
// its place.
func TestProgramWords(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "old.json", "old")
	for _, args := range [][]string{
		{"--html", "report", "--", "true", "report"},
		{"--html", "true", "--", "true"},
		{"--record", "r.json", "--", "true", "-o", "r.json"},
		{"--record", "old.json", "--", "true", "-o", "old.json"},
	} {
		if status, _, errs := ferryRun(append([]string{"trace"}, args...)...); status != exitError || !strings.Contains(errs, "has opened no device") {
			t.Errorf("%v: status %d, stderr %q", args, status, errs)
		}
	}
}

// TestNoFile: the number of bytes that a kernel writes is no file.
func TestNoFile(t *testing.T) {
	for _, c := range all(newRoot(&session{})) {
		if c.Name() != "advise" {
			continue
		}
		if err := c.ParseFlags([]string{"--out", "4096"}); err != nil {
			t.Fatal(err)
		}
		if got := outputs(c); len(got) != 0 {
			t.Errorf("got %q", got)
		}
		return
	}
	t.Error("there is no ferry advise")
}

// wantFiles fails the test unless a folder has exactly some files.
func wantFiles(t *testing.T, dir string, want ...string) {
	t.Helper()
	var got []string
	list, err := os.ReadDir(dir)
	for _, e := range list {
		got = append(got, e.Name())
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("the folder has %q (%v), want %q", got, err, want)
	}
}

package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// TestClosure: a program's libraries are those that it names, those that these need, and the
// dynamic linker. A library that is missing is an error with its name.
func TestClosure(t *testing.T) {
	const program = "/bin/sh"
	linker, err := interpreter(program)
	if runtime.GOOS != "linux" || err != nil {
		t.Skipf("no dynamic program %s here: %v", program, err)
	}
	const more = "libstdc++.so.6" // needs libm.so.6, as the program does not
	if _, found := find(more); !found {
		t.Skipf("no %s here", more)
	}
	libraries, err := closure(program, []string{more})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{filepath.Base(linker), "libc.so.6", more, "libm.so.6"} {
		is := func(path string) bool { return filepath.Base(path) == want }
		if !slices.ContainsFunc(libraries, is) {
			t.Errorf("%v lacks %s", libraries, want)
		}
	}
	if _, err = closure(program, []string{"libnone.so.9"}); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "libnone.so.9") {
		t.Errorf("a missing library is %v", err)
	}
}

// TestPack: a layer has all bytes of the files, and the sizes are those of the layer.
func TestPack(t *testing.T) {
	dir := t.TempDir()
	text := bytes.Repeat([]byte("abc"), 5000)
	files := []file{{From: filepath.Join(dir, "a"), Path: "/service"}, {From: filepath.Join(dir, "b"), Path: "/lib/b"}}
	for i, f := range files {
		if err := os.WriteFile(f.From, text[i:], 0o644); err != nil {
			t.Fatal(err)
		}
	}
	plain, compressed, err := pack(files)
	if err != nil {
		t.Fatal(err)
	}
	// Two headers of 512 bytes, the data in blocks of 512, and two blocks at the end.
	if want := int64(512 + 15360 + 512 + 15360 + 1024); plain != want || compressed <= 0 || compressed > plain/10 {
		t.Errorf("a layer of %d bytes, %d compressed, want %d and less than a tenth", plain, compressed, want)
	}
	if files[0].Bytes != 15000 || files[1].Bytes != 14999 {
		t.Errorf("files %+v", files)
	}

	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	if err := errors.Join(files[1].add(w), w.Close()); err != nil {
		t.Fatal(err)
	}
	r := tar.NewReader(&layer)
	header, err := r.Next()
	if err != nil {
		t.Fatal(err)
	}
	if data, err := io.ReadAll(r); err != nil || header.Name != "lib/b" || !bytes.Equal(data, text[1:]) {
		t.Errorf("%s has %d bytes: %v", header.Name, len(data), err)
	}
}

// TestSumWheels: the sum of the table in the repository, and lines that are wrong.
func TestSumWheels(t *testing.T) {
	files, sum, err := sumWheels("../../../../" + wheelsFile)
	if err != nil || files != 29 || sum != 3007417582 {
		t.Errorf("%d wheels have %d bytes: %v", files, sum, err)
	}
	for _, line := range []string{"a.whl", "a.whl\t", "\t7", "a.whl\t-7", "a.whl 7"} {
		path := filepath.Join(t.TempDir(), "wheels.tsv")
		if err := os.WriteFile(path, []byte("# text\nb.whl\t5\n"+line+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, _, err := sumWheels(path); err == nil || !strings.Contains(err.Error(), ":3:") {
			t.Errorf("%q: %v", line, err)
		}
	}
}

// TestImage measures the service. As root it runs with the files of its image alone.
func TestImage(t *testing.T) {
	if testing.Short() || runtime.GOOS != "linux" {
		t.Skip("builds a program for Linux")
	}
	t.Chdir("../../../..")
	path := filepath.Join(t.TempDir(), "image.json")
	var stdout, stderr bytes.Buffer
	if status := run([]string{"--json", path}, &stdout, &stderr); status != 0 {
		t.Fatalf("status %d: %s", status, &stderr)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var r result
	if err := json.Unmarshal(data, &r); err != nil {
		t.Fatal(err)
	}
	if r.Schema != schema || r.Program < 5e6 || r.Sum <= r.Program || r.Tar <= r.Sum || r.Gzip <= 0 || r.Gzip >= r.Tar {
		t.Errorf("sizes: %+v", r)
	}
	if !slices.Contains(r.Needed, "libc.so.6") {
		t.Errorf("the program needs %q", r.Needed)
	}
	if os.Geteuid() == 0 && !strings.HasPrefix(r.Ran, "1 and 41 become 2 and 42") {
		t.Errorf("it answered %q", r.Ran)
	}
}

// TestCommandLine: a wrong one is status 2, an error of the measurement 1.
func TestCommandLine(t *testing.T) {
	var stdout, stderr bytes.Buffer
	for want, args := range map[int][]string{0: {"-h"}, 2: {"more"}, 1: {"--program", "./no/such/package"}} {
		if status := run(args, &stdout, &stderr); status != want {
			t.Errorf("%q is status %d, want %d", args, status, want)
		}
	}
}

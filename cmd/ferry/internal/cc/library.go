package cc

import (
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ferrygpu/ferry/cmd/ferry/internal/usercache"
	"github.com/ferrygpu/ferry/kernels"
)

// sourcesOfRuntime has the runtime library in C++.
//
//go:embed runtime
var sourcesOfRuntime embed.FS

// libraryName is the runtime library's file, and headersName the folder of headers beside it.
const (
	libraryName = "libferrycudart.a"
	headersName = "include"
)

// keptLibraries is the number of runtime libraries in the cache.
const keptLibraries = 4

// A library is the headers and the runtime library in the cache.
type library struct{ folder string }

func (l library) path() string    { return filepath.Join(l.folder, libraryName) }
func (l library) headers() string { return filepath.Join(l.folder, headersName) }
func (l library) compat() string  { return filepath.Join(l.headers(), "compat") }

// prelude is the header that each .cu file has first, as with nvcc.
func (l library) prelude() string { return filepath.Join(l.compat(), "cuda_runtime.h") }

// newLibrary returns the library, which it builds if the cache has none of the same sources and
// compiler.
func newLibrary(ctx context.Context, t *tools) (library, error) {
	root, err := usercache.Path("cc")
	if err != nil {
		return library{}, err
	}
	key := libraryKey(t.clang.Path, t.clang.Version)
	l := library{filepath.Join(root, key)}
	if there, err := usercache.Find(root, key, libraryName); there || err != nil {
		return l, err
	}
	err = usercache.Fill(root, key, libraryName, func(dir string) error { return fillLibrary(ctx, t, library{dir}) })
	_ = usercache.Prune(root, key, keptLibraries)
	if err != nil {
		return library{}, fmt.Errorf("build the runtime library: %w", err)
	}
	return l, nil
}

// libraryKey returns the name of the library's folder: a hash of its sources and of the compiler.
func libraryKey(clang, version string) string {
	sum := sha256.New()
	fmt.Fprintf(sum, "%s %s\n", clang, version)
	for _, from := range []fs.FS{kernels.Headers, sourcesOfRuntime} {
		_ = fs.WalkDir(from, ".", func(name string, d fs.DirEntry, _ error) error { // embedded files can be read
			if !d.IsDir() {
				text, _ := fs.ReadFile(from, name)
				fmt.Fprintf(sum, "%s %d\n%s", name, len(text), text)
			}
			return nil
		})
	}
	return usercache.Key(sum)
}

// fillLibrary writes the headers and builds the library in a folder.
func fillLibrary(ctx context.Context, t *tools, l library) error {
	work := filepath.Join(l.folder, "work")
	if err := errors.Join(os.CopyFS(l.headers(), kernels.Headers), os.CopyFS(work, sourcesOfRuntime)); err != nil {
		return err
	}
	defer os.RemoveAll(work)
	files, err := fs.Glob(sourcesOfRuntime, "runtime/*.cpp")
	if err != nil {
		return err
	}
	args := slices.Concat(t.flags, []string{"-std=c++17", "-O2", "-g1", "-fPIC", "-fno-exceptions", "-fno-rtti", "-Wno-unused-command-line-argument",
		"-I" + l.headers(), "-I" + l.compat(), "-ffile-prefix-map=" + work + "=ferry", "-c"})
	var objects []string
	for _, f := range files {
		args = append(args, filepath.Join(work, filepath.FromSlash(f)))
		objects = append(objects, strings.TrimSuffix(path.Base(f), ".cpp")+".o")
	}
	if err := command(ctx, work, t.cxx, args...); err != nil {
		return err
	}
	return archive(ctx, work, l.path(), objects)
}

// archive makes a static library of objects, by the archiver of clang or that of the system.
func archive(ctx context.Context, dir, file string, objects []string) error {
	ar, err := exec.LookPath("ar")
	if err != nil {
		return fmt.Errorf("there is no ar (%w): install it, such as by \"apt install binutils\"", err)
	}
	return command(ctx, dir, ar, append([]string{"rcs", file}, objects...)...)
}

// command runs a program in a folder. Its error has what the program prints.
func command(ctx context.Context, dir, name string, args ...string) error {
	c := exec.CommandContext(ctx, name, args...)
	c.Dir = dir
	var text bytes.Buffer
	c.Stdout, c.Stderr = &text, &text
	if err := c.Run(); err != nil {
		return fmt.Errorf("%s: %w\n%s", filepath.Base(name), err, strings.TrimSpace(text.String()))
	}
	return nil
}

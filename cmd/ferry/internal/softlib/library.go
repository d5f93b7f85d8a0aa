package softlib

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/ferrygpu/ferry/cmd/ferry/internal/usercache"
	"github.com/ferrygpu/ferry/internal/outfile"
	"github.com/ferrygpu/ferry/internal/printable"
	"github.com/ferrygpu/ferry/internal/secureenv"
)

// Name is the name of the library's file, by which programs ask for it.
const Name = "libcuda.so.1"

// linkName is the other name, which -lcuda looks for. It is a symbolic link.
const linkName = "libcuda.so"

// module has the library's sources, and target is its package.
const (
	module = "github.com/ferrygpu/ferry"
	target = "cmd/libcuda"
)

// headers is the folder with Ferry's own cuda.h and what it includes, beside the library.
const headers = "headers"

// Library is a library that is built.
type Library struct {
	Folder   string // for LD_LIBRARY_PATH; cuda.h is in headers/compat below it
	Source   string // the folder of Ferry's module
	Compiler string // "gcc (Debian 14.2.0-19) 14.2.0"
	Built    bool   // by this call; else it was in the cache
}

// Path returns the library's file.
func (l *Library) Path() string { return filepath.Join(l.Folder, Name) }

// CopyTo copies the library and its headers to a folder, which it makes if there is none, with the link for -lcuda.
// It replaces a library that it has made, but no other: a folder of the system can have NVIDIA's.
func (l *Library) CopyTo(dir string) error {
	data, err := os.ReadFile(l.Path())
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	path, link := filepath.Join(dir, Name), filepath.Join(dir, linkName)
	for _, old := range []string{path, link} {
		if _, missing := os.Lstat(old); !errors.Is(missing, fs.ErrNotExist) && !ours(old) {
			return fmt.Errorf("%s is there already, and is not a library of Ferry: choose another folder", printable.Path(old))
		}
	}
	if err := outfile.Write(path, data); err != nil {
		return err
	}
	if err := os.Symlink(Name, link); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return copyHeaders(filepath.Join(dir, headers), os.DirFS(filepath.Join(l.Folder, headers)))
}

// copyHeaders copies the headers of a folder, over those that are there.
func copyHeaders(dir string, from fs.FS) error {
	return fs.WalkDir(from, ".", func(name string, d fs.DirEntry, err error) error {
		to := filepath.Join(dir, filepath.FromSlash(name))
		switch {
		case err != nil:
			return err
		case d.IsDir():
			return os.MkdirAll(to, 0o755)
		case !strings.HasSuffix(name, ".h"):
			return nil
		}
		text, err := fs.ReadFile(from, name)
		if err != nil {
			return err
		}
		return outfile.Write(to, text)
	})
}

// ours reports whether a file is a library that Build has made.
func ours(path string) bool {
	info, err := buildinfo.ReadFile(path)
	return err == nil && info.Path == module+"/"+target
}

// Builder builds the library. Its fields are for tests; the zero Builder is complete.
type Builder struct {
	Source string            // the folder of the module; "" looks for it
	Cache  string            // the folder for libraries; "" is ferry/libcuda in the user's cache
	Say    func(text string) // is told before a build, which takes long; may be nil
	Races  bool              // builds the library that tells the race detector of C what the device does
}

// tags returns the tags of the build.
func (b Builder) tags() string {
	if b.Races {
		return "hosttsan"
	}
	return ""
}

// CacheFolder returns the folder in which libraries are kept.
func CacheFolder() (string, error) { return usercache.Path("libcuda") }

// Build returns the library, which it builds if the cache has none of the same sources and
// compiler. It is safe for concurrent use, also by several processes. An error about what is
// missing says what to install.
func (b Builder) Build(ctx context.Context) (*Library, error) {
	l, err := b.build(ctx)
	if err != nil {
		return nil, fmt.Errorf("build %s: %w", Name, err)
	}
	return l, nil
}

func (b Builder) build(ctx context.Context) (*Library, error) {
	if runtime.GOOS != "linux" {
		return nil, errors.New("the library is for Linux with glibc alone")
	}
	if secureenv.Privileged() {
		return nil, errors.New("not in a privileged program, because the environment names the compiler")
	}
	t, err := findTools(ctx)
	if err != nil {
		return nil, err
	}
	if b.Source == "" {
		if b.Source, err = findSource(ctx, t.goTool); err != nil {
			return nil, err
		}
	}
	if strings.ContainsAny(b.Source, `'"`) {
		return nil, fmt.Errorf("the folder of the sources, %s, has a quotation mark, which the linker's flags cannot have", printable.Path(b.Source))
	}
	if b.Cache == "" {
		if b.Cache, err = CacheFolder(); err != nil {
			return nil, err
		}
	}
	if strings.ContainsAny(b.Cache, ":;") {
		return nil, fmt.Errorf("the cache %s has a colon or a semicolon, at which LD_LIBRARY_PATH ends a folder: name another one by XDG_CACHE_HOME", printable.Path(b.Cache))
	}
	key, err := t.key(b.Source, b.tags())
	if err != nil {
		return nil, err
	}
	l := &Library{Folder: filepath.Join(b.Cache, key), Source: b.Source, Compiler: t.compilerName}
	if there, err := usercache.Find(b.Cache, key, Name); there || err != nil {
		return l, err
	}
	if b.Say != nil {
		b.Say(fmt.Sprintf("building %s by %s: the first time takes a minute", Name, l.Compiler))
	}
	l.Built = true
	err = usercache.Fill(b.Cache, key, Name, func(dir string) error { return b.fill(ctx, t, dir) })
	_ = usercache.Prune(b.Cache, key, kept) // what is left is tried again after the next build
	return l, err
}

// fill compiles the library into a folder.
func (b Builder) fill(ctx context.Context, t *tools, dir string) error {
	if err := t.compile(ctx, b.Source, b.tags(), filepath.Join(dir, Name)); err != nil {
		return err
	}
	if err := os.Chmod(filepath.Join(dir, Name), 0o755); err != nil { // whatever the umask is
		return err
	}
	_ = os.Remove(filepath.Join(dir, "libcuda.so.h")) // cgo's header, which is not that of CUDA
	if err := copyHeaders(filepath.Join(dir, headers), os.DirFS(filepath.Join(b.Source, "kernels"))); err != nil {
		return err
	}
	return os.Symlink(Name, filepath.Join(dir, linkName))
}

// compile runs the go command. Variables that would make another library are not set.
func (t *tools) compile(ctx context.Context, source, tags, out string) error {
	c := exec.CommandContext(ctx, t.goTool, "build", "-buildmode=c-shared", "-trimpath", "-buildvcs=false", "-tags", tags, "-ldflags", linking(source), "-o", out, "./"+target)
	c.Dir = source
	c.Env = append(os.Environ(), "CGO_ENABLED=1", "CC="+t.compiler, "GOFLAGS=", "GOWORK=off", "GOOS=linux", "GOARCH="+runtime.GOARCH, "PWD="+source)
	c.Cancel = func() error { return c.Process.Signal(os.Interrupt) }
	c.WaitDelay = 5 * time.Second
	text, err := c.CombinedOutput()
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return fmt.Errorf("go build in %s: %w\n%s", printable.Path(source), err, lastLines(text, mostLines))
	}
	return nil
}

// linking returns the flags of the linker: the name by which programs ask for the library, and what
// it exports. They cannot stand in the source, where cgo allows neither. -Wl would end a path at a comma.
func linking(source string) string {
	script := filepath.Join(source, filepath.FromSlash(target), "exports.map")
	return fmt.Sprintf(`-extldflags "-Wl,-soname,%s -Wl,-Bsymbolic-functions -Xlinker '--version-script=%s'"`, Name, script)
}

// mostLines is the number of lines of a failed build that an error has.
const mostLines = 20

// lastLines returns the last lines of a text.
func lastLines(text []byte, most int) string {
	lines := strings.Split(string(bytes.TrimSpace(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-most):], "\n")
}

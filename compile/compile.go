package compile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/ferrygpu/ferry/internal/await"
	"github.com/ferrygpu/ferry/internal/inputfile"
	"github.com/ferrygpu/ferry/internal/printable"
	"github.com/ferrygpu/ferry/internal/secureenv"
)

// DefaultArch is the architecture of PTX if [Options] name none: that of the A100, which
// newer GPUs run as well.
const DefaultArch = "sm_80"

// maxSource is how many bytes a source has at most.
const maxSource = 64 << 20

// Options are the options of a compilation. The zero value, or nil, is the default.
type Options struct {
	// Arch is the GPU architecture that the PTX is for: "sm_80", which is the default.
	// GPUs of this architecture and newer ones run it. The forms "80", "8.0" and
	// "compute_80" mean the same.
	Arch string
	// Compiler is "nvrtc", "clang", "clang-NN", or the absolute path of a libnvrtc or clang.
	// Empty means NVRTC if there is one, else clang; clang is also asked for what NVRTC
	// refuses, such as a source with host code. The environment variables FERRY_NVRTC and
	// FERRY_CLANG name the file for "nvrtc" and "clang".
	Compiler string
	// Include has directories for #include. The directory of a source file is always searched.
	Include []string
	// Define has macros: "NAME" or "NAME=VALUE".
	Define []string
	// LineInfo adds source lines to the PTX, for fault reports and profilers.
	LineInfo bool
	// FastMath lets the compiler use approximate and less exact arithmetic
	// (--use_fast_math).
	FastMath bool
}

// Result is the output of a compilation.
type Result struct {
	PTX      []byte
	Warnings []Diagnostic // in the order of the compiler, with their notes
	Log      string       // what the compiler printed, unchanged; at most 4 MiB
	Compiler string       // name and version: "clang 19.1.7", "NVRTC 13.0"
	Arch     string       // "sm_80"
}

// Source compiles source as C++17. name is its file name for messages, and includes are
// relative to its directory. The names that nvcc gives every source are declared first,
// unless the source includes ferry.h. Kernels keep their names: a kernel that is not
// extern "C" has a mangled name.
//
// Errors in the source are an [*Error]. If there is no compiler, the error is a
// [*NotFoundError]. If it does not know the architecture, the error is an [*ArchError].
// When ctx ends, Source returns its error; clang is stopped then, NVRTC ends by itself
// later. A nil ctx never ends. Source is safe for concurrent use.
func Source(ctx context.Context, name string, source []byte, o *Options) (*Result, error) {
	ctx = await.Context(ctx)
	u, err := newUnit(name, source, o)
	if err != nil {
		return nil, fmt.Errorf("compile %s: %w", name, err)
	}
	r, err := u.compile(ctx)
	if err == nil {
		return r, nil
	}
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return nil, e
	}
	return nil, fmt.Errorf("compile %s: %w", u.name, err)
}

// File is [Source] for a file.
func File(ctx context.Context, path string, o *Options) (*Result, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, printable.Error(err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("compile %s: not a regular file", printable.Path(path))
	}
	if info.Size() > maxSource {
		return nil, fmt.Errorf("compile %s: %w", printable.Path(path), tooLarge(info.Size()))
	}
	source, err := inputfile.Read(path, maxSource)
	if err != nil {
		return nil, fmt.Errorf("compile: %w", err)
	}
	return Source(ctx, filepath.ToSlash(path), source, o)
}

func tooLarge(size int64) error {
	return fmt.Errorf("the source has %d bytes, more than %d MiB", size, maxSource>>20)
}

// unit is one source with checked options.
type unit struct {
	name   string
	source []byte
	arch   arch
	o      *Options
}

// newUnit checks the options.
func newUnit(name string, source []byte, o *Options) (*unit, error) {
	if o == nil {
		o = &Options{}
	}
	if name == "" {
		name = "source.cu"
	}
	a, err := parseArch(o.Arch)
	if err != nil {
		return nil, err
	}
	switch {
	case len(source) > maxSource:
		return nil, tooLarge(int64(len(source)))
	case bytes.IndexByte(source, 0) >= 0:
		return nil, errors.New("the source has a zero byte, so it is not text")
	case strings.ContainsAny(name, "\x00\n\r"):
		return nil, errors.New("the name has a control character")
	}
	for _, dir := range o.Include {
		if dir == "" || strings.ContainsRune(dir, 0) {
			return nil, fmt.Errorf("include directory %q: not a path", dir)
		}
	}
	for _, define := range o.Define {
		if macro, _, _ := strings.Cut(define, "="); !isName(macro) || strings.ContainsAny(define, "\x00\n\r") {
			return nil, fmt.Errorf("macro %q: want NAME or NAME=VALUE", define)
		}
	}
	source = bytes.TrimPrefix(source, byteOrderMark)
	return &unit{name: name, source: source, arch: a, o: o}, nil
}

// byteOrderMark begins the files of some editors. Compilers accept it at the beginning of
// a file only, and this source gets lines before it.
var byteOrderMark = []byte("\ufeff")

// clone copies what belongs to the caller of Source, for a compiler that reads it later.
func (u *unit) clone() *unit {
	o := *u.o
	o.Include, o.Define = slices.Clone(o.Include), slices.Clone(o.Define)
	return &unit{name: u.name, source: bytes.Clone(u.source), arch: u.arch, o: &o}
}

// isName reports whether s is an identifier of C, perhaps with the parameters of a macro.
func isName(s string) bool {
	s, _, _ = strings.Cut(s, "(")
	for i, r := range s {
		letter := r == '_' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		if !letter && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return s != ""
}

// compile chooses a compiler and compiles.
func (u *unit) compile(ctx context.Context) (*Result, error) {
	c, err := find(ctx, u)
	if err != nil {
		return nil, err
	}
	if err := checkArch(u.arch, c); err != nil {
		return nil, err
	}
	r, err := c.compile(ctx, u)
	if e, ok := errors.AsType[*Error](err); ok && u.o.Compiler == "" {
		return u.afterNVRTC(ctx, c, e)
	}
	return r, err
}

// afterNVRTC compiles with clang what NVRTC refuses: it takes no host code. If clang refuses
// too, the error is NVRTC's, unless that is about a header.
func (u *unit) afterNVRTC(ctx context.Context, c compiler, first *Error) (*Result, error) {
	if _, ok := c.(*nvrtc); !ok {
		return nil, first
	}
	clang, err := findClang(ctx, u.arch, secureenv.Get(ClangVariable))
	if err != nil || checkArch(u.arch, clang) != nil {
		return nil, first
	}
	r, err := clang.compile(ctx, u)
	if second, ok := errors.AsType[*Error](err); err != nil && (!ok || second == nil || !first.lacksHeader()) {
		return nil, first
	}
	return r, err
}

// directory returns the directory of the source.
func (u *unit) directory() string { return filepath.Dir(filepath.FromSlash(u.name)) }

// fileForm matches the name of a source file in line info.
var fileForm = regexp.MustCompile(`(?m)^(\s*\.file\s+\d+\s+")([^"]*)`)

// relativeFiles returns PTX in which line info has names relative to the working
// directory, as they were given. NVRTC makes them absolute, and clang begins them with ./.
func relativeFiles(ptx []byte) []byte {
	here, err := os.Getwd()
	if err != nil {
		return ptx
	}
	here = filepath.ToSlash(here) + "/"
	return fileForm.ReplaceAllFunc(ptx, func(line []byte) []byte {
		m := fileForm.FindSubmatch(line)
		name := bytes.TrimPrefix(bytes.TrimPrefix(m[2], []byte(here)), []byte("./"))
		return slices.Concat(m[1], name)
	})
}

package compile

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/ferrygpu/ferry/internal/dl"
	"github.com/ferrygpu/ferry/internal/printable"
	"github.com/ferrygpu/ferry/internal/secureenv"
	"github.com/ferrygpu/ferry/internal/toolkit"
)

// nvrtcNames are the file names of NVRTC. The first three are those of CUDA 13, 12, and
// 11.2 to 11.8.
var nvrtcNames = []string{"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2", "libnvrtc.so"}

// library calls a function of a C library by its name. An argument that points to memory
// comes from a [dl.Frame].
type library func(name string, args ...uintptr) (uintptr, error)

// The results of NVRTC that need an own error.
const (
	nvrtcErrorOption      = 5
	nvrtcErrorCompilation = 6
	nvrtcErrorBuiltins    = 7 // libnvrtc-builtins does not open
)

// The largest sizes that NVRTC is believed.
const (
	maxNVRTCLog   = 256 << 20
	maxPTX        = 1 << 30
	maxNVRTCArchs = 1000
)

// nvrtc is an open NVRTC. It is safe for concurrent use, as the library is.
type nvrtc struct {
	lib          library
	path         string
	major, minor int
	supported    []arch
	include      string // the directory of CUDA's own headers, or ""
}

func (n *nvrtc) name() string  { return fmt.Sprintf("NVRTC %d.%d", n.major, n.minor) }
func (n *nvrtc) archs() []arch { return n.supported }

// findNVRTC opens the first NVRTC that can be used, and keeps it.
var findNVRTC = func() (compiler, error) {
	if path := secureenv.Get(NVRTCVariable); path != "" {
		if !filepath.IsAbs(path) {
			return nil, fmt.Errorf("%s=%s: want an absolute path", NVRTCVariable, printable.Value(path))
		}
		n, err := openNVRTC(path)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", NVRTCVariable, err)
		}
		return n, nil
	}
	var n compiler
	s := dl.Search{Names: nvrtcNames, Dirs: toolkit.Dirs("cuda_nvrtc"), Accept: func(l *dl.Library) (err error) {
		n, err = useNVRTC(l)
		return err
	}}
	if _, err := s.Find(); err != nil {
		return nil, &NotFoundError{Tried: toolkit.Tried("NVRTC", err)}
	}
	return n, nil
}

// openNVRTC opens the NVRTC with an absolute path.
func openNVRTC(path string) (compiler, error) {
	l, err := dl.Open(path)
	if err != nil {
		return nil, err
	}
	return useNVRTC(l)
}

// opened has every NVRTC by its path: a library stays open, and what it supports does not
// change.
var opened sync.Map

// useNVRTC checks a library that was opened.
func useNVRTC(l *dl.Library) (compiler, error) {
	if n, ok := opened.Load(l.Path()); ok {
		return n.(*nvrtc), nil
	}
	n, err := newNVRTC(l.Path(), calls(l))
	if err != nil {
		return nil, err
	}
	openBuiltins(n)
	opened.Store(l.Path(), n)
	return n, nil
}

// openBuiltins opens the library of builtin functions beside NVRTC, if it is there. NVRTC
// opens it by its name only, and some packages have no search path for that.
func openBuiltins(n *nvrtc) {
	name := fmt.Sprintf("libnvrtc-builtins.so.%d.%d", n.major, n.minor)
	if path := filepath.Join(filepath.Dir(n.path), name); filepath.IsAbs(path) {
		dl.Open(path)
	}
}

// calls returns a library's functions by their names.
func calls(l *dl.Library) library {
	return func(name string, args ...uintptr) (uintptr, error) {
		fn, err := l.Symbol(name)
		if err != nil {
			return 0, err
		}
		return dl.Call(fn, args...), nil
	}
}

// newNVRTC asks a library for its version and architectures.
func newNVRTC(path string, lib library) (*nvrtc, error) {
	n := &nvrtc{lib: lib, path: path, include: cudaInclude(path)}
	var f dl.Frame
	defer f.Release()
	version := make([]int32, 2)
	if err := n.call("nvrtcVersion", dl.Array(&f, version[:1]), dl.Array(&f, version[1:])); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	n.major, n.minor = int(version[0]), int(version[1])
	if n.major < 11 || n.major == 11 && n.minor < 2 {
		return nil, fmt.Errorf("%s: %s is too old, want 11.2 or newer", path, n.name())
	}
	if err := n.askArchs(&f); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return n, nil
}

// askArchs asks for the architectures.
func (n *nvrtc) askArchs(f *dl.Frame) error {
	count := make([]int32, 1)
	if err := n.call("nvrtcGetNumSupportedArchs", dl.Array(f, count)); err != nil {
		return err
	}
	if count[0] < 1 || count[0] > maxNVRTCArchs {
		return fmt.Errorf("nvrtcGetNumSupportedArchs: %d architectures", count[0])
	}
	all := make([]int32, count[0])
	if err := n.call("nvrtcGetSupportedArchs", dl.Array(f, all)); err != nil {
		return err
	}
	for _, number := range all {
		n.supported = append(n.supported, arch{int(number), ""})
		if number >= 90 { // NVRTC lists no suffixes; it refuses those that it does not know
			n.supported = append(n.supported, arch{int(number), "a"}, arch{int(number), "f"})
		}
	}
	return nil
}

// nvrtcError is a result of NVRTC that is not success.
type nvrtcError struct {
	function string
	code     int32
	text     string
}

func (e *nvrtcError) Error() string {
	text := fmt.Sprintf("%s: %s (%d)", e.function, e.text, e.code)
	if e.code == nvrtcErrorBuiltins {
		text += ": NVRTC could not open libnvrtc-builtins, which belongs into the directory of libnvrtc"
	}
	return text
}

// call calls a function that returns an nvrtcResult.
func (n *nvrtc) call(function string, args ...uintptr) error {
	r, err := n.lib(function, args...)
	if err != nil {
		return err
	}
	code := int32(r)
	if code == 0 {
		return nil
	}
	e := &nvrtcError{function: function, code: code, text: "unknown error"}
	if text, err := n.lib("nvrtcGetErrorString", uintptr(code)); err == nil && text != 0 {
		e.text = dl.String(text)
	}
	return e
}

// compile compiles with NVRTC. If ctx ends first, it returns at once, and NVRTC finishes
// in its goroutine.
func (n *nvrtc) compile(ctx context.Context, u *unit) (*Result, error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	type outcome struct {
		result *Result
		err    error
	}
	done := make(chan outcome, 1)
	u = u.clone()
	go func() {
		runtime.LockOSThread() // nvJitLink needs it, so it is the safe way here too
		defer runtime.UnlockOSThread()
		r, err := n.compileNow(u)
		done <- outcome{r, err}
	}()
	select {
	case o := <-done:
		return o.result, o.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// compileNow compiles and waits for the end.
func (n *nvrtc) compileNow(u *unit) (r *Result, err error) {
	var f dl.Frame
	defer f.Release()
	program, err := n.program(&f, u)
	if err != nil {
		return nil, err
	}
	defer func() {
		if failed := n.call("nvrtcDestroyProgram", f.Word(&program)); err == nil && failed != nil {
			r, err = nil, failed
		}
	}()
	options := n.options(u)
	failed := n.call("nvrtcCompileProgram", program, uintptr(len(options)), f.Texts(options))
	log, err := n.bytes(&f, program, "nvrtcGetProgramLogSize", "nvrtcGetProgramLog", maxNVRTCLog)
	if failed != nil {
		return nil, n.failure(u, failed, log)
	}
	if err != nil {
		return nil, err
	}
	ptx, err := n.bytes(&f, program, "nvrtcGetPTXSize", "nvrtcGetPTX", maxPTX)
	if err != nil {
		return nil, err
	}
	text := logText(log)
	_, warnings, _ := split(parseNVRTC(text, u))
	return &Result{PTX: relativeFiles(ptx), Warnings: warnings, Log: text, Compiler: n.name(), Arch: u.arch.String()}, nil
}

// failure makes the error of nvrtcCompileProgram. Only errors of the source have
// diagnostics.
func (n *nvrtc) failure(u *unit, err error, log []byte) error {
	text := logText(log)
	e, ok := errors.AsType[*nvrtcError](err)
	if !ok {
		return err
	}
	if e.code == nvrtcErrorOption && u.arch.suffix != "" && strings.Contains(text, "architecture") {
		return &ArchError{Arch: u.arch.String(), Compiler: n.name(), Nearest: nearest(u.arch, n.supported).String()}
	}
	if e.code != nvrtcErrorCompilation {
		if text != "" {
			return fmt.Errorf("%s: %w: %s", n.name(), err, tail(text))
		}
		return fmt.Errorf("%s: %w", n.name(), err)
	}
	all, _, more := split(parseNVRTC(text, u))
	return &Error{File: u.name, Compiler: n.name(), Arch: u.arch.String(), Diagnostics: all, More: more, Log: text}
}

// logText returns the part of a log that is kept.
func logText(log []byte) string {
	return strings.ToValidUTF8(string(log[:min(len(log), maxLog)]), "?")
}

// program creates NVRTC's object for a source and Ferry's headers.
func (n *nvrtc) program(f *dl.Frame, u *unit) (program uintptr, err error) {
	all, err := headers()
	if err != nil {
		return 0, err
	}
	var names, texts []string
	for _, h := range all {
		if !n.has(h.name) {
			names, texts = append(names, h.name), append(texts, h.text)
		}
	}
	err = n.call("nvrtcCreateProgram", f.Word(&program), f.Text(nvrtcSource(u)), f.Text(u.name),
		uintptr(len(names)), f.Texts(texts), f.Texts(names))
	return program, err
}

// has reports whether CUDA's own headers have one of that name. That goes first.
func (n *nvrtc) has(name string) bool {
	if n.include == "" || name == ferryHeader || name == coreHeader {
		return false
	}
	_, err := os.Stat(filepath.Join(n.include, filepath.FromSlash(name)))
	return err == nil
}

// nvrtcSource returns the source that includes Ferry's header.
func nvrtcSource(u *unit) string {
	if includeFerry.Match(u.source) {
		return string(u.source)
	}
	return "#include \"" + coreHeader + "\"\n" + lineDirective(u.name, 1) + string(u.source)
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// options returns the options of nvrtcCompileProgram.
func (n *nvrtc) options(u *unit) []string {
	o := u.o
	options := []string{"--gpu-architecture=compute_" + strings.TrimPrefix(u.arch.String(), "sm_"), "--std=c++17",
		"--include-path=" + u.directory()}
	for _, dir := range o.Include {
		options = append(options, "--include-path="+dir)
	}
	if n.include != "" {
		options = append(options, "--include-path="+n.include)
		// Since CUDA 13 CUDA's own headers include those of libcu++, which are in this folder.
		if cccl := filepath.Join(n.include, "cccl"); isDir(cccl) {
			options = append(options, "--include-path="+cccl)
		}
	}
	for _, define := range o.Define {
		options = append(options, "--define-macro="+define)
	}
	if o.LineInfo {
		options = append(options, "--generate-line-info")
	}
	if o.FastMath {
		options = append(options, "--use_fast_math")
	}
	return options
}

// bytes gets bytes whose size NVRTC tells first, without the zero at their end.
func (n *nvrtc) bytes(f *dl.Frame, program uintptr, sizeOf, get string, most uintptr) ([]byte, error) {
	var size uintptr
	if err := n.call(sizeOf, program, f.Word(&size)); err != nil || size == 0 {
		return nil, err
	}
	if size > most {
		return nil, fmt.Errorf("%s: %d bytes, more than %d", sizeOf, size, most)
	}
	all := make([]byte, size)
	if err := n.call(get, program, f.Bytes(all)); err != nil {
		return nil, err
	}
	if end := slices.Index(all, 0); end >= 0 {
		all = all[:end]
	}
	return all, nil
}

package compile

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/ferrygpu/ferry/internal/await"
	"github.com/ferrygpu/ferry/internal/dl"
	"github.com/ferrygpu/ferry/internal/printable"
	"github.com/ferrygpu/ferry/internal/secureenv"
	"github.com/ferrygpu/ferry/internal/toolkit"
)

// JitLinkVariable is the environment variable that names libnvJitLink by its absolute
// path.
const JitLinkVariable = "FERRY_NVJITLINK"

// InputKind is the kind of a [LinkInput].
type InputKind int

const (
	InputAny    InputKind = iota // found from the data; LTO IR must be named
	InputPTX                     // PTX text
	InputCubin                   // machine code of one architecture
	InputFatbin                  // a fat binary
	InputLTOIR                   // code of "nvcc -dlto" or NVRTC, for optimisation while linking
)

// String returns the name of the kind.
func (k InputKind) String() string {
	names := []string{"any", "PTX", "cubin", "fatbin", "LTO IR"}
	if k < 0 || int(k) >= len(names) {
		return fmt.Sprintf("InputKind(%d)", int(k))
	}
	return names[k]
}

// LinkInput is one module to link.
type LinkInput struct {
	Name string // for messages
	Kind InputKind
	Data []byte
}

// LinkOptions are the options of [Link]. The zero value, or nil, is the default.
type LinkOptions struct {
	LineInfo     bool // keep source lines
	MaxRegisters int  // of a thread; 0 means no limit
}

// Linked is the output of [Link].
type Linked struct {
	Cubin []byte
	Log   string // what nvJitLink said, unchanged
}

// linkKinds has the kinds as nvJitLinkInputType.
var linkKinds = map[InputKind]uintptr{InputCubin: 1, InputPTX: 2, InputLTOIR: 3, InputFatbin: 4}

// linkNames are the file names of nvJitLink. It exists since CUDA 12.0.
var linkNames = []string{"libnvJitLink.so.13", "libnvJitLink.so.12", "libnvJitLink.so"}

// Link links modules to machine code for an architecture, with NVIDIA's library
// nvJitLink. The architecture is that of the GPU which runs the code. If the library is
// not installed, the error says what was tried; ferry.Link links with the driver and
// needs no library. When ctx ends, Link returns its error, and nvJitLink ends by itself
// later. A nil ctx never ends. Link is safe for concurrent use.
func Link(ctx context.Context, arch string, inputs []LinkInput, o *LinkOptions) (*Linked, error) {
	ctx = await.Context(ctx)
	job, err := newLinkJob(arch, inputs, o)
	if err != nil {
		return nil, fmt.Errorf("link: %w", err)
	}
	lib, err := findJitLink()
	if err != nil {
		return nil, fmt.Errorf("link %s: %w", countText(len(inputs), "module"), err)
	}
	type outcome struct {
		linked *Linked
		err    error
	}
	done := make(chan outcome, 1)
	go func() {
		// nvJitLink 12.4 crashes if a job moves between threads, after an error in another.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		linked, err := job.run(lib)
		done <- outcome{linked, err}
	}()
	select {
	case r := <-done:
		if r.err != nil {
			return nil, fmt.Errorf("link %s for %s: %w", countText(len(inputs), "module"), job.arch, r.err)
		}
		return r.linked, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("link: %w", ctx.Err())
	}
}

// linkJob is one call of [Link] with checked inputs.
type linkJob struct {
	arch    arch
	inputs  []LinkInput // copies, because the library may read them after Link returned
	options []string
}

func newLinkJob(name string, inputs []LinkInput, o *LinkOptions) (*linkJob, error) {
	if o == nil {
		o = &LinkOptions{}
	}
	a, err := parseArch(name)
	if err != nil {
		return nil, err
	}
	if len(inputs) == 0 {
		return nil, errors.New("no inputs")
	}
	if o.MaxRegisters < 0 {
		return nil, fmt.Errorf("MaxRegisters %d is negative", o.MaxRegisters)
	}
	j := &linkJob{arch: a, options: []string{"-arch=" + a.String()}}
	if o.LineInfo {
		j.options = append(j.options, "-lineinfo")
	}
	if o.MaxRegisters > 0 {
		j.options = append(j.options, fmt.Sprintf("-maxrregcount=%d", o.MaxRegisters))
	}
	optimise := false
	for i, in := range inputs {
		if in, err = checkInput(in); err != nil {
			return nil, fmt.Errorf("input %d (%s): %w", i, inputs[i].Name, err)
		}
		optimise = optimise || in.Kind == InputLTOIR
		j.inputs = append(j.inputs, in)
	}
	if optimise {
		j.options = append(j.options, "-lto")
	}
	return j, nil
}

// checkInput finds the kind of an input and copies its data. nvJitLink wants a zero behind
// PTX.
func checkInput(in LinkInput) (LinkInput, error) {
	if strings.ContainsRune(in.Name, 0) {
		return in, errors.New("the name has a zero byte")
	}
	if in.Kind < InputAny || in.Kind > InputLTOIR {
		return in, fmt.Errorf("%v is not a kind of input", in.Kind)
	}
	found := kindOf(in.Data)
	switch {
	case in.Kind == InputAny && found == InputAny:
		return in, errors.New("is not PTX, a cubin or a fatbin; LTO IR needs Kind InputLTOIR")
	case in.Kind == InputAny:
		in.Kind = found
	case in.Kind != InputLTOIR && in.Kind != found:
		return in, fmt.Errorf("is not %v", in.Kind)
	case len(in.Data) == 0:
		return in, errors.New("is empty")
	}
	in.Data = bytes.Clone(in.Data)
	if in.Kind == InputPTX {
		in.Data = append(bytes.TrimRight(in.Data, "\x00"), 0)
	}
	return in, nil
}

// kindOf finds the kind of data by how it begins. It returns InputAny if it is none.
func kindOf(data []byte) InputKind {
	switch {
	case bytes.HasPrefix(data, []byte("\x7fELF")):
		return InputCubin
	case bytes.HasPrefix(data, []byte{0x50, 0xed, 0x55, 0xba}):
		return InputFatbin
	case bytes.IndexByte(bytes.TrimRight(data, "\x00"), 0) < 0 && bytes.Contains(data, []byte(".version")):
		return InputPTX
	}
	return InputAny
}

// findJitLink opens nvJitLink. It is a variable so that tests can replace it.
var findJitLink = func() (library, error) {
	const instead = "; ferry.Link links with the driver instead, and needs no library"
	if path := secureenv.Get(JitLinkVariable); path != "" {
		if !filepath.IsAbs(path) {
			return nil, fmt.Errorf("%s=%s: want an absolute path", JitLinkVariable, printable.Value(path))
		}
		l, err := dl.Open(path)
		if err != nil {
			return nil, fmt.Errorf("%s: %w%s", JitLinkVariable, err, instead)
		}
		if err := canLink(l); err != nil {
			return nil, fmt.Errorf("%s: %w%s", JitLinkVariable, err, instead)
		}
		return calls(l), nil
	}
	s := dl.Search{Names: linkNames, Dirs: toolkit.Dirs("nvjitlink"), Accept: canLink}
	l, err := s.Find()
	if err != nil {
		return nil, errors.New(strings.Join(toolkit.Tried("nvJitLink", err), "; ") +
			". It belongs to the CUDA toolkit 12.0 and newer (pip install nvidia-nvjitlink)" + instead)
	}
	return calls(l), nil
}

// canLink says what a library lacks that is to be nvJitLink.
func canLink(l *dl.Library) error {
	for _, function := range []string{"nvJitLinkCreate", "nvJitLinkAddData", "nvJitLinkComplete", "nvJitLinkGetLinkedCubin", "nvJitLinkDestroy"} {
		if !slices.ContainsFunc(jitLinkNames(function), func(name string) bool { _, err := l.Symbol(name); return err == nil }) {
			return fmt.Errorf("%s: has no function %s", l.Path(), function)
		}
	}
	return nil
}

// linker is one linking by nvJitLink.
type linker struct {
	lib    library
	handle uintptr
	frame  dl.Frame
}

// jitLinkNames returns the names that a function of nvJitLink can have. The header gives
// it the name with the version of the toolkit that a program was compiled with. Libraries
// keep the names of the older versions of their major version. Only newer ones have the
// plain name too.
func jitLinkNames(name string) []string {
	return []string{name, "__" + name + "_13_0", "__" + name + "_12_0"}
}

// jitLinkErrors has the results of nvJitLink.
var jitLinkErrors = []string{"success", "unrecognized option", "no architecture", "invalid input", "PTX does not compile",
	"NVVM IR does not compile", "internal error", "thread pool", "unrecognized input", "finalizer", "null input",
	"incompatible options", "incorrect input type", "architecture mismatch", "outdated library", "missing fatbin",
	"unrecognized architecture", "unsupported architecture", "LTO is not enabled"}

// call calls a function by the first of its names that the library has.
func (l *linker) call(function string, args ...uintptr) error {
	var first error
	for _, name := range jitLinkNames(function) {
		r, err := l.lib(name, args...)
		if err != nil {
			first = cmp.Or(first, err)
			continue
		}
		code := int32(r)
		switch {
		case code == 0:
			return nil
		case code > 0 && int(code) < len(jitLinkErrors):
			return fmt.Errorf("%s: %s (%d)", function, jitLinkErrors[code], code)
		}
		return fmt.Errorf("%s: error %d", function, code)
	}
	return first
}

// run links with a library. It stays on one thread of the system: NVIDIA's driver, which has the same
// linker, needs that.
func (j *linkJob) run(lib library) (linked *Linked, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	l := &linker{lib: lib}
	defer l.frame.Release()
	if err := l.call("nvJitLinkCreate", l.frame.Word(&l.handle), uintptr(len(j.options)), l.frame.Texts(j.options)); err != nil {
		return nil, fmt.Errorf("%w (options %s)", err, strings.Join(j.options, " "))
	}
	defer func() {
		if failed := l.call("nvJitLinkDestroy", l.frame.Word(&l.handle)); err == nil && failed != nil {
			linked, err = nil, failed
		}
	}()
	for _, in := range j.inputs {
		f := &l.frame
		if err := l.call("nvJitLinkAddData", l.handle, linkKinds[in.Kind], f.Bytes(in.Data), uintptr(len(in.Data)), f.Text(in.Name)); err != nil {
			return nil, l.explain(fmt.Errorf("%s: %w", in.Name, err))
		}
	}
	if err := l.call("nvJitLinkComplete", l.handle); err != nil {
		return nil, l.explain(err)
	}
	cubin, err := l.bytes("nvJitLinkGetLinkedCubin")
	if err != nil {
		return nil, err
	}
	log, err := l.bytes("nvJitLinkGetInfoLog")
	if err != nil {
		return nil, err
	}
	return &Linked{Cubin: cubin, Log: cText(log)}, nil
}

// explain adds the library's log to an error.
func (l *linker) explain(err error) error {
	if log, failed := l.bytes("nvJitLinkGetErrorLog"); failed == nil && cText(log) != "" {
		return fmt.Errorf("%w: %s", err, tail(cText(log)))
	}
	return err
}

// bytes gets bytes whose size the library tells first.
func (l *linker) bytes(get string) ([]byte, error) {
	var size uintptr
	if err := l.call(get+"Size", l.handle, l.frame.Word(&size)); err != nil || size == 0 {
		return nil, err
	}
	if size > maxPTX {
		return nil, fmt.Errorf("%sSize: %d bytes, more than %d", get, size, maxPTX)
	}
	all := make([]byte, size)
	return all, l.call(get, l.handle, l.frame.Bytes(all))
}

// cText returns the text of a log without the zero at its end.
func cText(log []byte) string {
	text, _, _ := bytes.Cut(log, []byte{0})
	return logText(text)
}

package softgpu

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/fatbin"
	"github.com/ferrygpu/ferry/ptx"
)

// The linker of hardware makes a cubin. That of the software GPU makes an image of its own:
//
//	linkedMagic, most registers of a thread, number of inputs, then for each input the
//	length of its name, the name, the length of its PTX, the PTX
//
// All numbers are unsigned varints. An image that is linked without optimisation begins with
// plainMagic instead. The inputs are linked again when the image is loaded,
// unless the process has loaded it before. So an image is bytes like any other: a program
// can keep it in a file.
const (
	linkedMagic = "\x00ferry linked PTX 1\n"
	plainMagic  = "\x00ferry linked PTX p\n"
)

// link is a link in progress.
type link struct {
	ctx     *contextState
	options cu.JITOptions
	inputs  []linkInput
	thread  uint64 // that began it
}

type linkInput struct {
	name string
	text []byte
}

// LinkCreate begins a link.
func (d *Driver) LinkCreate(h cu.Context, o *cu.JITOptions) (cu.LinkState, error) {
	const what = "begin a link"
	c, err := d.beginIn(h, what)
	if err != nil {
		return 0, err
	}
	defer d.mu.Unlock()
	l := &link{ctx: c}
	l.thread, _ = thread()
	if o != nil {
		l.options = *o
	}
	return cu.LinkState(d.newHandle(l)), nil
}

// link returns the link with the given handle, and leaves d unlocked.
func (d *Driver) link(h cu.Context, state cu.LinkState, what string) (*link, error) {
	if _, err := d.beginIn(h, what); err != nil {
		return nil, err
	}
	defer d.mu.Unlock()
	return lookup[*link](d, uintptr(state), what, "link")
}

// LinkAddData adds PTX, or the PTX of a fatbin, to a link.
func (d *Driver) LinkAddData(h cu.Context, state cu.LinkState, kind cu.JITInputType, data []byte, name string) error {
	what := "link " + name
	l, err := d.link(h, state, what)
	if err != nil {
		return err
	}
	if err := checkInput(kind, data, what); err != nil {
		return err
	}
	text, err := ptxOf(data, l.ctx.dev.arch(), what)
	if err != nil {
		return err
	}
	text = bytes.TrimRight(text, "\x00")
	if err := d.checkVersion(text); err != nil {
		return cutError(linkError(err, what), &l.options)
	}
	inputs := append(slices.Clip(l.inputs), linkInput{name, bytes.Clone(text)})
	if _, err := linkModules(inputs, what); err != nil && !onlyUndefined(err) {
		return cutError(err, &l.options)
	}
	l.inputs = inputs
	return nil
}

// checkInput refuses kinds of input that the software GPU cannot link, and data that is not
// of its kind.
func checkInput(kind cu.JITInputType, data []byte, what string) error {
	switch {
	case len(data) == 0:
		return refuse(cu.ErrorInvalidImage, what, "the input is empty")
	case kind > cu.JITInputLibrary:
		return refuse(cu.ErrorInvalidValue, what, "inputs of kind %d are not known", kind)
	case kind == cu.JITInputCubin:
		return refuse(cu.ErrorNoBinaryForGPU, what, "the input is %s; the software GPU links PTX", fatbin.DescribeELF(data))
	case kind != cu.JITInputPTX && kind != cu.JITInputFatbinary:
		return refuse(cu.ErrorNoBinaryForGPU, what, "the input is code of a host with code for a device in it; the software GPU links PTX and fatbins with PTX")
	case kind == cu.JITInputFatbinary && !fatbin.Is(data):
		return refuse(cu.ErrorInvalidImage, what, "the input is not a fatbin")
	case kind == cu.JITInputPTX && (fatbin.Is(data) || fatbin.IsELF(data)):
		return refuse(cu.ErrorInvalidPTX, what, "the input is not PTX")
	}
	return nil
}

// LinkComplete links the inputs.
func (d *Driver) LinkComplete(h cu.Context, state cu.LinkState) (image []byte, log string, err error) {
	const what = "complete a link"
	l, err := d.link(h, state, what)
	if err != nil {
		return nil, "", err
	}
	if err := l.onItsThread(what); err != nil {
		return nil, "", err
	}
	if _, err := linkModules(l.inputs, "link"); err != nil {
		return nil, "", cutError(err, &l.options)
	}
	return encodeLinked(l), "", nil
}

// onItsThread refuses to complete a link on another thread than the one that began it, which makes
// NVIDIA's driver 580 damage the memory of the process.
func (l *link) onItsThread(what string) error {
	if id, locked := thread(); id != l.thread || !locked && showsLocks() {
		return refuse(cu.ErrorInvalidHandle, what, "the thread that began the link must complete it (in Go: runtime.LockOSThread before LinkCreate): NVIDIA's driver damages memory otherwise")
	}
	return nil
}

// LinkDestroy ends a link.
func (d *Driver) LinkDestroy(h cu.Context, state cu.LinkState) error {
	const what = "end a link"
	if _, err := d.beginIn(h, what); err != nil {
		return err
	}
	defer d.mu.Unlock()
	if _, err := lookup[*link](d, uintptr(state), what, "link"); err != nil {
		return err
	}
	delete(d.handles, uintptr(state))
	return nil
}

// linkModules parses the inputs and makes one module of them. op is for errors of the
// linker.
func linkModules(list []linkInput, op string) (*ptx.Module, error) {
	inputs := make([]ptx.Input, len(list))
	for i, in := range list {
		m, err := parse(in.text)
		if err != nil {
			return nil, linkError(jitError(err), "link "+in.name)
		}
		inputs[i] = ptx.Input{Name: in.name, Module: m}
	}
	m, err := ptx.Link(inputs, builtin...)
	if err != nil {
		return nil, &linkFailure{cu.JITError{Result: cu.ErrorUnknown, Log: err.Error(), Op: op}, err}
	}
	return m, nil
}

// linkFailure is an error of the linker with the names that it is about.
type linkFailure struct {
	cu.JITError
	cause error
}

func (e *linkFailure) Unwrap() []error { return []error{&e.JITError, e.cause} }

// linkError names the operation in an error of the compiler.
func linkError(err error, op string) error {
	if jit, ok := errors.AsType[*cu.JITError](err); ok {
		jit.Op = op
	}
	return err
}

// onlyUndefined reports whether further inputs can cure an error of the linker.
func onlyUndefined(err error) bool {
	all, ok := errors.AsType[ptx.LinkErrors](err)
	return ok && !slices.ContainsFunc(all, func(e *ptx.LinkError) bool { return !e.Undefined })
}

func isLinked(image []byte) bool {
	return bytes.HasPrefix(image, []byte(linkedMagic)) || bytes.HasPrefix(image, []byte(plainMagic))
}

// encodeLinked returns the image of a link.
func encodeLinked(l *link) []byte {
	b := []byte(linkedMagic)
	if plain(&l.options) {
		b = []byte(plainMagic)
	}
	b = binary.AppendUvarint(b, uint64(l.options.MaxRegisters))
	b = binary.AppendUvarint(b, uint64(len(l.inputs)))
	for _, in := range l.inputs {
		b = append(binary.AppendUvarint(b, uint64(len(in.name))), in.name...)
		b = append(binary.AppendUvarint(b, uint64(len(in.text))), in.text...)
	}
	return b
}

// decodeLinked returns the code of an image of the linker.
func (d *Driver) decodeLinked(image []byte, what string) (*loading, error) {
	r := &linkedReader{rest: image[len(linkedMagic):]}
	registers, n := r.number(), r.number()
	var inputs []linkInput
	for i := uint64(0); i < n && !r.bad; i++ {
		inputs = append(inputs, linkInput{string(r.bytes()), r.bytes()})
	}
	if r.bad || len(r.rest) > 0 || registers > 1<<16 {
		return nil, refuse(cu.ErrorInvalidImage, what, "the image of the linker is damaged")
	}
	for _, in := range inputs {
		if err := d.checkVersion(in.text); err != nil {
			return nil, err
		}
	}
	c, err := codes.Get(image, func(string) (code, error) {
		m, err := linkModules(inputs, "link")
		if err != nil {
			return code{}, err
		}
		return decode(m, bytes.HasPrefix(image, []byte(plainMagic)))
	})
	if err != nil {
		return nil, err
	}
	return &loading{code: c, maxRegisters: uint32(registers)}, nil
}

// linkedReader reads an image of the linker. After an error it reads zeros.
type linkedReader struct {
	rest []byte
	bad  bool
}

func (r *linkedReader) number() uint64 {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 {
		r.bad, r.rest = true, nil
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

func (r *linkedReader) bytes() []byte {
	n := r.number()
	if n > uint64(len(r.rest)) {
		r.bad, r.rest = true, nil
		return nil
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

package softgpu

import (
	"bytes"
	"errors"
	"slices"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/fatbin"
	"github.com/ferrygpu/ferry/internal/linkimage"
	"github.com/ferrygpu/ferry/ptx"
)

// link is a link in progress.
type link struct {
	ctx     *contextState
	options cu.JITOptions
	inputs  []linkimage.Input
	thread  uint64 // that began it
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
	inputs := append(slices.Clip(l.inputs), linkimage.Input{Name: name, Text: bytes.Clone(text)})
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

// LinkComplete links the inputs. A linker of hardware makes a cubin. This one makes an image of its
// own, whose inputs are linked again when it is loaded, unless the process has loaded it before.
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
	im := linkimage.Image{Plain: plain(&l.options), MaxRegisters: uint64(l.options.MaxRegisters), Inputs: l.inputs}
	return im.Encode(), "", nil
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
func linkModules(list []linkimage.Input, op string) (*ptx.Module, error) {
	inputs := make([]ptx.Input, len(list))
	for i, in := range list {
		m, err := parse(in.Text)
		if err != nil {
			return nil, linkError(jitError(err), "link "+in.Name)
		}
		inputs[i] = ptx.Input{Name: in.Name, Module: m}
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

// decodeLinked returns the code of an image of the linker.
func (d *Driver) decodeLinked(image []byte, what string) (*loading, error) {
	im, ok := linkimage.Decode(image)
	if !ok || im.MaxRegisters > 1<<16 {
		return nil, refuse(cu.ErrorInvalidImage, what, "the image of the linker is damaged")
	}
	for _, in := range im.Inputs {
		if err := d.checkVersion(in.Text); err != nil {
			return nil, err
		}
	}
	c, err := codes.Get(image, func(string) (code, error) {
		m, err := linkModules(im.Inputs, "link")
		if err != nil {
			return code{}, err
		}
		return decode(m, im.Plain)
	})
	if err != nil {
		return nil, err
	}
	return &loading{code: c, maxRegisters: uint32(im.MaxRegisters)}, nil
}

package entry

import (
	"errors"
	"slices"
	"sync"
	"unsafe"

	"github.com/ferrygpu/ferry/cu"
)

// Unsafe: The values of parameters are memory of the program, read before the call returns.

// layout is where the parameters of a function stand in their buffer.
type layout struct {
	params []parameter
	bytes  uintptr
}

type parameter struct{ offset, bytes uintptr }

// layouts keeps the layouts of functions. A handle is never used twice, so a layout stays right.
// Unloading a module forgets those of its functions.
var layouts struct {
	byFunction sync.Map // cu.Function -> *layout
}

// layoutOf returns the layout of a function's parameters.
func layoutOf(d cu.Driver, ctx cu.Context, fn cu.Function) (*layout, error) {
	if l, ok := layouts.byFunction.Load(fn); ok {
		return l.(*layout), nil
	}
	l := new(layout)
	for i := uintptr(0); ; i++ {
		offset, bytes, err := d.FuncGetParamInfo(ctx, fn, i)
		switch {
		case err == nil:
			l.params = append(l.params, parameter{offset, bytes})
			l.bytes = max(l.bytes, offset+bytes)
		case errors.Is(err, cu.ErrorInvalidValue): // there are no more
			layouts.byFunction.Store(fn, l)
			return l, nil
		default:
			l, ok := parsedLayout(fn)
			if !ok {
				return nil, err
			}
			layouts.byFunction.Store(fn, l)
			return l, nil
		}
	}
}

// paramBuffer is a buffer for parameters.
type paramBuffer struct {
	bytes []byte
}

var paramBuffers = sync.Pool{New: func() any { return new(paramBuffer) }}

func (p *paramBuffer) release() { paramBuffers.Put(p) }

// packed reads the parameters of a launch from one of the two forms that C has: kernelParams has
// the address of each value, extra has all values in a buffer. The caller releases the buffer.
func packed(d cu.Driver, ctx cu.Context, fn cu.Function, params, extra unsafe.Pointer) (*paramBuffer, error) {
	p := paramBuffers.Get().(*paramBuffer)
	p.bytes = p.bytes[:0]
	err := p.read(d, ctx, fn, params, extra)
	if err != nil {
		p.release()
		return nil, err
	}
	return p, nil
}

func (p *paramBuffer) read(d cu.Driver, ctx cu.Context, fn cu.Function, params, extra unsafe.Pointer) error {
	switch {
	case params != nil && extra != nil:
		return cu.ErrorInvalidValue
	case !isNull(extra):
		return p.readExtra(extra)
	case !isNull(params):
		l, err := layoutOf(d, ctx, fn)
		if err != nil {
			return err
		}
		return p.readEach(l, params)
	}
	return nil
}

// readEach reads each value at its own address.
func (p *paramBuffer) readEach(l *layout, params unsafe.Pointer) error {
	p.bytes = slices.Grow(p.bytes, int(l.bytes))[:l.bytes]
	clear(p.bytes)
	from := unsafe.Slice((*uint64)(params), len(l.params))
	for i, at := range l.params {
		value := pointerAt(&from[i])
		if isNull(value) {
			return cu.ErrorInvalidValue
		}
		copy(p.bytes[at.offset:], unsafe.Slice((*byte)(value), int(at.bytes)))
	}
	return nil
}

// Marks in extra (CU_LAUNCH_PARAM_*).
const (
	launchEnd    = 0
	launchBuffer = 1
	launchSize   = 2
)

// mostExtra bounds the pairs in extra: there are two kinds.
const mostExtra = 8

// readExtra reads all values from one buffer.
func (p *paramBuffer) readExtra(extra unsafe.Pointer) error {
	var buffer unsafe.Pointer
	var bytes *uint64
	words := unsafe.Slice((*uint64)(extra), 2*mostExtra)
	for i := 0; ; i += 2 {
		if i == len(words) {
			return cu.ErrorInvalidValue
		}
		switch words[i] {
		case launchEnd:
			if buffer == nil && bytes == nil {
				return nil
			}
			if buffer == nil || isNull(unsafe.Pointer(bytes)) || *bytes > mostParams {
				return cu.ErrorInvalidValue
			}
			p.bytes = append(p.bytes, list[byte](buffer, *bytes)...)
			return nil
		case launchBuffer:
			buffer = pointerAt(&words[i+1])
		case launchSize:
			bytes = (*uint64)(pointerAt(&words[i+1]))
		default:
			return cu.ErrorInvalidValue
		}
	}
}

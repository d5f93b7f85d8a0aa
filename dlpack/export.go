package dlpack

import (
	"fmt"
	"reflect"
	"sync"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/bridge"
	"github.com/ferrygpu/ferry/internal/dl"
	"github.com/ferrygpu/ferry/internal/forked"
	"github.com/ferrygpu/ferry/internal/refusal"
)

// Options are the options of [Export].
type Options struct {
	// ReadOnly sets the flag of the tensor that forbids the consumer to write the memory. Nothing
	// hinders a consumer that writes all the same.
	ReadOnly bool
	// Type is the type of the elements for the consumer, where Go lacks it, such as [Float16] for
	// uint16. 0 is the type of the elements.
	Type Type
}

// Export returns memory as a tensor for another library of this process. shape is the shape of the
// tensor, in row-major order, with as many elements as the memory has; nil is one dimension, and an
// empty shape one element without dimensions. Elements that are arrays add dimensions of their own
// behind it. o may be nil.
//
// The consumer sees device memory on its CUDA device, page-locked memory as page-locked by CUDA,
// managed memory as managed, and pageable memory on the CPU. Pageable memory must be Go's, or stay
// mapped. Export does not find out whether it is a part of a buffer, and does not wait for it: export
// a Range of the buffer instead.
//
// Export waits until nothing is in flight on the memory, or with ReadOnly nothing that writes it.
// From then on Ferry does not know what the consumer does to the memory. Neither Slice nor Close
// waits for work of the consumer. So wait for it, or let it work in [ferry.Stream.External] with the
// memory among its uses.
//
// Consumers often call the deleter while their work on the memory is still queued. The memory is not
// freed, nor given to anybody else, before that work is done.
//
// The tensor holds the memory until its deleter has run, as a graph holds what it has captured: a
// buffer may be closed before, which returns at once, and is freed when the last tensor, graph and
// operation is done with it. Any thread may call the deleter, which does not wait: another goroutine
// frees the buffer then. Hand the tensor over once. If nobody takes it, call [Tensor.Delete].
func Export[T any](m ferry.Memory[T], shape []int, o *Options) (Tensor, error) {
	const what = "export memory"
	if o == nil {
		o = &Options{}
	}
	switch {
	case forked.Child():
		return 0, forked.New(what)
	case m == nil:
		return 0, refusal.Invalid("%s: no buffer given (nil)", what)
	}
	typ, inner, err := elementType(reflect.TypeFor[T](), o.Type)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", what, err)
	}
	x, err := bridge.Export(m, o.ReadOnly)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", what, err)
	}
	dims, err := shapeOf(m.Len(), shape)
	if err == nil {
		var t Tensor
		if t, err = makeTensor(&x, typ, append(dims, inner...), o.ReadOnly || x.ReadOnly, m.Size() == 0); err == nil {
			return t, nil
		}
	}
	x.Release()
	return 0, fmt.Errorf("%s: %w", what, err)
}

// shapeOf checks a shape for n elements.
func shapeOf(n int, shape []int) ([]int64, error) {
	if shape == nil {
		return []int64{int64(n)}, nil
	}
	dims := make([]int64, len(shape))
	for i, x := range shape {
		dims[i] = int64(x)
	}
	switch have, err := elements(dims); {
	case err != nil:
		return nil, fmt.Errorf("shape %s: %w", dimensions(dims), err)
	case have != n:
		return nil, refusal.Invalid("shape %s has %d elements, and the memory has %d", dimensions(dims), have, n)
	}
	return dims, nil
}

// makeTensor makes a tensor of exported memory in C's heap.
func makeTensor(x *bridge.Exported, typ Type, shape []int64, readOnly, empty bool) (Tensor, error) {
	if len(shape) > maxDims {
		return 0, refusal.Invalid("%d dimensions are more than the %d that a tensor can have", len(shape), maxDims)
	}
	deleter, err := deleterFunction()
	if err != nil {
		return 0, unsupported(err)
	}
	p, err := dl.Allocate(bytesOf(len(shape)))
	if err != nil {
		return 0, unsupported(err)
	}
	m := managed{head: head{major: major, minor: minor, deleter: deleter}}
	m.tensor.typ, m.tensor.ndim = typ, int32(len(shape))
	if readOnly {
		m.flags |= flagReadOnly
	}
	if !empty {
		m.tensor.data = uintptr(x.Address)
	}
	m.tensor.deviceType = int32([...]deviceType{onCPU, onCUDA, onHost, onManaged}[x.Kind])
	if x.Kind == bridge.DeviceKind {
		m.tensor.deviceID = int32(x.Device)
	}
	m.context = exports.add(export{Tensor(p), x.Release})
	Tensor(p).fill(m, shape, rowMajor(shape))
	return Tensor(p), nil
}

func unsupported(err error) error { return refusal.New(cu.ErrorNotSupported, "%v", err) }

// rowMajor returns the strides of a compact tensor.
func rowMajor(shape []int64) []int64 {
	strides, next := make([]int64, len(shape)), int64(1)
	for i := len(shape) - 1; i >= 0; i-- {
		strides[i] = next
		next *= max(shape[i], 1)
	}
	return strides
}

// export is a tensor that was handed out.
type export struct {
	tensor  Tensor
	release func()
}

// table has the tensors that are handed out, by the number in their manager_ctx.
type table struct {
	mu   sync.Mutex
	all  map[uintptr]export
	last uintptr
}

var exports = table{all: map[uintptr]export{}}

func (t *table) add(x export) uintptr {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last++
	t.all[t.last] = x
	return t.last
}

// take removes a tensor. It returns a zero export for one that is not there.
func (t *table) take(id uintptr) export {
	t.mu.Lock()
	defer t.mu.Unlock()
	x := t.all[id]
	delete(t.all, id)
	return x
}

// deleterFunction is the deleter of all tensors: a function of C that calls deleted. Any thread may
// call it.
var deleterFunction = sync.OnceValues(func() (uintptr, error) { return dl.Callback(deleted) })

// deleted ends the hold of a tensor and frees it. A second call for the same tensor finds nothing
// under its number, unless C's heap has given its memory to another tensor.
func deleted(p uintptr) {
	if p == 0 {
		return
	}
	x := exports.take(Tensor(p).head().context)
	if x.tensor == 0 {
		return
	}
	x.tensor.head().context = 0
	dl.Free(uintptr(x.tensor))
	x.release()
}

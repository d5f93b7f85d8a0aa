package dlpack

import (
	"fmt"
	"io"
	"math/bits"
	"reflect"
	"sync"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/bridge"
	"github.com/ferrygpu/ferry/internal/forked"
	"github.com/ferrygpu/ferry/internal/refusal"
)

// Array is memory of another library, with its shape. [Import] makes it. Its methods are safe for
// concurrent use, and for a nil Array do nothing.
type Array[T any] struct {
	memory   ferry.Memory[T]
	shape    []int
	readOnly bool
	closer   io.Closer
}

// Memory returns the memory: a [ferry.Device], [ferry.Host] or [ferry.Managed] buffer, or a
// [ferry.PageableSlice] for memory of the CPU. Closing the buffer closes the Array.
func (a *Array[T]) Memory() ferry.Memory[T] {
	if a == nil {
		return nil
	}
	return a.memory
}

// Shape returns the dimensions. The elements are in row-major order.
func (a *Array[T]) Shape() []int {
	if a == nil {
		return nil
	}
	return append([]int{}, a.shape...)
}

// ReadOnly reports whether the library forbids to write the memory. Ferry refuses copies and fills
// to such a buffer, and its use by Writes. What kernels and host code do it cannot see, and pageable
// memory it leaves to the program.
func (a *Array[T]) ReadOnly() bool { return a != nil && a.readOnly }

// Close gives the memory back: the deleter of the tensor is called, once. For a buffer that happens
// when nothing of Ferry uses it any more, as with ferry.WrapDevice. Pageable memory goes back at once.
// So before, wait for copies in other goroutines and for kernels that use it.
func (a *Array[T]) Close() error {
	if a == nil || a.closer == nil {
		return nil
	}
	return a.closer.Close()
}

// Import returns the memory of a tensor of another library, to use as Ferry's own. It wraps the
// memory: see [ferry.WrapDevice] for what the driver is asked and what is refused. Close of the
// [Array] calls the deleter of the tensor, which the caller no longer has.
//
// After an error the caller still has the tensor, and the error says what the tensor says of itself.
// The error wraps cu.ErrorInvalidValue in these cases: T is not the type of the elements; they are
// not in row-major order without gaps; the memory is freed, not of g, or of another kind than the
// tensor says; the tensor is 0, of another major version than 1, or of [Export], whose buffer is there
// already. A DLManagedTensor, which has no version, is not taken.
//
// T is the type of the elements, such as float32. For a type that Go lacks it is the unsigned integer
// of its size: uint8 for bool, uint16 for float16 and bfloat16. A vector is an array.
//
// Import orders no work. The library must have finished with the memory, or Ferry's work must come
// after it: [ferry.WrapStream] and [ferry.WrapEvent].
func Import[T any](g *ferry.GPU, t Tensor) (*Array[T], error) {
	const what = "import a tensor"
	if forked.Child() {
		return nil, forked.New(what)
	}
	label, err := bridge.Label(g, what)
	if err != nil {
		return nil, err
	}
	d, err := t.read()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	a, err := importAs[T](g, t, d)
	if err != nil {
		return nil, fmt.Errorf("%s on %s: the tensor says that it is %v: %w", what, label, d, err)
	}
	if a.readOnly {
		bridge.SetReadOnly(a.memory)
	}
	return a, nil
}

// importAs checks what the tensor says, and wraps its memory.
func importAs[T any](g *ferry.GPU, t Tensor, d *description) (*Array[T], error) {
	n, err := checkTensor(t, d, reflect.TypeFor[T]())
	if err != nil {
		return nil, err
	}
	a := &Array[T]{readOnly: d.readOnly, shape: ints(d.shape)}
	if a.memory, a.closer, err = wrap[T](g, d, n, func() error { t.Delete(); return nil }); err != nil {
		return nil, err
	}
	return a, nil
}

// ints returns a shape for Go.
func ints(shape []int64) []int {
	out := make([]int, len(shape))
	for i, x := range shape {
		out[i] = int(x)
	}
	return out
}

// checkTensor checks all but the memory, and returns how many elements there are.
func checkTensor(t Tensor, d *description, element reflect.Type) (int, error) {
	n, err := elements(d.shape)
	if err == nil {
		err = d.typ.accepts(element)
	}
	if err == nil {
		err = d.compact()
	}
	if err != nil {
		return 0, err
	}
	own, _ := deleterFunction()
	hi, bytes := bits.Mul64(uint64(n), uint64(element.Size()))
	switch {
	case own != 0 && t.head().deleter == own:
		return 0, refusal.Invalid("it is of Export: use the buffer that it was made of")
	case hi != 0 || bytes > 1<<63-1 || d.data+bytes < d.data:
		return 0, refusal.Invalid("its %d elements of %d bytes from %#x on are more bytes than an address can count", n, element.Size(), d.data)
	case n > 0 && d.data == d.offset:
		return 0, refusal.Invalid("it has no memory (NULL)")
	}
	return n, nil
}

// wrap makes memory of Ferry of the memory of a tensor, which release gives back.
func wrap[T any](g *ferry.GPU, d *description, n int, release func() error) (ferry.Memory[T], io.Closer, error) {
	switch d.device {
	case onCPU:
		return wrapPageable[T](d, n, release)
	case onHost:
		if err := aligned[T](d.data); err != nil {
			return nil, nil, err
		}
		return both[T](ferry.WrapHost(g, sliceAt[T](d.data, n), release))
	case onManaged:
		return both[T](ferry.WrapManaged[T](g, cu.DevicePtr(d.data), n, release))
	case onCUDA:
		if d.id != int32(g.CUDevice()) {
			return nil, nil, refusal.Invalid("the GPU is device %d: import it on the GPU of its device", g.CUDevice())
		}
		about, err := g.Driver().PointerGetAttributes(g.CUContext(), cu.DevicePtr(d.data))
		if err == nil && n > 0 && about.IsManaged { // some allocators of device memory take managed memory
			return both[T](ferry.WrapManaged[T](g, cu.DevicePtr(d.data), n, release))
		}
		return both[T](ferry.WrapDevice[T](g, cu.DevicePtr(d.data), n, release))
	}
	return nil, nil, refusal.Invalid("Ferry has no memory of such a device: copy it to CUDA, or to the CPU")
}

// buffer is a buffer of Ferry.
type buffer[T any] interface {
	ferry.Memory[T]
	io.Closer
}

// both returns a buffer as what it is for an Array.
func both[T any, B buffer[T]](b B, err error) (ferry.Memory[T], io.Closer, error) {
	if err != nil {
		return nil, nil, err
	}
	return b, b, nil
}

// onceCloser calls a function at the first Close.
type onceCloser func() error

func (c onceCloser) Close() error { return c() }

func wrapPageable[T any](d *description, n int, release func() error) (ferry.Memory[T], io.Closer, error) {
	if err := aligned[T](d.data); err != nil {
		return nil, nil, err
	}
	return ferry.Pageable(sliceAt[T](d.data, n)), onceCloser(sync.OnceValue(release)), nil
}

// aligned returns an error for an address at which Go can have no elements.
func aligned[T any](p uint64) error {
	if align := reflect.TypeFor[T]().Align(); p%uint64(align) != 0 {
		return refusal.Invalid("its address %#x is no multiple of %d, the alignment of %v", p, align, reflect.TypeFor[T]())
	}
	return nil
}

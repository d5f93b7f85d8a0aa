package dlpack

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ferrygpu/ferry/internal/dl"
	"github.com/ferrygpu/ferry/internal/refusal"
)

// Tensor is the address of a DLManagedTensorVersioned in C's memory. It describes an array, and has
// the deleter that gives its memory back. 0 is no tensor. The owner of a tensor hands it to another
// owner, or has its deleter called once. A use after the deleter is undefined, as in C.
type Tensor uintptr

// Delete gives the tensor back to who made it, by calling its deleter. That is for a tensor that
// nobody has taken: one of [Export] that is not handed over, or one that [Import] has refused.
// Delete of 0, and of a tensor without a deleter, does nothing.
func (t Tensor) Delete() {
	if t == 0 {
		return
	}
	if f := t.head().deleter; f != 0 {
		dl.Call(f, uintptr(t))
	}
}

// Type returns the type of the elements, so that a program can choose what to [Import]. It is an
// error if the tensor is 0, or has another major version than 1.
func (t Tensor) Type() (Type, error) {
	d, err := t.read()
	if err != nil {
		return 0, fmt.Errorf("type of a tensor: %w", err)
	}
	return d.typ, nil
}

// String returns what the tensor says of itself: "float32 (3, 4) on CUDA device 0".
func (t Tensor) String() string {
	d, err := t.read()
	if err != nil {
		return err.Error()
	}
	return d.String()
}

// The version of DLPack that Ferry knows.
const (
	major = 1
	minor = 3
)

// Flags of a tensor.
const (
	flagReadOnly = 1
)

// maxDims is how many dimensions a tensor can have here. NumPy and PyTorch allow 64.
const maxDims = 64

// deviceType is where the memory of a tensor is.
type deviceType int32

// From dlpack.h.
const (
	onCPU     deviceType = 1
	onCUDA    deviceType = 2
	onHost    deviceType = 3 // page-locked for CUDA
	onManaged deviceType = 13
)

// deviceNames has the types that DLPack knows.
var deviceNames = map[deviceType]string{onCPU: "the CPU", onCUDA: "CUDA device", onHost: "the CPU, page-locked for CUDA", 4: "OpenCL device",
	7: "Vulkan device", 8: "Metal device", 9: "VPI device", 10: "ROCm device", 11: "the CPU, page-locked for ROCm", 12: "extension device",
	onManaged: "managed memory of CUDA", 14: "oneAPI device", 15: "WebGPU device", 16: "Hexagon device", 17: "MAIA device", 18: "Trainium device"}

// description is what a tensor says of itself.
type description struct {
	data           uint64 // with the offset
	offset         uint64
	device         deviceType
	id             int32
	typ            Type
	shape, strides []int64 // strides in elements, nil if the tensor has none
	readOnly       bool
}

func (d *description) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v %s", d.typ, dimensions(d.shape))
	if d.strides != nil && d.compact() != nil {
		fmt.Fprintf(&b, " with strides %s", dimensions(d.strides))
	}
	name, ok := deviceNames[d.device]
	switch {
	case !ok:
		fmt.Fprintf(&b, " on device %d of type %d, which DLPack 1.3 does not have", d.id, d.device)
	case strings.HasSuffix(name, "device"):
		fmt.Fprintf(&b, " on %s %d", name, d.id)
	default:
		fmt.Fprintf(&b, " on %s", name)
	}
	if d.readOnly {
		b.WriteString(", read-only")
	}
	return b.String()
}

// dimensions formats a shape as Python does.
func dimensions(x []int64) string {
	s := strings.ReplaceAll(strings.Trim(fmt.Sprint(x), "[]"), " ", ", ")
	if len(x) == 1 {
		s += ","
	}
	return "(" + s + ")"
}

// read copies what a tensor says of itself, after it has checked that this can be read.
func (t Tensor) read() (*description, error) {
	if t == 0 {
		return nil, refusal.Invalid("no tensor given (NULL)")
	}
	h := t.head()
	if h.major != major {
		return nil, refusal.Invalid("the tensor is of DLPack %d.%d, or a DLManagedTensor without a version, and Ferry knows %d.x: ask the library for a DLManagedTensorVersioned of that", h.major, h.minor, major)
	}
	x := &t.whole().tensor
	d := &description{offset: x.byteOffset, device: deviceType(x.deviceType), id: x.deviceID, typ: x.typ, readOnly: h.flags&flagReadOnly != 0}
	switch {
	case x.ndim < 0 || x.ndim > maxDims:
		return nil, refusal.Invalid("the tensor has %d dimensions, must be 0 to %d", x.ndim, maxDims)
	case x.ndim > 0 && x.shape == 0:
		return nil, refusal.Invalid("the tensor has %d dimensions, and no shape (NULL)", x.ndim)
	case uint64(x.data)+x.byteOffset < x.byteOffset:
		return nil, refusal.Invalid("the tensor begins %d bytes after %#x, which is more than an address can count", x.byteOffset, x.data)
	}
	d.data = uint64(x.data) + x.byteOffset
	d.shape = numbersAt(x.shape, int(x.ndim))
	if x.strides != 0 {
		d.strides = numbersAt(x.strides, int(x.ndim))
	}
	return d, nil
}

// elements returns how many elements a shape has.
func elements(shape []int64) (int, error) {
	n, empty := uint64(1), false
	for _, x := range shape {
		switch {
		case x < 0:
			return 0, refusal.Invalid("a dimension of %s is negative", dimensions(shape))
		case x == 0:
			empty = true
			continue
		}
		if n > (1<<63-1)/uint64(x) {
			n = 1<<63 - 1 // more than any memory, unless another dimension is 0
			continue
		}
		n *= uint64(x)
	}
	switch {
	case empty:
		return 0, nil
	case n == 1<<63-1:
		return 0, refusal.Invalid("%s are more elements than an address can count (2^63)", dimensions(shape))
	}
	return int(n), nil
}

// compact returns an error if the elements do not follow each other in the order of C, the last
// index first.
func (d *description) compact() error {
	if slices.Contains(d.shape, 0) || d.strides == nil {
		return nil
	}
	want := int64(1)
	for i := len(d.shape) - 1; i >= 0; i-- {
		if d.shape[i] != 1 && d.strides[i] != want {
			return refusal.Invalid("its elements do not follow each other in row-major order: dimension %d has the stride %d, and would have %d: make it contiguous, or import the whole of which it is a part",
				i, d.strides[i], want)
		}
		want *= d.shape[i]
	}
	return nil
}

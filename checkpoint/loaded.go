package checkpoint

import (
	"fmt"
	"iter"
	"reflect"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/checkpoint/internal/convert"
	"github.com/ferrygpu/ferry/internal/bridge"
	"github.com/ferrygpu/ferry/internal/printable"
	"github.com/ferrygpu/ferry/internal/refusal"
)

// Loaded is tensors in memory of a GPU. Its methods are safe for concurrent use.
type Loaded struct {
	gpu     *ferry.GPU
	buffer  *ferry.Device[byte] // not the tensors that Options.Into had memory for
	plan    *layout
	further bool             // it is in also of another, without the tensors of Options.Into
	also    []*Loaded        // on further GPUs
	kernels *convert.Kernels // nil without conversions
}

// Placed is a tensor in memory.
type Placed struct {
	Info
	As     DType              // in memory: Info.DType, or what it was converted to
	Memory ferry.Memory[byte] // the bytes: a range of the buffer, or the memory that Options.Into had
	Sum    []byte             // of the hash that Options.Hash gave the tensor, nil without
}

// Tensors returns all tensors, in the order of their bytes in the files.
func (l *Loaded) Tensors() []Placed {
	if l == nil {
		return nil
	}
	all := make([]Placed, 0, len(l.plan.slots))
	for i := range l.slots() {
		all = append(all, l.placed(i))
	}
	return all
}

// Lookup returns the tensor of a name.
func (l *Loaded) Lookup(name string) (Placed, bool) {
	if l == nil {
		return Placed{}, false
	}
	i, ok := l.plan.index()[name]
	if !ok || !l.has(i) {
		return Placed{}, false
	}
	return l.placed(i), true
}

// has reports whether l has the tensor of a slot.
func (l *Loaded) has(i int) bool { return !l.further || l.plan.slots[i].given == nil }

// slots returns the slots of the tensors that l has.
func (l *Loaded) slots() iter.Seq2[int, *slot] {
	return func(yield func(int, *slot) bool) {
		for i := range l.plan.slots {
			if l.has(i) && !yield(i, &l.plan.slots[i]) {
				return
			}
		}
	}
}

// placed returns the tensor of a slot.
func (l *Loaded) placed(i int) Placed {
	s := &l.plan.slots[i]
	p := Placed{Info: *s.t, As: s.dtype, Memory: l.memory(s)}
	if len(l.plan.sums) > 0 {
		p.Sum = l.plan.sums[i]
	}
	return p
}

// memory returns the memory of a slot.
func (l *Loaded) memory(s *slot) ferry.Memory[byte] {
	if s.given != nil {
		return s.given
	}
	return l.buffer.Range(int(s.off), int(s.off+s.bytes))
}

// bufferOf returns the buffer if a slot has its place there, or nil.
func (l *Loaded) bufferOf(s *slot) *ferry.Device[byte] {
	if s.given != nil {
		return nil
	}
	return l.buffer
}

// Tensor returns the memory of a tensor as elements of type T. T is the number in Go that has the
// bits of the dtype: float32 for F32, uint16 for BF16 and F16, uint8 for BOOL and F8_E4M3,
// complex64 for C64, or an array of it. For a block that is no number, T is an array of its bytes:
// [18]byte for Q4_0. T can be byte for every dtype. Another T is an error that wraps
// cu.ErrorInvalidValue.
//
// The view has the elements in the order of [Info.Shape]: the last dimension varies fastest. It is
// valid until l is closed.
func Tensor[T any](l *Loaded, name string) (*ferry.MemoryView[T], error) {
	p, ok := l.Lookup(name)
	if !ok {
		return nil, refusal.Invalid("no tensor %s was loaded", printable.Value(name))
	}
	if err := p.As.fits(reflect.TypeFor[T]()); err != nil {
		return nil, refusal.Invalid("tensor %s: %v", printable.Value(name), err)
	}
	return ferry.View[T](p.Memory), nil
}

// On returns the tensors in memory of a further GPU, without those of [Options.Into]: see
// [Options.Also]. It returns l for l's GPU, and nil for a GPU that has no tensors. Close of l closes
// them.
func (l *Loaded) On(g *ferry.GPU) *Loaded {
	if l == nil || l.gpu == g {
		return l
	}
	for _, also := range l.also {
		if also.gpu == g {
			return also
		}
	}
	return nil
}

// GPU returns the GPU that has the buffer.
func (l *Loaded) GPU() *ferry.GPU {
	if l == nil {
		return nil
	}
	return l.gpu
}

// Buffer returns the memory in which the tensors stand, without those that [Options.Into] had memory
// for.
func (l *Loaded) Buffer() *ferry.Device[byte] {
	if l == nil {
		return nil
	}
	return l.buffer
}

// Bytes returns the size of the buffer, with the gaps between tensors.
func (l *Loaded) Bytes() int64 {
	if l == nil {
		return 0
	}
	return int64(l.buffer.Size())
}

// String returns a description: "291 tensors in 15.0 GiB on cuda:0".
func (l *Loaded) String() string {
	if l == nil {
		return "no loaded tensors (nil)"
	}
	n := 0
	for range l.slots() {
		n++
	}
	return fmt.Sprintf("%s in %s on %v", amount(n, "tensor"), refusal.Size(uintptr(l.Bytes())), l.gpu)
}

// Close frees the buffers when no operation uses them any more: see [ferry.Device.Close]. It may be
// called again, and on nil. It does not close the memory that [Options.Into] had.
func (l *Loaded) Close() error {
	if l == nil {
		return nil
	}
	errs := []error{l.closeOwn()}
	for _, also := range l.also {
		errs = append(errs, also.Close())
	}
	return refusal.Join(errs...)
}

// closeOwn closes what is on l's GPU.
func (l *Loaded) closeOwn() error { return refusal.Join(l.buffer.Close(), l.kernels.Close()) }

// abandon closes l for a Load that fails. What cannot be closed, Close of its GPU closes.
func (l *Loaded) abandon() error {
	errs := []error{bridge.CloseOrLeave(l.gpu, l.closeOwn)}
	for _, also := range l.also {
		errs = append(errs, also.abandon())
	}
	return refusal.Join(errs...)
}

package kernelargs

import (
	"encoding/binary"
	"fmt"
	"reflect"
	"slices"
	"unsafe"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/refusal"
)

// Unsafe: A value is read by the size of its own type, which has no Go pointers: the
// signature has checked both. The values are alive in the caller's list.

// Buffer is an argument buffer: the bytes of a kernel's parameters. An argument is memory
// if it is a pointer to a struct that consists of an M. The zero Buffer is ready to use.
// A Buffer that is used again allocates nothing. It is not safe for concurrent use.
type Buffer[M any] struct {
	Bytes  []byte      // the parameters; addresses of memory are zero
	Memory []Memory[M] // the memory arguments
}

// Memory is a memory argument, and the offset of its address in Buffer.Bytes.
type Memory[M any] struct {
	M  M
	At int
}

// Pack packs arguments for a kernel. An error names the parameter and the reason.
func (b *Buffer[M]) Pack(s *Signature, args []any) error {
	b.Reset()
	if !s.known {
		return b.packUnknown(args)
	}
	if len(args) != len(s.params) {
		return refusal.Invalid("%d arguments given, the kernel has %d parameters%v", len(args), len(s.params), s)
	}
	b.grow(s.size)
	for i := range args {
		var err error
		t := s.seen[i].Load()
		if t == nil || t.word != typeWord(&args[i]) {
			t, err = s.look(i, &args[i], reflect.TypeFor[M]())
		}
		if err == nil {
			err = b.put(t, &args[i])
		}
		if err != nil {
			return fmt.Errorf("%s: %w", s.Describe(s.params[i].Offset), err)
		}
	}
	return nil
}

// packUnknown packs arguments for a kernel whose parameters are not known.
func (b *Buffer[M]) packUnknown(args []any) error {
	for i := range args {
		t := typeOf(args[i], reflect.TypeFor[M]())
		if t.err != nil {
			return fmt.Errorf("argument %d: %w", i, t.err)
		}
		at := (len(b.Bytes) + t.align - 1) / t.align * t.align
		b.grow(at + t.size)
		if err := b.put(t.at(at), &args[i]); err != nil {
			return fmt.Errorf("argument %d: %w", i, err)
		}
	}
	return nil
}

// put writes an argument whose type fits. It reads the value of the interface without
// package reflect, so that the argument does not escape. It copies a memory argument for
// the same reason.
func (b *Buffer[M]) put(t *seenType, arg *any) error {
	p, to := dataOf(arg), b.Bytes[t.at:]
	switch {
	case t.class != classMemory:
		putValue(to, p, t.size)
		if t.padding != nil {
			t.padding.clear(to)
		}
	case p == nil:
		return refusal.Invalid("got a nil %s", t.name)
	default:
		m := b.addMemory()
		m.M, m.At = *(*M)(p), t.at // the buffer consists of M
	}
	return nil
}

// addMemory appends a memory argument, which the caller fills in place. A copy of a
// variable costs 10 ns more.
func (b *Buffer[M]) addMemory() *Memory[M] {
	n := len(b.Memory)
	if n == cap(b.Memory) {
		b.Memory = append(b.Memory, Memory[M]{})
	}
	b.Memory = b.Memory[:n+1]
	return &b.Memory[n]
}

// Reset empties the buffer and keeps its capacity.
func (b *Buffer[M]) Reset() {
	clear(b.Memory) // so that the garbage collector can free what M refers to
	b.Bytes, b.Memory = b.Bytes[:0], b.Memory[:0]
}

// grow extends Bytes to n bytes. The new bytes are zero.
func (b *Buffer[M]) grow(n int) {
	old := len(b.Bytes)
	if n > cap(b.Bytes) {
		b.Bytes = slices.Grow(b.Bytes, n-old)
	}
	b.Bytes = b.Bytes[:n]
	clear(b.Bytes[old:])
}

// putValue writes a value of size bytes.
func putValue(to []byte, p unsafe.Pointer, size int) {
	switch size {
	case 8:
		binary.NativeEndian.PutUint64(to, *(*uint64)(p))
	case 4:
		binary.NativeEndian.PutUint32(to, *(*uint32)(p))
	default:
		copy(to, unsafe.Slice((*byte)(p), size))
	}
}

// PutAddress writes a device address.
func PutAddress(to []byte, p cu.DevicePtr) { binary.NativeEndian.PutUint64(to, uint64(p)) }

// dataOf returns the second word of an interface: the pointer that it holds, or the
// address of the value that it holds. Other types that the runtime stores as a pointer,
// such as a struct of one pointer, are not valid arguments.
func dataOf(arg *any) unsafe.Pointer { return (*[2]unsafe.Pointer)(unsafe.Pointer(arg))[1] }

// typeWord returns the first word of an interface, which identifies the type.
func typeWord(arg *any) uintptr { return (*[2]uintptr)(unsafe.Pointer(arg))[0] }

package ferry

import (
	"encoding/binary"
	"unsafe"

	"github.com/ferrygpu/ferry/cu"
)

// put writes an argument whose type fits to its place in the parameter buffer.
// What an interface holds is read past reflection, so that launching allocates
// nothing: the argument does not escape.
func (f *frame) put(q *queue, m *argMemo, arg *any) error {
	p, to := dataOf(arg), f.params[m.at:]
	if m.class == argMemory && p != nil && q != nil {
		r := (*region)(p) // the only field of every buffer
		if r.bad == nil && r.dev != 0 && r.isOf(q.g) && (f.has(r) || f.hold(q, &r.a.flight, writes, r.age)) {
			putAddress(to, r.dev)
			return nil
		}
		return f.address(q, to, r)
	}
	switch {
	case m.class != argMemory && m.size == 8:
		binary.NativeEndian.PutUint64(to, *(*uint64)(p))
	case m.class != argMemory && m.size == 4:
		binary.NativeEndian.PutUint32(to, *(*uint32)(p))
	case m.class != argMemory:
		copy(to, unsafe.Slice((*byte)(p), m.size))
	case p == nil:
		return refuse("got a nil %s", m.name)
	default:
		f.places = append(f.places, place{*(*region)(p), m.at})
	}
	return nil
}

// dataOf is the second word of an interface: the pointer it holds, or the address
// of the value it holds. Types whose values are pointers in another guise, a
// struct of one pointer say, are no arguments.
func dataOf(arg *any) unsafe.Pointer { return (*[2]unsafe.Pointer)(unsafe.Pointer(arg))[1] }

// typeWord is the first word of an interface, which stands for the type.
func typeWord(arg *any) uintptr { return (*[2]uintptr)(unsafe.Pointer(arg))[0] }

// putAddress writes a device address.
func putAddress(to []byte, p cu.DevicePtr) { binary.NativeEndian.PutUint64(to, uint64(p)) }

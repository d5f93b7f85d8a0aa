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
	switch {
	case m.class == argMemory && p != nil && q != nil:
		return f.address(q, to, (*region)(p)) // the only field of every buffer
	case m.class != argMemory:
		putValue(to, p, m.size)
	case p == nil:
		return refuse("got a nil %s", m.name)
	default:
		f.places = append(f.places, place{*(*region)(p), m.at})
	}
	return nil
}

// packKnown is pack with arguments of the types of last time that need no second look.
// It is false where there is more to it.
func (f *frame) packKnown(q *queue, k *Kernel, args []any) bool {
	if !k.known || len(args) != len(k.memos) {
		return false
	}
	f.size(k.size)
	g, params, last := q.g, f.params, (*region)(nil)
	for i := range args {
		arg, m := &args[i], k.memos[i].Load()
		if m == nil || m.word != typeWord(arg) {
			return false
		}
		p, to := dataOf(arg), params[m.at:]
		if m.class != argMemory {
			putValue(to, p, m.size)
			continue
		}
		r := (*region)(p)
		if r == nil || r.bad != nil || r.dev == 0 || !r.isOf(g) {
			return false
		}
		if last == nil || last.a != r.a || last.age != r.age {
			if !f.hold(q, &r.a.flight, writes, r.age) {
				return false
			}
			last = r
		}
		putAddress(to, r.dev)
	}
	return true
}

// putValue writes a value of so many bytes.
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

// dataOf is the second word of an interface: the pointer it holds, or the address
// of the value it holds. Types whose values are pointers in another guise, a
// struct of one pointer say, are no arguments.
func dataOf(arg *any) unsafe.Pointer { return (*[2]unsafe.Pointer)(unsafe.Pointer(arg))[1] }

// typeWord is the first word of an interface, which stands for the type.
func typeWord(arg *any) uintptr { return (*[2]uintptr)(unsafe.Pointer(arg))[0] }

// putAddress writes a device address.
func putAddress(to []byte, p cu.DevicePtr) { binary.NativeEndian.PutUint64(to, uint64(p)) }

package kerneltest

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
)

// buffer is the device memory of an argument. On hardware it has guard bands on both
// sides. The software GPU needs none, because it reports an access outside.
type buffer struct {
	memory  any // a *ferry.Device[T] without the guard bands
	address cu.DevicePtr
	guard   int // bytes on each side
	read    func() ([]byte, error)
	close   func() error
}

// memoryOf returns the memory of an argument, allocated and filled on the first call.
func memoryOf[T any](t *trial, i int) (*ferry.Device[T], error) {
	if b := t.buffers[i]; b != nil {
		d, ok := b.memory.(*ferry.Device[T])
		if !ok {
			return nil, fmt.Errorf("it is already in use as %T", b.memory)
		}
		return d, nil
	}
	guard := 0
	if t.guards {
		guard = guardElements[T]()
	}
	d, b, err := newBuffer[T](t.g, t.stream, t.before[i], guard)
	if err != nil {
		return nil, err
	}
	t.buffers[i] = b
	return d, nil
}

// guardElements returns the length of a guard band: at least 4 KiB, and a multiple of the
// 256 bytes to which allocations are aligned.
func guardElements[T any]() int {
	return 256 * max(1, 16/sizeOf[T]())
}

// sizeOf returns the size of a T in bytes.
func sizeOf[T any]() int { return int(reflect.TypeFor[T]().Size()) }

// newBuffer allocates device memory with guard elements on each side, and copies data
// between them.
func newBuffer[T any](g *ferry.GPU, s *ferry.Stream, data []byte, guard int) (*ferry.Device[T], *buffer, error) {
	size := sizeOf[T]()
	n := len(data) / size
	whole, err := ferry.Alloc[T](g, n+2*guard)
	if err != nil {
		return nil, nil, err
	}
	host := make([]byte, len(data)+2*guard*size)
	for i := range host {
		host[i] = guardByte(i)
	}
	copy(host[guard*size:], data)
	if err := ferry.Copy(s, ferry.Memory[T](whole), ferry.Memory[T](ferry.Pageable(sliceOf[T](host)))); err != nil {
		return nil, nil, errors.Join(err, whole.Close())
	}
	part := whole.Range(guard, guard+n)
	b := &buffer{memory: part, address: part.Pointer(), guard: guard * size, close: whole.Close}
	b.read = func() ([]byte, error) {
		all := make([]byte, len(host))
		err := ferry.Copy(s, ferry.Memory[T](ferry.Pageable(sliceOf[T](all))), ferry.Memory[T](whole))
		return all, err
	}
	return part, b, nil
}

// guardByte returns byte i of a guard band.
func guardByte(i int) byte { return byte(131*i + 89) }

// results returns the bytes of a buffer after the launch. The error says which bytes of
// the guard bands were written.
func (b *buffer) results() ([]byte, error) {
	all, err := b.read()
	if err != nil {
		return nil, err
	}
	end := len(all) - b.guard
	return all[b.guard:end], b.checkGuards(all, end)
}

func (b *buffer) checkGuards(all []byte, end int) error {
	first, last, written := 0, 0, 0
	for i, v := range all {
		if (i < b.guard || i >= end) && v != guardByte(i) {
			if written == 0 {
				first = i
			}
			last = i
			written++
		}
	}
	if written == 0 {
		return nil
	}
	return fmt.Errorf("the kernel wrote outside of the buffer of %s: %s, from byte %d to byte %d of the buffer",
		counted(end-b.guard, "byte", "bytes"), counted(written, "byte", "bytes"), first-b.guard, last-b.guard)
}

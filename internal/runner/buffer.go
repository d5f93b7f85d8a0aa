package runner

import (
	"context"
	"fmt"

	"github.com/ferrygpu/ferry"
)

// buffer is an argument's memory on its way through a run.
type buffer struct {
	parameter int
	arg       *Arg
	size      int // bytes

	memory ferry.Memory[byte]
	host   []byte // what the CPU fills and reads; the memory itself where it can
	close  func() error
}

// allocate makes the memory of a buffer, of the kind that was asked for.
func (r *run) allocate(b *buffer) error {
	switch r.spec.Memory {
	case MappedMemory:
		h, err := ferry.AllocHost[byte](r.g, b.size, &ferry.HostOptions{Mapped: true})
		if err != nil {
			return err
		}
		b.memory, b.host, b.close = h, h.Slice(), h.Close
	case ManagedMemory:
		m, err := ferry.AllocManaged[byte](r.g, b.size, nil)
		if err != nil {
			return err
		}
		b.memory, b.host, b.close = m, m.Slice(), m.Close
	default:
		d, err := ferry.Alloc[byte](r.g, b.size)
		if err != nil {
			return err
		}
		b.memory, b.close = d, d.Close
	}
	return nil
}

// upload makes the data of a buffer and brings it where the kernel finds it.
func (r *run) upload(ctx context.Context, b *buffer) error {
	if b.host != nil {
		return b.arg.fill(b.host, r.spec.Seed, b.parameter)
	}
	if b.arg.from == fromZeros {
		return ferry.Fill(r.stream, b.memory, 0)
	}
	data := make([]byte, b.size)
	if err := b.arg.fill(data, r.spec.Seed, b.parameter); err != nil {
		return err
	}
	if err := ferry.Copy(r.stream, b.memory, ferry.Memory[byte](ferry.Plain(data))); err != nil {
		return err
	}
	return r.stream.Wait(ctx)
}

// download is what the buffer holds after the launch. The bytes of managed and
// mapped memory are those of the buffer: they are gone when it is closed.
func (r *run) download(ctx context.Context, b *buffer) ([]byte, error) {
	switch m := b.memory.(type) {
	case *ferry.Host[byte]:
		return m.Slice(), nil
	case *ferry.Managed[byte]:
		return m.Slice(), nil
	}
	data := make([]byte, b.size)
	if err := ferry.Copy(r.stream, ferry.Memory[byte](ferry.Plain(data)), b.memory); err != nil {
		return nil, err
	}
	return data, r.stream.Wait(ctx)
}

// describe names a buffer in an error.
func (b *buffer) describe() string {
	return fmt.Sprintf("parameter %d, %s", b.parameter, shorten(b.arg.Text, 60))
}

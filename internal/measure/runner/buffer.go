package runner

import (
	"context"
	"fmt"

	"github.com/ferrygpu/ferry"
)

// buffer is the memory of an argument during a run.
type buffer struct {
	parameter int
	arg       *Arg
	size      int // bytes

	memory ferry.Memory[byte]
	host   []byte // the memory as the CPU sees it; nil for device memory
	close  func() error
}

// allocate allocates a buffer in the kind of memory that the launch asks for.
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

// chunkSize is how many bytes are copied at a time between device and pageable memory.
const chunkSize = 32 << 20

// upload generates the data of a buffer and moves it to the buffer's memory.
func (r *run) upload(ctx context.Context, b *buffer) error {
	if b.host == nil && b.arg.from == fromZeros {
		return ferry.Fill(r.stream, b.memory, 0)
	}
	src, err := b.arg.open(r.spec.Seed, b.parameter)
	if err != nil {
		return err
	}
	defer src.close()
	if b.host != nil {
		return src.read(b.host)
	}
	return r.eachChunk(ctx, b, func(device ferry.Memory[byte], host []byte) error {
		if err := src.read(host); err != nil {
			return err
		}
		return ferry.Copy(r.stream, device, ferry.Memory[byte](ferry.Pageable(host)))
	})
}

// download reads the output of a buffer after the launch.
func (r *run) download(ctx context.Context, b *buffer) (Output, error) {
	out := newCollector(b.parameter, b.arg, b.size)
	switch m := b.memory.(type) {
	case *ferry.Host[byte]:
		out.add(m.ReadSlice())
	case *ferry.Managed[byte]:
		out.add(m.ReadSlice())
	default:
		err := r.eachChunk(ctx, b, func(device ferry.Memory[byte], host []byte) error {
			if err := ferry.Copy(r.stream, ferry.Memory[byte](ferry.Pageable(host)), device); err != nil {
				return err
			}
			out.add(host)
			return nil
		})
		if err != nil {
			return Output{}, err
		}
	}
	return out.output()
}

// eachChunk calls move for each chunk of a device buffer, with pageable memory of the
// same length. Copies with pageable memory are done when they return, so all chunks share
// that memory.
func (r *run) eachChunk(ctx context.Context, b *buffer, move func(device ferry.Memory[byte], host []byte) error) error {
	device, ok := b.memory.(*ferry.Device[byte])
	if !ok {
		return fmt.Errorf("BUG: %s is not in device memory", b.describe())
	}
	host := make([]byte, min(b.size, chunkSize))
	for at := 0; at < b.size; at += chunkSize {
		if err := ctx.Err(); err != nil {
			return err
		}
		end := min(at+chunkSize, b.size)
		if err := move(device.Range(at, end), host[:end-at]); err != nil {
			return err
		}
	}
	return nil
}

// describe names a buffer for error messages.
func (b *buffer) describe() string {
	return fmt.Sprintf("parameter %d, %s", b.parameter, shorten(b.arg.Text, 60))
}

package differ

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
)

// Bench runs kernels of one module on one device. It is not safe for concurrent use.
type Bench struct {
	g      *ferry.GPU
	stream *ferry.Stream
	module *ferry.Module
}

// maxTime is the time after which a kernel is taken to hang.
const maxTime = time.Minute

// Open loads PTX into the first device of a driver. The caller must call Close.
func Open(d cu.Driver, ptx []byte) (*Bench, error) { return OpenWith(d, ptx, nil) }

// OpenWith is [Open] with options of the compiler.
func OpenWith(d cu.Driver, ptx []byte, o *ferry.LoadOptions) (*Bench, error) {
	g, err := ferry.OpenDriver(d, 0)
	if err != nil {
		return nil, err
	}
	b := &Bench{g: g}
	if b.stream, err = ferry.NewStream(g, nil); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	if b.module, err = ferry.Load(g, ptx, o); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

// Close closes the module and the device.
func (b *Bench) Close() error {
	var all []error
	if b.module != nil {
		all = append(all, b.module.Close())
	}
	if b.stream != nil {
		all = append(all, b.stream.Close())
	}
	return errors.Join(append(all, b.g.Close())...)
}

// Run launches a case with inputs, one for each argument, nil for values. It returns the
// contents of the buffers afterwards, by argument.
func (b *Bench) Run(c *Case, inputs [][]byte) ([][]byte, error) {
	outputs, err := b.run(c, inputs)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Kernel, err)
	}
	return outputs, nil
}

func (b *Bench) run(c *Case, inputs [][]byte) (outputs [][]byte, err error) {
	kernel, err := b.module.Kernel(c.Kernel)
	if err != nil {
		return nil, err
	}
	buffers := make([]*ferry.Device[byte], len(inputs))
	defer func() {
		for _, d := range buffers {
			err = errors.Join(err, d.Close())
		}
	}()
	args := make([]any, len(inputs))
	for i, a := range c.Args {
		if args[i] = a.Value; a.Value != nil {
			continue
		}
		if buffers[i], err = b.upload(inputs[i]); err != nil {
			return nil, err
		}
		args[i] = buffers[i]
	}
	if err := b.stream.Launch(kernel, ferry.LaunchConfig{Grid: c.Grid, Block: c.Block, SharedBytes: c.Shared}, args...); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), maxTime)
	defer cancel()
	if err := b.stream.Wait(ctx); err != nil {
		return nil, err
	}
	return b.download(buffers)
}

func (b *Bench) upload(data []byte) (*ferry.Device[byte], error) {
	d, err := ferry.Alloc[byte](b.g, len(data))
	if err != nil {
		return nil, err
	}
	if err := ferry.Copy(b.stream, d, ferry.Pageable(slices.Clone(data))); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

func (b *Bench) download(buffers []*ferry.Device[byte]) ([][]byte, error) {
	outputs := make([][]byte, len(buffers))
	for i, d := range buffers {
		if d == nil {
			continue
		}
		outputs[i] = make([]byte, d.Len())
		if err := ferry.Copy(b.stream, ferry.Pageable(outputs[i]), d); err != nil {
			return nil, err
		}
	}
	return outputs, b.stream.Wait(context.Background())
}

// The command checksum prints the CRC-32C of a file or of standard input, of any size. Package pipeline reads the data
// and moves it through the GPU, or the software GPU if there is none. The kernel computes a remainder for every 4096
// bytes, and the CPU combines them. So the memory that it needs does not depend on the size.
//
//	go run ./examples/checksum --check README.md
//
// With --check the CPU computes the checksum, too, and the program fails if the two differ.
//
// After a change of crc.cu: go generate ./examples/checksum.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"hash/crc32"
	"io"
	"log"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/pipeline"
)

//go:generate go run github.com/ferrygpu/ferry/cmd/ferry bind crc.cu

func main() {
	device := flag.String("device", "", "the device, such as cuda:1 or soft; empty is FERRY_DEVICE, else a GPU if there is one")
	check := flag.Bool("check", false, "compute the checksum on the CPU, too, and compare")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *device, flag.Arg(0), *check); err != nil {
		log.Fatal(err)
	}
}

// run prints the checksum of a file, or of standard input if path is empty.
func run(ctx context.Context, device, path string, check bool) (err error) {
	var open closers
	defer func() { err = errors.Join(err, open.Close()) }()
	gpu, err := ferry.Open(device)
	if err != nil {
		return err
	}
	open = append(open, gpu)
	in := os.Stdin
	if path != "" {
		if in, err = os.Open(path); err != nil {
			return err
		}
		open = append(open, in)
	}
	data, onCPU := io.Reader(in), crc32.New(castagnoli)
	if check {
		data = io.TeeReader(in, onCPU)
	}
	sum, n, err := checksum(ctx, gpu, data)
	if err != nil {
		return fmt.Errorf("checksum of %s: %w", in.Name(), err)
	}
	if want := onCPU.Sum32(); check && sum != want {
		return fmt.Errorf("checksum of %s: %v computed %08x, the CPU %08x", in.Name(), gpu, sum, want)
	}
	fmt.Printf("%08x  %d bytes  %s\n", sum, n, in.Name())
	return nil
}

// checksum returns the CRC-32C of what a reader has, and the number of its bytes.
func checksum(ctx context.Context, gpu *ferry.GPU, in io.Reader) (sum uint32, n int64, err error) {
	var open closers
	defer func() { err = errors.Join(err, open.Close()) }()
	kernels, err := LoadCrc(gpu)
	if err != nil {
		return 0, 0, err
	}
	open = append(open, kernels)
	table, err := ferry.Upload(gpu, slices.Concat(newFactor(128)[:]...))
	if err != nil {
		return 0, 0, err
	}
	open = append(open, table)
	blocks, rest, err := split(in)
	if err != nil {
		return 0, 0, err
	}
	whole := newCombiner()
	p := &pipeline.Pipeline{
		GPU: gpu,
		In:  []pipeline.End{pipeline.From[block](blocks)},
		Out: []pipeline.End{pipeline.To[uint32](whole)},
		Step: func(s *ferry.Stream, c *pipeline.Chunk) error {
			words, results := ferry.View[uint32](c.In[0]), ferry.View[uint32](c.Out[0])
			return kernels.Remainders(s, ferry.Cover(32*c.Len, 128), words, results, table, uint32(c.Len))
		},
	}
	open = append(open, p)
	count, err := p.Run(ctx)
	if err != nil {
		return 0, 0, err
	}
	tail, err := io.ReadAll(rest)
	if err != nil {
		return 0, 0, err
	}
	return crc32.Update(whole.Sum(), castagnoli, tail), int64(count)*blockSize + int64(len(tail)), nil
}

// closers are what is open, in the order in which it was opened.
type closers []io.Closer

// Close closes all, the last one first, and returns all errors.
func (c closers) Close() (err error) {
	for _, x := range slices.Backward(c) {
		err = errors.Join(err, x.Close())
	}
	return err
}

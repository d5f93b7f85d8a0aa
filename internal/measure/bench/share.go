package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/kernels"
)

// ShareCost compares rounds of sharing a buffer with the same calls from C.
type ShareCost struct {
	Rounds            int
	NS, InC           float64 // medians of a round; InC is 0 without a peer
	Files, FilesAtEnd int     // descriptors of the process after the first round, and after the last; 0 where unknown
	Free, FreeAtEnd   int     // bytes of the device that are free, then
}

// Ratio returns the time of Ferry as a multiple of the time of C, 0 without a peer.
func (c *ShareCost) Ratio() float64 {
	if c.InC == 0 {
		return 0
	}
	return c.NS / c.InC
}

// Flat reports whether the rounds have left no descriptor and no memory of the device behind.
func (c *ShareCost) Flat() bool { return c.FilesAtEnd <= c.Files && c.FreeAtEnd >= c.Free }

const (
	shareBytes = 2 << 20 // of the buffer, the granularity of hardware
	sharePage  = 1024    // elements that a kernel changes at each end
	shareWarm  = 5       // rounds before the first that counts
)

// Share measures rounds in which a buffer is exported, imported, changed by a kernel on one page at
// each end, and the import closed. peer is the path of a library compiled from
// internal/measure/bench/peer/share.c, or "". Each round of Ferry has one of C before or after it.
func Share(g *ferry.GPU, peer string, rounds int) (_ *ShareCost, err error) {
	var undo closers
	defer func() { err = errors.Join(err, undo.close()) }()
	x, err := newSharer(g, &undo)
	if err != nil {
		return nil, fmt.Errorf("measure sharing on %s: %w", g, err)
	}
	inC, err := x.inC(peer, &undo)
	if err != nil {
		return nil, fmt.Errorf("measure sharing on %s: %w", g, err)
	}
	c, err := x.measure(inC, rounds)
	if err != nil {
		return nil, fmt.Errorf("measure sharing on %s: %w", g, err)
	}
	return c, x.check(rounds, peer != "")
}

// sharer has what a round needs.
type sharer struct {
	g      *ferry.GPU
	buffer *ferry.Device[float32]
	stream *ferry.Stream
	inc    *ferry.Kernel
	config ferry.LaunchConfig
}

func newSharer(g *ferry.GPU, undo *closers) (x *sharer, err error) {
	x = &sharer{g: g, config: ferry.Cover(sharePage, 256)}
	x.buffer, err = ferry.AllocVirtual[float32](g, shareBytes/4, &ferry.VirtualOptions{Share: true})
	if undo.add(err, func() error { return x.buffer.Close() }) != nil {
		return nil, err
	}
	x.stream, err = ferry.NewStream(g, nil)
	if undo.add(err, func() error { return x.stream.Close() }) != nil {
		return nil, err
	}
	m, err := ferry.Load(g, []byte(kernels.PTX), nil)
	if undo.add(err, func() error { return m.Close() }) != nil {
		return nil, err
	}
	if x.inc, err = m.Kernel("increment"); err != nil {
		return nil, err
	}
	return x, ferry.Copy(x.stream, x.buffer, ferry.Pageable(make([]float32, shareBytes/4)))
}

// round makes one round by Ferry.
func (x *sharer) round() (took time.Duration, err error) {
	start := time.Now()
	f, err := ferry.Share(x.buffer)
	if err != nil {
		return 0, err
	}
	d, err := ferry.Import[float32](x.g, f, shareBytes/4)
	if err = errors.Join(err, f.Close()); err != nil {
		return 0, err
	}
	for _, first := range []int{0, shareBytes/4 - sharePage} {
		err = errors.Join(err, x.stream.Launch(x.inc, x.config, d.Range(first, first+sharePage), uint64(sharePage)))
	}
	err = errors.Join(err, x.stream.Wait(context.Background()), d.Close())
	return time.Since(start), err
}

// inC returns a function that makes one round by C, which returns 0 without a peer.
func (x *sharer) inC(peer string, undo *closers) (func() (time.Duration, error), error) {
	if peer == "" {
		return func() (time.Duration, error) { return 0, nil }, nil
	}
	l, err := openLibrary(peer)
	if err != nil {
		return nil, err
	}
	d, ctx := x.g.Driver(), x.g.CUContext()
	s, err := d.StreamCreate(ctx, cu.StreamNonBlocking) // its own: Ferry follows the work of x.stream
	if undo.add(err, func() error { return d.StreamDestroy(ctx, s) }) != nil {
		return nil, err
	}
	args := []uintptr{uintptr(ctx), uintptr(s), uintptr(x.inc.Handle()), uintptr(x.g.CUDevice()), uintptr(x.buffer.Pointer()), shareBytes, sharePage}
	return func() (time.Duration, error) {
		r, err := l("share_once", args...)
		if took := int64(r); err == nil && took < 0 {
			err = cu.Result(-took)
		}
		return time.Duration(r), err
	}, nil
}

// measure makes the rounds, in turns.
func (x *sharer) measure(inC func() (time.Duration, error), rounds int) (*ShareCost, error) {
	c := &ShareCost{Rounds: rounds}
	var here, there []time.Duration
	for i := range shareWarm + rounds {
		turns := []func() error{
			func() error { took, err := x.round(); here = append(here, took); return err },
			func() error { took, err := inC(); there = append(there, took); return err },
		}
		if i%2 == 1 {
			slices.Reverse(turns)
		}
		if err := errors.Join(turns[0](), turns[1]()); err != nil {
			return nil, fmt.Errorf("round %d: %w", i, err)
		}
		if i == shareWarm-1 {
			if err := x.count(&c.Files, &c.Free); err != nil {
				return nil, err
			}
		}
	}
	c.NS, c.InC = float64(Median(here[shareWarm:])), float64(Median(there[shareWarm:]))
	return c, x.count(&c.FilesAtEnd, &c.FreeAtEnd)
}

// count counts the descriptors of the process and the free memory of the device.
func (x *sharer) count(files, free *int) (err error) {
	if list, err := os.ReadDir("/proc/self/fd"); err == nil {
		*files = len(list)
	}
	*free, _, err = x.g.MemInfo()
	return err
}

// check compares the pages at both ends of the buffer with what all rounds have added.
func (x *sharer) check(rounds int, peer bool) error {
	want := float32(shareWarm + rounds)
	if peer {
		want *= 2
	}
	got := make([]float32, shareBytes/4)
	if err := ferry.Copy(x.stream, ferry.Pageable(got), x.buffer); err != nil {
		return err
	}
	for i, v := range got {
		if end := i < sharePage || i >= len(got)-sharePage; end && v != want || !end && v != 0 {
			return fmt.Errorf("element %d is %v after %d rounds, want %v at both ends and 0 between", i, v, rounds, want)
		}
	}
	return nil
}
